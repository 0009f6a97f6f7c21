from grilly.compat.upstream.utils.initialization import *
