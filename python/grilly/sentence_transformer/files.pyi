from grilly.sentence_transformer.saved_files import *
