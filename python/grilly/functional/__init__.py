"""The operations as functions: NumPy in and out, or arrays on a device in and out; any rank and strides.

With an operand on a device, the operation runs there and the result stays there. Otherwise it runs on the default
device, and the result is a NumPy array. float16 stays float16, computed in float32; other numbers become float32.
"""

from typing import TYPE_CHECKING

from grilly.functional.activations import *
from grilly.functional.attention import *
from grilly.functional.attention_parts import *
from grilly.functional.choosing import *
from grilly.functional.cross_entropy import *
from grilly.functional.dropout import *
from grilly.functional.embedding import *
from grilly.functional.gates import *
from grilly.functional.hebbian import *
from grilly.functional.linear import *
from grilly.functional.losses import *
from grilly.functional.neurogenesis import *
from grilly.functional.norms import *
from grilly.functional.optimisers import *
from grilly.functional.positions import *
from grilly.functional.streaming import *
from grilly.functional.whitening import *
from grilly.names import left_out, of_modules

# The names of the family modules, in their order. Type checkers follow the imports; they reject a computed list.
if not TYPE_CHECKING:
    __all__ = of_modules(globals())


__getattr__ = left_out("grilly.functional")
