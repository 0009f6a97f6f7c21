"""What a module is before a model has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grilly.closed import closed
from grilly.errors import InvalidArgumentError, UnsupportedNameError
from grilly.inputs import positive
from grilly.sentence_transformer.arguments import plain

__all__ = ["FLAGS", "Described", "check_modes"]

#: Name of a pooling mode -> the attribute by which former versions of sentence-transformers turned it on.
FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


@closed()
class Described:
    """A module that no model has yet: its class by name, its settings, and the folder of its files if it has some.

    A view of a module reads and changes it as it does a loaded model.
    """

    def __init__(self, kind: str, settings: Mapping[str, Any], folder: Path | None = None, name: str = "") -> None:
        self.kind, self.folder, self.name = kind, folder, name
        self.settings: dict[str, Any] = json.loads(json.dumps(dict(settings), default=plain))

    @property
    def _module_settings(self) -> list[dict[str, Any]]:
        """As of a model of this module alone."""
        modes = self.settings.get("pooling_mode")
        return [self.settings | ({"pooling_mode": [modes]} if isinstance(modes, str) else {})]

    @property
    def max_seq_length(self) -> int:
        """Maximum tokens of a text, where one is given."""
        if "max_seq_length" not in self.settings:
            raise AttributeError("max_seq_length")  # `__getattr__` says what to do
        return int(self.settings["max_seq_length"])

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self.settings["max_seq_length"] = positive(value, "max_seq_length")

    @property
    def config(self) -> dict[str, Any]:
        """config.json of a Transformer."""
        file = Path(self.folder or "", "config.json")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def _pool(self, modes: Sequence[str]) -> None:
        self.settings["pooling_mode"] = list(modes)

    def _include(self, include_prompt: bool) -> None:
        self.settings["include_prompt"] = include_prompt

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedNameError(
            f"{name.lstrip('_')} of a {self.kind} that no model has yet: "
            f"model = SentenceTransformer(modules=[...]), and then model.{name.lstrip('_')}"
        )


def check_modes(value: Any) -> tuple[str, ...]:
    """The names of one or more pooling modes."""
    modes = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    if not modes or not all(mode in FLAGS for mode in modes):
        raise InvalidArgumentError(f"pooling_mode is {value!r}, expected one or more of {', '.join(FLAGS)}")
    return modes
