from grilly.nn.layers import *
