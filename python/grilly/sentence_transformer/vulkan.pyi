from grilly.compat.upstream.sentence_transformer import *
