"""Optimisers and schedules of the learning rate with upstream's signatures, which are torch's."""

from typing import TYPE_CHECKING

from grilly.names import left_out, of_modules
from grilly.optim.adam import *
from grilly.optim.optimizer import *
from grilly.optim.rates import *
from grilly.optim.schedules import *
from grilly.optim.sgd import *

# The names of its modules. Type checkers follow the imports; they reject a computed list.
if not TYPE_CHECKING:
    __all__ = of_modules(globals())


__getattr__ = left_out("grilly.optim")
