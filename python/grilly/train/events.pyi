from grilly.train.curve import *
