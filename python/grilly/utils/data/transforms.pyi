from grilly.compat.upstream.utils.data.transforms import *
