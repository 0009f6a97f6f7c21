from grilly.compat.upstream.backend._bridge import *
