from grilly.compat.upstream.backend.buffers import *
