from grilly.tensors import *
