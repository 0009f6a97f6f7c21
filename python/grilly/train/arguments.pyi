from grilly.train.text import *
