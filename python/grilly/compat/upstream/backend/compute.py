"""`Compute`: upstream's object of operations, on the process-wide device."""

from __future__ import annotations

import os
from typing import Any

from grilly import _core
from grilly.closed import closed
from grilly.compat.upstream.backend.buffers import Core
from grilly.compat.upstream.backend.fnn import Fnn
from grilly.compat.upstream.backend.parts import Attention, Learning, Pooling
from grilly.compat.upstream.names import missing
from grilly.compiler import set_default_folder
from grilly.names import by_name

__all__ = ["Compute", "VulkanCompute"]

# Methods of upstream's `Compute` that are those of a part, and the name of the part.
_DELEGATES = by_name(
    {
        "core": "create_buffer upload_buffer read_buffer",
        "fnn": (
            "activation_relu activation_gelu activation_gcu activation_roswish activation_swiglu activation_silu "
            "activation_softmax xavier_init layernorm linear linear_backward"
        ),
        "attention": "attention_scores attention_mask attention_output attention_concat_heads",
        "learning": "whitening_transform embedding_lookup",
    }
)


@closed("architecture")
class Compute:
    """Upstream's object of operations, on the process's default device; creating one is cheap.

    Operations take NumPy arrays or `VulkanTensor`s, like those of `grilly.functional`, and are attributes of the parts
    or, for upstream's flat names, of the object itself.

    Args:
        shader_dir: A folder of your own shaders, GLSL or SPIR-V: from now on `grilly.backend.shader_registry` searches
            it for shaders registered without a compiler, before `shaders` and `shaders/spv` of the current folder.
            Default: the folder set before, initially the current one. Grilly's own shaders are part of the package.

    Attributes:
        core: `create_buffer`, `upload_buffer`, `read_buffer`.
        fnn: `linear`, `layernorm`, `gemm`, `dropout`, `residual`, `activation_*`, `fused_linear_*` and derivatives.
        attention: `attention_scores`, `attention_mask`, `attention_output`, `attention_concat_heads`,
            `flash_attention2` and `apply_rope`.
        pooling: `mean_pool`.
        learning: `adam_update`, `embedding_lookup`, `embedding_backward`, `whitening_transform`.
        device: The device's name.
        architecture: The argument of `set_architecture`, or None.

    Raises:
        DeviceUnavailableError: No usable device, and `GRILLY_STRICT=1`.
        ShaderNotFound: `shader_dir` is not a folder.
        AttributeError: An upstream name that is not part of this package; the message says so.

    Source: upstream's `grilly.Compute`, which created a Vulkan device each time.

    Example:
        >>> import grilly
        >>> backend = grilly.Compute()
        >>> backend.fnn.activation_relu([-1.0, 2.0]).tolist()
        [0.0, 2.0]
        >>> backend.mean_pool
        Traceback (most recent call last):
        ...
        grilly.errors.UnsupportedNameError: mean_pool is elsewhere in this package: take grilly.functional.mean_pool
    """

    def __init__(self, shader_dir: str | os.PathLike[str] | None = None) -> None:
        if shader_dir is not None:
            set_default_folder(shader_dir)
        self._engine = _core.engine("vulkan")
        self.architecture: str | None = None
        self.core = Core(self._engine)
        self.fnn = Fnn(lambda: self.architecture)
        self.attention = Attention(lambda: self.architecture)
        self.pooling = Pooling(lambda: self.architecture)
        self.learning = Learning(lambda: self.architecture)

    @property
    def device(self) -> str:
        """The device's name."""
        return self._engine.device

    @property
    def device_name(self) -> str:
        """The device's name, as upstream 1.0 calls it."""
        return self._engine.device

    @property
    def backend(self) -> str:
        """`"vulkan"`, or `"cpu"` where there is no usable device."""
        return self._engine.backend

    def set_architecture(self, arch: str | None) -> None:
        """Selects the shaders of an architecture, such as `"gpt"`, where registered; None for the generic ones.

        Example:
            >>> import grilly
            >>> backend = grilly.Compute()
            >>> backend.set_architecture("GPT")
            >>> backend.architecture
            'gpt'
        """
        self.architecture = None if arch is None else str(arch).lower()

    def cleanup(self) -> None:
        """Frees the buffers created by this object; the device belongs to the process and stays open.

        Example:
            >>> import grilly
            >>> grilly.Compute().cleanup()
        """
        self.core.cleanup()

    def __getattr__(self, name: str) -> Any:
        if name in _DELEGATES:
            return getattr(getattr(self, _DELEGATES[name]), name)
        raise missing("Compute", name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_DELEGATES})

    def __enter__(self) -> Compute:
        return self

    def __exit__(self, *raised: object) -> None:
        self.cleanup()

    def __repr__(self) -> str:
        return f"Compute(device={self.device!r}, backend={self.backend!r}, architecture={self.architecture!r})"


VulkanCompute = Compute
