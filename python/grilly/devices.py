"""Devices of this process, the selected one, and counters."""

from collections.abc import Sequence
from typing import Any, Literal

from grilly import _core, fallbacks
from grilly.tables import Facts

__all__ = ["configure", "format_info", "info", "reset_stats", "share", "stats", "vulkan_available"]


def vulkan_available() -> bool:
    """Whether there is a usable Vulkan device; a software rasteriser counts only under `ALLOW_CPU_VULKAN=1`.

    Example:
        >>> from grilly.devices import vulkan_available
        >>> vulkan_available() in (True, False)
        True
    """
    return any(device["position"] is not None for device in _core.info()["devices"])


def configure(
    *,
    validation: bool | None = None,
    float32_products: Literal["split", "plain"] | None = None,
    numerics: str | None = None,
) -> None:
    """Selects debug or release mode for this process, how products of float32 numbers run, and what numbers mean.

    None changes nothing.

    In debug mode the validation layer is enabled, objects have names, every choice is logged to stderr, users' shaders
    are compiled with debug information and without optimisation, and their `debugPrintfEXT` output is logged if they
    are compiled before Vulkan is first used (else set `GRILLY_DEBUG=printf`).

    Split products, the default, run on matrix cores for float16. A float32 number times a power of two per row is the
    sum of two float16 numbers, `x = h + 2^-11 l`, and `sum x w = sum h h' + 2^-11 (sum h l' + sum l h')`, in blocks of
    32 terms that are added in float32. Errors are at most 12 units of `2^-24 sum |x| |w|` (root mean square: 3) where
    the elements of a row are within `2^28` of its largest; else the same of `2^-24 |x| |w|` (norms). Rows with NaN,
    infinity, or numbers too large or too small for this have plain sums.

    Args:
        validation: True for debug mode, overriding `GRILLY_DEBUG`; call before Vulkan is first used.
        float32_products: `"split"` or `"plain"`, for `grilly.functional`, `grilly.nn` and models loaded afterwards.
            Without matrix cores for float16, and on the CPU, both are the same.
        numerics: `"run"`, the default, or `"everywhere"`, the same bits on every device: of `grilly.functional`,
            `grilly.nn`, programs prepared and models loaded afterwards. Training and what belongs to it raise
            `UnsupportedError` then. `"everywhere-1"` names the version.

    Raises:
        UnusableError: The mode is chosen, but Vulkan is in use already (a `RuntimeError`).
        InvalidArgumentError: `float32_products` or `numerics` is another value (a `ValueError`).
        UnsupportedError: A version of `"everywhere"` that this build does not have.

    Source: split products: Ootomo and Yokota (2022), "Recovering single precision accuracy from Tensor Cores while
    surpassing the FP32 theoretical peak performance".

    Example:
        >>> import grilly
        >>> try:
        ...     grilly.configure(validation=False)
        ... except RuntimeError as error:
        ...     print("Vulkan is in use" in str(error))
        True
        >>> grilly.configure(float32_products="plain")
        >>> grilly.info()["float32_products"]
        'plain'
        >>> grilly.configure(float32_products="split", numerics="everywhere")
        >>> grilly.info()["numerics"]
        'everywhere-1'
        >>> grilly.configure(numerics="run")
    """
    _core.configure(validation, float32_products, numerics)


def info() -> Facts:
    """Every Vulkan device with its capabilities, the one that `device="vulkan"` selects, and the reason.

    Notebooks show a table of it.

    Returns:
        A dict with `version`; `devices`, a list of dicts in Vulkan's own order, each with `index` (for `VK_GPU_INDEX`),
        `position` (for `"vulkan:N"`, None if unusable), `unusable` (why, or None), `name`, `type`, `driver`, `api`,
        `memory` (bytes), `features`, `missing`, `limits` and `float32_products` (`"split"` if it can run them on matrix
        cores); `choice` with `backend`, `name` and `reason`; `auto` with `measures`, whether `device="auto"` times
        models on that device and the CPU, and `measured`, a list of dicts with what was timed on this account,
        `seconds_gpu`, `seconds_cpu` and `faster`; `cpu` with `name`, `threads` and `simd`; `float32_products` and
        `numerics`, the choices of `grilly.configure`; and `environment`, the current values of the variables.

    Raises:
        InvalidArgumentError: `VK_GPU_INDEX` is not a number.

    Example:
        >>> import grilly
        >>> sorted(grilly.info())
        ['auto', 'choice', 'cpu', 'devices', 'environment', 'float32_products', 'numerics', 'version']
    """
    return Facts(_core.info())


def share(names: Sequence[str], mixed: bool = False) -> bool:
    """Whether these are several usable devices that can share the batches of a model: each once, all of one kind.

    Args:
        names: `"vulkan:N"` and others.
        mixed: Whether they may be of different kinds or drivers; default False.

    Example:
        >>> from grilly.devices import share
        >>> share(["cpu", "cpu"]), share(["vulkan:0"])
        (False, False)
    """
    if len(names) < 2 or len(set(names)) < len(names) or not all(name.startswith("vulkan:") for name in names):
        return False
    kinds = {f"vulkan:{device['position']}": (device["name"], device["driver"]) for device in _core.info()["devices"]}
    return kinds.keys() >= set(names) and (mixed or len({kinds[name] for name in names}) == 1)


def stats() -> dict[str, float]:
    """Counters of this process since the start or the last reset; bytes where the name says so.

    Returns:
        A dict with `instances` and `devices` created, `dispatches`, `submits`, `waits`, `batches_vulkan` and
        `batches_cpu`, `ops_cpu`, `bytes_weights`, `bytes_up`, `bytes_down`, `allocations` (of memory by drivers),
        `bytes_held` (now, by models, arrays and work under way), `bytes_retained` (now, of dropped arrays, for later
        results; what is not needed is freed after 10 to 20 s, and all when memory is short) and `fallbacks`;
        `flops_vulkan` and `flops_cpu`, the arithmetic operations of all batches and calls begun there, in whole
        thousands each; `share_vulkan` and `share_cpu`, their shares from 0 to 1 (both 0 before the first).

    Example:
        >>> import grilly
        >>> grilly.reset_stats()
        >>> _ = grilly.functional.linear(grilly.to_vulkan([[1.0, 2.0]], "cpu"), [[3.0, 4.0]])
        >>> stats = grilly.stats()
        >>> stats["flops_cpu"], stats["share_cpu"], stats["share_vulkan"]
        (1000, 1.0, 0.0)
    """
    found: dict[str, float] = {**_core.stats()}
    found["fallbacks"] += sum(fallbacks.operations().values())
    flops = {device: 1000 * found.pop(f"kiloflops_{device}") for device in ("vulkan", "cpu")}
    for device, count in flops.items():
        found[f"flops_{device}"] = count
        found[f"share_{device}"] = count / max(1, sum(flops.values()))
    return found


def reset_stats() -> None:
    """Sets the counters of `stats` to zero, except `bytes_held` and `bytes_retained`, which are current values.

    Example:
        >>> import grilly
        >>> grilly.reset_stats()
        >>> grilly.stats()["batches_cpu"]
        0
    """
    _core.reset_stats()
    fallbacks.reset()


def format_info(facts: dict[str, Any]) -> str:
    """Formats `info()` as readable text.

    Example:
        >>> import grilly
        >>> from grilly.devices import format_info
        >>> format_info(grilly.info()).startswith("grilly 2.")
        True
    """
    choice, cpu = facts["choice"], facts["cpu"]
    lines = [
        f"grilly {facts['version']}",
        f'device="vulkan" means: {choice["name"]} ({choice["backend"]})',
        f"  because: {choice['reason']}",
        *_auto(facts["auto"]),
        f"CPU: {cpu['name']}, {cpu['threads']} threads, {cpu['simd']}",
        f"float32 products: {facts['float32_products']}, where the device can",
        f"numerics: {facts['numerics']}",
        f"Vulkan devices: {len(facts['devices']) or 'none'}",
    ]
    for device in facts["devices"]:
        place = f'"vulkan:{device["position"]}"' if device["position"] is not None else "not usable"
        limits = ", ".join(f"{name} {value}" for name, value in device["limits"].items())
        lines += [
            f"  {device['index']}: {device['name']}: {place}",
            *([f"     why not: {device['unusable']}"] if device["unusable"] else []),
            f"     {device['type']}, Vulkan {device['api']}, {device['driver']}, {device['memory'] / 2**30:.1f} GiB",
            f"     float32 products: {device['float32_products']}",
            f"     features: {', '.join(device['features']) or 'none of the optional ones'}",
            f"     limits: {limits}",
        ]
    lines.append("Environment: " + ", ".join(f"{name}={value}" for name, value in facts["environment"].items()))
    return "\n".join(lines)


def _auto(auto: dict[str, Any]) -> list[str]:
    """Lines about `device="auto"`, with what was timed."""
    lines = ['device="auto" means: the same']
    if auto["measures"]:
        lines[0] += ", or the CPU for models that are faster there, which is measured once when they are loaded"
    for row in auto["measured"]:
        size = f"{row['layers']} layers, {row['hidden']} and {row['intermediate']} columns"
        on_gpu, on_cpu = (f"{1e3 * row[key]:.2f} ms" for key in ("seconds_gpu", "seconds_cpu"))
        faster = {"cpu": "the CPU", "vulkan": "the GPU"}[row["faster"]]
        lines += [
            f"  {size}, {row['dtype']}, {row['numerics']}: {faster} is faster;",
            f"    {on_gpu} on {row['device']} ({row['driver']}),",
            f"    {on_cpu} on {row['processor']}, {row['threads']} threads",
        ]
    return lines
