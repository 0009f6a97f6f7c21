from grilly.compat.upstream.utils.data.datasets import *
