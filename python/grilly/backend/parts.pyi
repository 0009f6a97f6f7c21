from grilly.compat.upstream.backend.parts import *
