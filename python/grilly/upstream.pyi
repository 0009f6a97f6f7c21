from grilly.compat.upstream.names import *
