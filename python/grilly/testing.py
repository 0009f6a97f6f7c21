"""For tests: small models, fault injection, messages of the validation layer, and comparison of two shaders."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed
from grilly.compiler import ShaderCompiler, own_compiler
from grilly.errors import DeviceUnavailableError
from grilly.inputs import pairs_of
from grilly.tiny_checkpoints import tiny_checkpoint

__all__ = [
    "ShaderComparison",
    "clear_faults",
    "compare_shaders",
    "inject_fault",
    "tiny_checkpoint",
    "validation_messages",
]


def inject_fault(kind: str, after: int = 0, times: int | None = None) -> None:
    """Makes Vulkan devices fail until `clear_faults`.

    Args:
        kind: `"allocation"` (no device memory is left for buffers and for calls of the driver that need some),
            `"device_lost"` (at a submission) or `"barrier"` (one between dispatches is omitted: later dispatches may
            read data not yet written).
        after: Calls of that kind that still succeed; default 0.
        times: Calls that fail after these; default None: all.

    Raises:
        InvalidArgumentError: Unknown kind.

    Example:
        >>> from grilly import testing
        >>> testing.inject_fault("device_lost", after=2)
        >>> testing.clear_faults()
        0
    """
    _core.inject_fault(kind, after, times)


def clear_faults() -> int:
    """Ends the effect of `inject_fault`; returns how many calls failed.

    Example:
        >>> from grilly import testing
        >>> testing.inject_fault("device_lost")
        >>> testing.clear_faults()
        0
    """
    return _core.clear_faults()


def validation_messages() -> list[str]:
    """Warnings and errors of the Vulkan validation layer so far; always empty unless `GRILLY_DEBUG=1`.

    Example:
        >>> from grilly import testing
        >>> testing.validation_messages()
        []
    """
    return _core.validation_messages()


@closed()
@dataclass(frozen=True)
class ShaderComparison:
    """Result of `compare_shaders`.

    Args:
        largest_difference: Largest absolute difference between elements of the two results.
        same_bits: Whether the results are bit-identical.
        specific_seconds: Time of one dispatch of the specific shader, the fastest of several rounds.
        generic_seconds: The same for the generic shader.
    """

    largest_difference: float
    same_bits: bool
    specific_seconds: float
    generic_seconds: float

    @property
    def speedup(self) -> float:
        """Speed of the specific shader relative to the generic one."""
        return self.generic_seconds / self.specific_seconds


def compare_shaders(
    specific: str,
    generic: str = "attention-output",
    *,
    compiler: ShaderCompiler | None = None,
    names: Mapping[str, str] | None = None,
    weights: npt.ArrayLike | None = None,
    values: npt.ArrayLike | None = None,
    device: str = "vulkan",
    rounds: int = 5,
    repeats: int = 10,
    **attributes: int,
) -> ShaderComparison:
    """Runs two `attention-output` shaders on the same tensors and compares results and time.

    Args:
        specific: A file as for `register_architecture_shader`, or one of grilly's own.
        generic: The other; default the generic shader.
        compiler: Compiles the files; default as `register_architecture_shader`.
        names: What `specific` calls otherwise, as for `register_architecture_shader`.
        weights: `[batch, heads, q_len, kv_len]`, zero where the specific shader's mask is; default random
            causal weights for 2 texts, 8 heads and 512 tokens.
        values: `[batch, kv_len, kv_heads, head_dim]`; default random ones that fit.
        device: `"vulkan"` or `"vulkan:N"`.
        rounds: Number of timings.
        repeats: Dispatches per round.
        **attributes: `window`, `global_tokens`, `random_blocks`, `block`, `seed`.

    Raises:
        DeviceUnavailableError: There is no Vulkan device.
        ShaderNotFound, FunctionNotFound, CompilationFailed, PipelineCreationFailed: As on registration.
        InvalidArgumentError: The shapes do not fit.

    Example:
        >>> from grilly import testing
        >>> testing.compare_shaders("attention-output-gpt", repeats=1, rounds=1).same_bits  # doctest: +SKIP
        True
    """
    random = np.random.default_rng(0)
    if weights is None:
        scores = np.exp(random.standard_normal((2, 8, 512, 512), np.float32)) * np.tri(512, dtype=np.float32)
        weights = scores / scores.sum(-1, keepdims=True)
    weights = np.ascontiguousarray(weights, np.float32)
    if values is None:
        batch, heads, _, kv_len = weights.shape
        values = random.standard_normal((batch, kv_len, heads, 64), np.float32)
    engine = _core.engine(device)
    if engine.backend != "vulkan":
        raise DeviceUnavailableError(f"compare_shaders: no Vulkan device, so shaders do not run: {engine.reason}")
    operands = [engine.upload(weights), engine.upload(np.ascontiguousarray(values, np.float32))]
    table = _core.ShaderTable(True)
    built = own_compiler(compiler)
    places = ["grilly.testing/specific", "grilly.testing/generic"]
    try:
        for place, file, renamed in zip(places, (specific, generic), (pairs_of(names), []), strict=True):
            table.register("attention-output", place, file, built, renamed)
        calls = [{"architecture": place, **attributes} for place in places]
        results = [engine.call("attention_output", operands, call).numpy() for call in calls]
        # Warm up: an idle GPU runs slowly at first.
        warm = time.perf_counter() + 0.2
        while time.perf_counter() < warm:
            _seconds(engine, operands, calls[0], repeats)
        seconds = [float("inf"), float("inf")]
        for _ in range(rounds):
            for number, call in enumerate(calls):
                seconds[number] = min(seconds[number], _seconds(engine, operands, call, repeats))
    finally:
        for place in places:
            table.unregister("attention-output", place)
    with np.errstate(invalid="ignore"):
        difference = np.abs(results[0].astype(np.float64) - results[1]).max(initial=0.0)
    same = np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
    return ShaderComparison(float(difference), same, *seconds)


def _seconds(engine: _core.Engine, operands: list[_core.Array], attributes: dict[str, object], repeats: int) -> float:
    """Time of one dispatch by the device clock, or by the host clock if it has none."""
    engine.synchronize()
    _core.profile(True)
    try:
        start = time.perf_counter()
        for _ in range(repeats):
            engine.call("attention_output", operands, attributes)
        engine.synchronize()
        elapsed = (time.perf_counter() - start) / repeats
        counted = {label: (count, nanoseconds) for label, _, count, nanoseconds in _core.dispatch_times()}
    finally:
        _core.profile(False)
    count, nanoseconds = counted.get("attention_output", (0, 0.0))
    return nanoseconds / count / 1e9 if count and nanoseconds else elapsed
