from grilly.compat.upstream.utils import *
