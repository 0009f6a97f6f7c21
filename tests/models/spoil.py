"""Changes to a model folder, for tests of what cannot be loaded."""

import json
from collections.abc import Callable
from pathlib import Path

from . import safetensors_file


def change_json(path: Path, **changes) -> None:
    """Sets keys, or removes those whose value is `...`."""
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))


def rewrite(folder: Path, change: Callable[[dict], None]) -> None:
    """Writes the weights again after `change`, which gets the tensors by name."""
    tensors = safetensors_file.read(folder / "model.safetensors")
    change(tensors)
    safetensors_file.write(folder / "model.safetensors", tensors)
