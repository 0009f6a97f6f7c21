"""Numbers of 8, 2 and 1 bits: quantisers, their inverses, linear layers over them, and the formats of files.

A scale is what numbers were multiplied by before rounding: `x` is nearly `q / scale`. Functions take and give NumPy
arrays, or arrays on a device, as those of `grilly.functional`; the sums of integers are exact on every device.
"""

from grilly.quant.activations import *
from grilly.quant.bitlinear import *
from grilly.quant.conversion import *
from grilly.quant.rows import *
from grilly.quant.weights import *
