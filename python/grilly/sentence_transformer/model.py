"""A model that gives embeddings: its decoder, its export, and all that models of this kind have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidTypeError
from grilly.inputs import as_list, need_type, path_text, positive
from grilly.sentence_transformer.calls import Calls, progress
from grilly.sentence_transformer.chunks import Chunking
from grilly.sentence_transformer.encoding import Encoding, Texts
from grilly.sentence_transformer.moving import Moving
from grilly.sentence_transformer.names import refuse
from grilly.sentence_transformer.saving import Saving
from grilly.sentence_transformer.settings import Settings
from grilly.tables import PlanText
from grilly.tensors import stored

__all__ = ["Decoding", "Exporting", "Model"]


class Decoding(Encoding):
    """A model whose decoder, if it has one, reads a second text beside each encoded one."""

    def decode_states(
        self,
        texts: Texts,
        decoder_texts: Texts,
        batch_size: int = 32,
        *,
        shift_right: bool = True,
        prompt_name: str | None = None,
        prompt: str | None = None,
        show_progress_bar: bool | None = False,
        device: Any = None,
    ) -> Any:
        """Last hidden states of the decoder: `decoder(shift(decoder_texts[i]), encoder(prompt + texts[i]))` per pair.

        The tokens of either text are those of `encode`, with the same limit `max_seq_length`. A state depends on the
        whole of `texts[i]` and on the tokens of `decoder_texts[i]` up to its own.

        Args:
            texts: A str, or a list, tuple or NumPy array of str: what the encoder reads.
            decoder_texts: As many: what the decoder reads.
            batch_size: Maximum pairs per batch. No number depends on it.
            shift_right: Whether the decoder reads `decoder_start_token_id` of config.json and all tokens but the last,
                so that each state is the one before its token, as in training; False: the tokens as they are.
            prompt_name: Name of a prompt in `prompts`, for `texts`; default: the model's, as in `encode`.
            prompt: A prompt itself, prepended to each of `texts`; takes precedence over `prompt_name`.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            device: The device for this call only.

        Returns:
            A list of `(T, H)`, one per pair: T tokens of the decoder's text, H columns of the hidden state; the array
            itself for two str. float32, or float16 for a model of that dtype.

        Raises:
            UnsupportedError: The model has no decoder, or its files hold the encoder alone.
            WeightsError: Tensors of the decoder are missing or have other shapes.
            ModelFormatError: config.json states no token to shift by.
            InvalidArgumentError: Lists of different lengths, an invalid value, a lone surrogate.
            InvalidTypeError: An item is not a str (also a `TypeError`).
            NotFiniteError: A state is NaN or infinite.

        The first call reads the decoder's weights; a model that only encodes holds no memory for them. The decoder
        computes in float32 in every dtype, with weights rounded to that type. Encoder and decoder are two programs,
        of which each keeps to `memory_limit`.

        Source: `last_hidden_state` of transformers' `T5Model`, version 5.23, and its `_shift_right`.

        Example:
            >>> model.decode_states("translate: A cat.", "Eine Katze.")
            Traceback (most recent call last):
            grilly.errors.UnsupportedError: decode_states of a bert model: it has no decoder beside its encoder; \
models of mt5, t5, umt5 have one
        """
        size = positive(batch_size, "batch_size")
        need_type(shift_right, bool, "shift_right", "bool")
        prefix = self._prompt(prompt, prompt_name)
        items, single = as_list(texts)
        others, single_other = as_list(decoder_texts, "decoder_texts")
        if single != single_other:
            kinds = "a str and a list" if single else "a list and a str"
            raise InvalidTypeError(f"texts and decoder_texts are {kinds}, expected two of either")
        core = self._core_on(device)
        with progress(len(items), show_progress_bar) as advance:
            options = {"prompt": prefix, "batch_size": size, "shift_right": shift_right}
            found = core.decode_states(items, others, options, advance)
        states: list[npt.NDArray[np.floating[Any]]] = [stored(each, core.dtype) for each in found]
        return states[0] if single else states

    @property
    def decoder_plan(self) -> PlanText:
        """The plan of `decode_states` as text, of a model with a decoder; `UnsupportedError` for another."""
        return PlanText(self._core.decoder_plan_text)


class Exporting(Calls, Settings):
    """A model that can be exported."""

    def export(self, target: str, folder: str | os.PathLike[str], overwrite: bool = False) -> list[Path]:
        """Writes the encoder's recorded steps as files that run in a browser, on its GPU.

        The files are `plan.json` (dispatches with their parameters; buffers, shared by values whose lifetimes do not
        overlap; sizes as formulas of a batch's tokens and texts), `weights.bin`, the kernels in `shaders/`,
        `tokenizer.json`, and `grilly.js`, a module that runs them. Numbers are float32, and the kernels need no more
        than the limits of every WebGPU device. `docs/guides/web.md` shows a page.

        The model is that of `encode` without a task: with its default prompt, `max_seq_length` and `truncate_dim`.

        Args:
            target: `"wgsl"`.
            folder: The folder; created if missing.
            overwrite: Whether files of these names may be replaced; default False. Each is replaced when all are
                complete; a link of such a name is replaced itself.

        Returns:
            The files.

        Raises:
            InvalidArgumentError: Another target, or a file that is there already or cannot be written.
            DeviceMemoryError: The weights do not fit into memory.
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
        need_type(overwrite, bool, "overwrite", "bool")
        files = self._core.export(target, place, self._prompt(None, None), self.truncate_dim, overwrite)
        return [Path(place) / name for name in files]


class Model(Decoding, Chunking, Moving, Saving, Exporting):
    """A model that encodes, decodes, moves, saves and exports; its names are sentence-transformers' but for
    `decode_states`, `encode_chunks` and `export`."""

    _card = (
        "sentence-similarity",
        "Texts to vectors of {} numbers",
        'embeddings = model.encode(["A text.", "Another."])',
    )


refuse(Model)
