from grilly.quant.rows import *
