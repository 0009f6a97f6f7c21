"""What grilly raises: each class is also the built-in class a Python user would expect to catch."""

__all__ = [
    "CompilationFailed",
    "DeviceError",
    "DeviceLostError",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "FunctionNotFound",
    "GrillyError",
    "IndexOutOfRangeError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "ModelFormatError",
    "ModelNotFoundError",
    "NotFiniteError",
    "PipelineCreationFailed",
    "ShaderNotFound",
    "SharedMemoryError",
    "StoppedError",
    "UnsupportedError",
    "UnsupportedNameError",
    "UnusableError",
    "WeightsError",
]


class GrillyError(Exception):
    """The base of every exception of this package."""


class ModelNotFoundError(GrillyError, FileNotFoundError):
    """A model's name leads nowhere; the message lists each place that was tried."""


class ModelFormatError(GrillyError, ValueError):
    """A file of the model cannot be used as it is; the message names the file and, if there is one, the remedy."""


class WeightsError(ModelFormatError):
    """The model's tensors are not those its architecture asks for; the message names every fault at once."""


class InvalidArgumentError(GrillyError, ValueError):
    """An argument has the right type and an impossible value."""


class InvalidTypeError(GrillyError, TypeError):
    """An argument has the wrong type."""


class IndexOutOfRangeError(GrillyError, IndexError):
    """An index, such as the number of a device, is outside its range."""


class UnsupportedError(GrillyError, NotImplementedError, ValueError):
    """What was asked for is well formed, and this version or device does not do it."""


class UnsupportedNameError(UnsupportedError, AttributeError):
    """A name of sentence-transformers that this package leaves out; the message says what to do in its place."""


class DeviceUnavailableError(GrillyError, RuntimeError):
    """There is no usable device of the kind asked for, and `GRILLY_STRICT=1` forbids the CPU in its place."""


class DeviceError(GrillyError, RuntimeError):
    """A call to the device's driver failed, and `GRILLY_STRICT=1` forbids the CPU in its place."""


class DeviceLostError(DeviceError):
    """The device was reset or removed, and `GRILLY_STRICT=1` forbids the CPU in its place."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The device, or the host, has no memory left for a buffer."""


class NotFiniteError(GrillyError, FloatingPointError):
    """An embedding holds NaN or infinity; the message names the texts."""


class UnusableError(GrillyError, RuntimeError):
    """The model was closed, or belongs to the process that this one was forked from."""


class StoppedError(GrillyError, RuntimeError):
    """The interpreter is exiting, so the call was stopped between two batches."""


class ShaderNotFound(GrillyError, FileNotFoundError):
    """A shader's name leads to no file; the message lists what was looked for."""


class FunctionNotFound(GrillyError, LookupError):
    """A shader file does not declare the function; the message lists those it has."""


class CompilationFailed(GrillyError, ValueError):
    """A shader does not compile; the message names file and line in the compiler's words."""


class PipelineCreationFailed(GrillyError, RuntimeError):
    """A shader cannot run: what its interface differs in, or the feature or limit that is missing, is named."""


class SharedMemoryError(InvalidArgumentError):
    """A kernel's configuration needs more shared memory than there is; the message names the nearest that fits."""

    need: int
    limit: int
    nearest: object
