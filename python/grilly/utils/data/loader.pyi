from grilly.compat.upstream.utils.data.loader import *
