from grilly.compat.upstream.backend import *
