from grilly.optim.rates import *
