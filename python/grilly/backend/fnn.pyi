from grilly.compat.upstream.backend.fnn import *
