from grilly.token_features import *
