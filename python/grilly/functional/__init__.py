"""The operations as functions: NumPy in and out, or arrays on a device in and out; any rank and strides.

With an operand on a device, the operation runs there and the result stays there. Otherwise it runs on the default
device, and the result is a NumPy array. float16 stays float16, computed in float32; other numbers become float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grilly.functional.activations import *
from grilly.functional.activations import __all__ as _activations
from grilly.functional.attention import *
from grilly.functional.attention import __all__ as _attention
from grilly.functional.attention_parts import *
from grilly.functional.attention_parts import __all__ as _attention_parts
from grilly.functional.cross_entropy import *
from grilly.functional.cross_entropy import __all__ as _cross_entropy
from grilly.functional.dropout import *
from grilly.functional.dropout import __all__ as _dropout
from grilly.functional.embedding import *
from grilly.functional.embedding import __all__ as _embedding
from grilly.functional.gates import *
from grilly.functional.gates import __all__ as _gates
from grilly.functional.linear import *
from grilly.functional.linear import __all__ as _linear
from grilly.functional.losses import *
from grilly.functional.losses import __all__ as _losses
from grilly.functional.norms import *
from grilly.functional.norms import __all__ as _norms
from grilly.functional.optimisers import *
from grilly.functional.optimisers import __all__ as _optimisers
from grilly.functional.positions import *
from grilly.functional.positions import __all__ as _positions
from grilly.functional.whitening import *
from grilly.functional.whitening import __all__ as _whitening
from grilly.names import left_out

# The `__all__` of the family modules, in their order. Type checkers follow the imports; they reject a computed list.
if not TYPE_CHECKING:
    __all__ = [
        *_activations,
        *_attention,
        *_attention_parts,
        *_cross_entropy,
        *_dropout,
        *_embedding,
        *_gates,
        *_linear,
        *_losses,
        *_norms,
        *_optimisers,
        *_positions,
        *_whitening,
    ]


__getattr__ = left_out("grilly.functional")
