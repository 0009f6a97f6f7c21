"""The devices that a trainer runs on."""

from __future__ import annotations

from collections.abc import Sequence

from grilly import _core
from grilly.inputs import check_device

__all__ = ["engines_of", "share"]


def engines_of(device: str, devices: str | Sequence[str] | None) -> list[_core.Engine]:
    """The engines that `devices`, or else `device`, names.

    Example:
        >>> from grilly.train.engines import engines_of
        >>> [engine.backend for engine in engines_of("cpu", None)]
        ['cpu']
    """
    chosen = check_device(device, devices)
    return _core.engines(chosen if isinstance(chosen, str) else ",".join(chosen))


def share(core: _core.Trainer, engines: list[_core.Engine]) -> None:
    """Lets all but the first of these engines share the steps of a trainer on the first.

    Example:
        >>> from grilly.train.engines import engines_of, share
        >>> from grilly.train import Trainer, TransformerConfig
        >>> trainer = Trainer(TransformerConfig.tiny(), device="cpu")
        >>> share(trainer._core, engines_of("cpu", None))
    """
    if len(engines) > 1:
        core.share(engines[1:])
