"""Exceptions of grilly, all public: each also derives from the built-in class that a Python user would catch."""


class GrillyError(Exception):
    """The base of every exception of this package."""


class ModelNotFoundError(GrillyError, FileNotFoundError):
    """A model's name cannot be resolved; the message lists each place that was tried."""


class ModelFormatError(GrillyError, ValueError):
    """A file of the model cannot be used; the message names the file and, if there is one, the remedy."""


class WeightsError(ModelFormatError):
    """The model's tensors do not match its architecture; the message lists all mismatches."""


class InvalidArgumentError(GrillyError, ValueError):
    """An argument has the right type but an invalid value."""


class InvalidTypeError(GrillyError, TypeError):
    """An argument has the wrong type."""


class IndexOutOfRangeError(GrillyError, IndexError):
    """An index, such as the number of a device, is outside its range."""


class UnsupportedError(GrillyError, NotImplementedError, ValueError):
    """A valid request that this version or device does not support."""


class UnsupportedNameError(UnsupportedError, AttributeError):
    """A name of sentence-transformers or of upstream that is not supported; the message states the alternative."""


class UnsupportedImportError(ImportError, UnsupportedError):
    """The import of such a name; the message states the alternative."""


class MissingLibraryError(ImportError, UnsupportedError):
    """A library that is no dependency of this package cannot be imported; the message names its package."""


class DeviceUnavailableError(GrillyError, RuntimeError):
    """There is no usable device of the requested kind, and `GRILLY_STRICT=1` forbids the CPU fallback."""


class DeviceError(GrillyError, RuntimeError):
    """A call to the device's driver failed, and `GRILLY_STRICT=1` forbids the CPU fallback."""


class DeviceLostError(DeviceError):
    """The device was reset or removed, and `GRILLY_STRICT=1` forbids the CPU fallback."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The device or the host is out of memory for a buffer."""


class CheckpointError(GrillyError, OSError):
    """A checkpoint of a training run cannot be written or read; the message names the file and the cause."""


class NotFiniteError(GrillyError, FloatingPointError):
    """A weight, an embedding or a loss in training is NaN or infinite; the message names tensor, texts or step."""


class UnusableError(GrillyError, RuntimeError):
    """The model was closed, or belongs to the process that this one was forked from."""


class StoppedError(GrillyError, RuntimeError):
    """The interpreter is exiting, so the call was stopped between two batches."""


class ShaderNotFound(GrillyError, FileNotFoundError):
    """No file has the shader's name; the message lists the paths that were tried."""


class FunctionNotFound(GrillyError, LookupError):
    """A shader file does not declare the function; the message lists those it has."""


class CompilationFailed(GrillyError, ValueError):
    """A shader does not compile; the message is the compiler's, with file and line."""


class PipelineCreationFailed(GrillyError, RuntimeError):
    """A shader cannot run; the message names the interface mismatch, or the missing feature or limit."""


class SharedMemoryError(InvalidArgumentError):
    """A kernel's configuration needs more shared memory than available; the message names the nearest that fits."""

    need: int
    limit: int
    nearest: object
