from grilly.compat.upstream.utils.data.samplers import *
