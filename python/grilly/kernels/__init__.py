"""The kernels that models run, as objects, and the fused ones as functions.

`get(name, **options)` creates a kernel and `names()` lists them.
"""

from typing import TYPE_CHECKING

from grilly.errors import SharedMemoryError as SharedMemoryError
from grilly.kernels.constructors import *
from grilly.kernels.constructors import __all__ as _constructors
from grilly.kernels.export import *
from grilly.kernels.export import __all__ as _export
from grilly.kernels.flash import *
from grilly.kernels.flash import __all__ as _flash
from grilly.kernels.fused import *
from grilly.kernels.fused import __all__ as _fused
from grilly.kernels.kernel import *
from grilly.kernels.kernel import __all__ as _kernel

# Type checkers follow the imports; they reject a computed list.
if not TYPE_CHECKING:
    __all__ = ["SharedMemoryError", *_constructors, *_export, *_flash, *_fused, *_kernel]
