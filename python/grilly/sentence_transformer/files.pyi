from grilly.sentence_transformer.saving import *
