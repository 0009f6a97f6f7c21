from grilly.compat.upstream.utils.data import *
