from grilly.train.trainer import *
