from grilly.sentence_transformer.model import *
