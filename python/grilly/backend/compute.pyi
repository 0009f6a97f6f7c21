from grilly.compat.upstream.backend.compute import *
