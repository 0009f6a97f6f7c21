from grilly.compat.upstream.utils.checkpoint import *
