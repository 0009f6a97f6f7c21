"""A model as files for other engines."""

from __future__ import annotations

import os
from pathlib import Path

from grilly.inputs import need_type, path_text
from grilly.sentence_transformer.calls import Calls
from grilly.sentence_transformer.settings import Settings

__all__ = ["Exporting"]


class Exporting(Calls, Settings):
    """A model that can be exported."""

    def export(self, target: str, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes the encoder's recorded steps as files that run in a browser, on its GPU.

        The files are `plan.json` (dispatches with their parameters; buffers, shared by values whose lifetimes do not
        overlap; sizes as formulas of a batch's tokens and texts), `weights.bin`, the kernels in `shaders/`,
        `tokenizer.json`, and `grilly.js`, a module that runs them. Numbers are float32, and the kernels need no more
        than the limits of every WebGPU device. `docs/guides/web.md` shows a page.

        The model is that of `encode` without a task: with its default prompt, `max_seq_length` and `truncate_dim`.

        Args:
            target: `"wgsl"`.
            folder: The folder; created if missing.

        Returns:
            The files.

        Raises:
            InvalidArgumentError: Another target, or a file that cannot be written.
            UnsupportedError: A model with shaders of yours that make plans for each length of text, a tensor over
                WebGPU's limits, or a tokenizer whose template depends on the text; the message names it.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     files = model.export("wgsl", folder)
            >>> [file.name for file in files[:4]]
            ['plan.json', 'weights.bin', 'tokenizer.json', 'grilly.js']
        """
        need_type(target, str, "target", "str")
        place = path_text(folder, "folder")
        files = self._core.export(target, place, self._prompt(None, None), self.truncate_dim)
        return [Path(place) / name for name in files]
