"""The shader of each architecture; the shaders registered here are the ones dispatched.

A shader is looked up by name and architecture (or a `model_type`, see `register_architecture`): first the
architecture's own entry, then the generic one. `attention-output` has separate entries for GPT-like, T5, LLaMA-like,
ModernBERT, Longformer and BigBird models.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from grilly import _core
from grilly.closed import closed
from grilly.compiler import ShaderCompiler, own_compiler
from grilly.inputs import pairs_of, path_text

__all__ = [
    "ShaderRegistry",
    "get_registry",
    "get_shader",
    "register_architecture",
    "register_architecture_shader",
    "register_generic_shader",
    "unregister",
]

logger = logging.getLogger("grilly")


@closed()
class ShaderRegistry:
    """Shaders by name and architecture.

    `get_registry()` determines the shaders that are dispatched: its files are compiled on registration, and their
    interfaces checked against the shaders they replace. Models loaded later use them; loaded models keep their shaders.
    Any other registry is a list of names, initially grilly's own.

    Example:
        >>> from grilly.backend.shader_registry import ShaderRegistry
        >>> registry = ShaderRegistry()
        >>> registry.register_architecture_specific("attention-output", "mine", "attention-output-mine")
        >>> registry.get_shader("attention-output", architecture="mine")
        'attention-output-mine'
    """

    def __init__(self) -> None:
        self._table = _core.ShaderTable(False)

    def register_generic(
        self,
        shader_name: str,
        shader_file: str | os.PathLike[str],
        *,
        compiler: ShaderCompiler | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Makes a file the shader of every architecture without an entry of its own.

        Args:
            shader_name: Such as `"attention-output"`.
            shader_file: A GLSL or SPIR-V file, with or without its ending, `"file#function"` for a function of it, or
                the name of one of grilly's own shaders. The compiler's folders are searched first.
            compiler: Compiles it; default: one with the default configuration, which searches the folder given to
                `Compute(shader_dir=...)`, else the current one, then `shaders` and `shaders/spv` of the current one; in
                each, `.glsl` before `.spv`.
            names: What the file calls otherwise: its names of buffers, push constants and specialization constants, and
                grilly's, such as `{"V": "values"}`; default none.

        Raises:
            InvalidArgumentError: A name of `names` that the file does not have.
            ShaderNotFound: There is neither such a file nor a grilly shader of that name.
            FunctionNotFound: The file has no such function.
            CompilationFailed: The file does not compile; the message names file and line.
            PipelineCreationFailed: Its interface differs from grilly's shader of that name; the message names the
                difference.
            UnsupportedError: No kernel runs under this name; the message names the one to register instead.
        """
        self._register(shader_name, None, shader_file, compiler, names)

    def register_architecture_specific(
        self,
        shader_name: str,
        architecture: str,
        shader_file: str | os.PathLike[str],
        *,
        compiler: ShaderCompiler | None = None,
        names: Mapping[str, str] | None = None,
        unfused: bool = False,
    ) -> None:
        """Makes a file the shader of one architecture; arguments and errors as `register_generic`.

        With `unfused`, `encode` runs one of grilly's own, too, in place of the fused kernel, which is faster; a shader
        of yours always runs there.

        In `get_registry()` it logs a warning if models of the architecture keep their attention fused, so that `encode`
        does not run a shader for a part of it.
        """
        self._register(shader_name, architecture, shader_file, compiler, names)
        if unfused:
            self._table.ask(shader_name, architecture)

    def _register(
        self,
        shader: str,
        architecture: str | None,
        file: str | os.PathLike[str],
        compiler: ShaderCompiler | None,
        names: Mapping[str, str] | None,
    ) -> None:
        given = path_text(file, "shader_file")
        self._table.register(shader, architecture, given, own_compiler(compiler), pairs_of(names))

    def unregister(self, shader_name: str, architecture: str | None = None) -> None:
        """Removes the registration for an architecture, or the generic one.

        Grilly's own entry is restored, if there is one. Without a registration, nothing changes.
        """
        self._table.unregister(shader_name, architecture)

    def register_architecture(self, model_type: str, architecture: str) -> None:
        """Maps a `model_type` to an architecture, whose shaders it uses where the type has no entry of its own."""
        self._table.register_architecture(model_type, architecture)

    def get_shader(self, shader_name: str, architecture: str | None = None) -> str | None:
        """The file for an architecture or `model_type`: its own, else the generic one; None if there is neither."""
        found = self._table.find(shader_name, architecture or "")
        if found is None:
            logger.warning("no shader is registered under %r; list_shaders() has the names", shader_name)
        return found

    def list_shaders(self, architecture: str | None = None) -> list[str]:
        """The names that `get_shader` resolves for an architecture, sorted."""
        return self._table.list(architecture)

    def __repr__(self) -> str:
        return f"ShaderRegistry({len(self.list_shaders())} shaders)"


# The registry that models and operations read.
_registry = ShaderRegistry()
_registry._table = _core.ShaderTable(True)


def get_registry() -> ShaderRegistry:
    """The registry that determines the shaders that are dispatched.

    Example:
        >>> from grilly.backend.shader_registry import get_registry
        >>> get_registry().get_shader("attention-output", "gpt2")
        'attention-output-gpt'
    """
    return _registry


def register_generic_shader(
    shader_name: str,
    shader_file: str | os.PathLike[str],
    *,
    compiler: ShaderCompiler | None = None,
    names: Mapping[str, str] | None = None,
) -> None:
    """`ShaderRegistry.register_generic` of `get_registry()`.

    Example:
        >>> from grilly.backend.shader_registry import register_generic_shader
        >>> register_generic_shader("attention-output", "attention-output")
    """
    _registry.register_generic(shader_name, shader_file, compiler=compiler, names=names)


def register_architecture_shader(
    shader_name: str,
    architecture: str,
    shader_file: str | os.PathLike[str],
    *,
    compiler: ShaderCompiler | None = None,
    names: Mapping[str, str] | None = None,
    unfused: bool = False,
) -> None:
    """`ShaderRegistry.register_architecture_specific` of `get_registry()`.

    Example:
        >>> from grilly.backend.shader_registry import register_architecture_shader
        >>> register_architecture_shader("attention-output", "gpt", "attention-output-gpt")
    """
    _registry.register_architecture_specific(
        shader_name, architecture, shader_file, compiler=compiler, names=names, unfused=unfused
    )


def unregister(shader_name: str, architecture: str | None = None) -> None:
    """`ShaderRegistry.unregister` of `get_registry()`.

    Example:
        >>> from grilly.backend.shader_registry import get_shader, register_architecture_shader, unregister
        >>> register_architecture_shader("attention-output", "mine", "attention-output-gpt")
        >>> unregister("attention-output", "mine")
        >>> get_shader("attention-output", "mine")
        'attention-output'
    """
    _registry.unregister(shader_name, architecture)


def register_architecture(model_type: str, architecture: str) -> None:
    """`ShaderRegistry.register_architecture` of `get_registry()`.

    Example:
        >>> from grilly.backend.shader_registry import get_shader, register_architecture
        >>> register_architecture("my_decoder", "gpt")
        >>> get_shader("attention-output", architecture="my_decoder")
        'attention-output-gpt'
    """
    _registry.register_architecture(model_type, architecture)


def get_shader(shader_name: str, architecture: str | None = None) -> str | None:
    """`ShaderRegistry.get_shader` of `get_registry()`.

    Example:
        >>> from grilly.backend.shader_registry import get_shader
        >>> get_shader("attention-output", architecture="bert")
        'attention-output'
    """
    return _registry.get_shader(shader_name, architecture)
