"""Layers with upstream's signatures, on `grilly.functional`: NumPy in and out, or arrays on a device in and out."""

from typing import TYPE_CHECKING

from grilly.names import left_out, of_modules
from grilly.nn.activations import *
from grilly.nn.attention import *
from grilly.nn.containers import *
from grilly.nn.gates import *
from grilly.nn.hebbian import *
from grilly.nn.layers import *
from grilly.nn.losses import *
from grilly.nn.module import *
from grilly.nn.neurogenesis import *
from grilly.nn.norms import *
from grilly.nn.parameter import *
from grilly.nn.transformer import *
from grilly.nn.whitening import *

# The names of its modules. Type checkers follow the imports; they reject a computed list.
if not TYPE_CHECKING:
    __all__ = of_modules(globals())


__getattr__ = left_out("grilly.nn")
