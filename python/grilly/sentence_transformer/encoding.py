"""From texts to embeddings: the shared implementation of both classes' `encode`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from logging import WARNING
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from grilly._core import Encoded
from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.everywhere import normalized
from grilly.inputs import as_list, check_options, need_one_of, need_type, parted, path_text, positive
from grilly.quantization import PRECISIONS, quantize_embeddings
from grilly.sentence_transformer.calls import Call, Calls, Request, progress
from grilly.sentence_transformer.settings import Settings
from grilly.sentence_transformer.streaming import file_of, parts_of
from grilly.sentence_transformer.windows import Windowed, overlap_of, windowed
from grilly.tensors import as_tensor, like, stored, token_features

__all__ = ["Encoding", "Output", "Texts", "Wanted"]

Texts = str | Sequence[str] | npt.NDArray[Any]
Output = Literal["sentence_embedding", "token_embeddings"]
# Keywords beside those of the modules.
OWN = ("out", "resume", "windows")
OUTPUTS = (None, "sentence_embedding", "token_embeddings")


@closed()
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Wanted(Request):
    """The arguments of `encode` besides the texts."""

    output_value: str | None = "sentence_embedding"
    precision: str | None = "float32"
    convert_to_numpy: bool = True
    convert_to_tensor: bool = False
    normalize_embeddings: bool = False
    truncate_dim: int | None = None


class Encoding(Calls, Settings):
    """A model that encodes, alone or for a pool."""

    def _encode(self, texts: Any, wanted: Wanted) -> Any:
        """The result of `encode`, `encode_query` and `encode_document`."""
        check(wanted, (*self._core.call_options, *OWN))
        out, resume = wanted.options.get("out"), wanted.options.get("resume", False)
        if not check_stream(wanted, texts, out, resume):
            return self._encode_list(texts, wanted)
        given = texts if isinstance(texts, Iterator) else iter(as_list(texts)[0])
        if out is None:
            return parts_of(given, wanted, self._encode_list)
        return file_of(given, wanted, self._encode_list, path_text(out, "out"), resume)

    def _encode_list(self, texts: Any, wanted: Wanted, advance: Any = None) -> Any:
        """The result of texts that are there, or of a single one."""
        texts, task = self._task(texts, wanted.options, wanted.task)
        kept = self.truncate_dim if wanted.truncate_dim is None else positive(wanted.truncate_dim, "truncate_dim")
        items, single = as_list(texts)
        call = self._call(wanted, task)
        sentences_only = wanted.output_value == "sentence_embedding"
        if not items:
            call.core.require_open()
            if wanted.convert_to_tensor and sentences_only:
                return as_tensor(np.array([]))
            return np.array([]) if wanted.convert_to_numpy and sentences_only else []

        items, pairs = parted(items)
        overlap = overlap_of(wanted.options.get("windows"))
        if pairs and not sentences_only:
            raise InvalidArgumentError(f"output_value is {wanted.output_value!r}, and texts[{pairs[0]}] is a pair")
        if pairs and overlap is not None:
            raise InvalidArgumentError(f"windows is {overlap}, and texts[{pairs[0]}] is a pair")
        with nullcontext(advance) if advance else progress(len(items), wanted.show_progress_bar) as advance:
            tokens: list[npt.NDArray[Any]] = []
            ids: list[list[int]] = []
            if pairs:
                self._say("encode gives one embedding for a pair of texts; CrossEncoder.predict gives its score")
                rows = rows_of_both(call, items, pairs)
            else:
                if overlap is None:
                    found: Encoded | Windowed = call.encode(items, advance, tokens=not sentences_only)
                else:
                    found = windowed(self, call, items, overlap)
                rows, tokens, ids = found.texts, found.tokens, found.ids
        if kept is not None and kept > rows.shape[1]:
            self._say(f"truncate_dim is {kept}, and embeddings have {rows.shape[1]} columns: all are kept", WARNING)
        rows = rows if kept is None or kept >= rows.shape[1] else np.ascontiguousarray(rows[:, :kept])

        dtype, precision = call.core.dtype_for(task), wanted.precision or "float32"
        result: Any
        if wanted.output_value is None:
            result = token_features(stored(rows, dtype), [stored(each, dtype) for each in tokens], ids)
        elif wanted.output_value == "token_embeddings":
            tokens = [stored(each, dtype) for each in tokens]
            result = [like(each) for each in tokens]
            result = result if precision == "float32" else quantize_embeddings(tokens, precision)
        else:
            if wanted.normalize_embeddings:
                rows = normalized(rows, call.core.numerics)
            result = stored(rows, dtype)
            if precision != "float32":
                result = quantize_embeddings(result, precision)
            if wanted.convert_to_tensor:
                result = as_tensor(result, dtype if precision == "float32" else None)
            elif not wanted.convert_to_numpy:
                result = list(like(result))
        return result[0] if single else result


def rows_of_both(call: Call, items: list[Any], pairs: list[int]) -> npt.NDArray[np.float32]:
    """Rows of texts and of the pairs among them, each pair in the tokenizer's template of two."""
    firsts, seconds = ([items[place][part] for place in pairs] for part in (0, 1))
    found = call.encode_pairs(firsts, seconds).texts
    rows = np.empty((len(items), found.shape[1]), dtype=np.float32)
    rows[pairs] = found
    singles = sorted(set(range(len(items))) - set(pairs))
    if singles:
        rows[singles] = call.encode([items[place] for place in singles]).texts
    return rows


def check(wanted: Wanted, known: Iterable[str]) -> None:
    """Rejects invalid arguments, independently of the texts; `known` keywords are the model's own."""
    need_one_of(wanted.output_value, OUTPUTS, "output_value")
    need_one_of(wanted.precision, (*PRECISIONS, None), "precision")
    if wanted.output_value is None and wanted.precision not in (None, "float32"):
        raise InvalidArgumentError(f"precision is {wanted.precision!r}, and output_value=None gives 'float32' only")
    check_options("encode", wanted.options, known, vars(wanted))


def check_stream(wanted: Wanted, texts: Any, out: Any, resume: Any) -> bool:
    """Whether texts are encoded part by part; rejects what has no meaning then."""
    need_type(resume, bool, "resume", "bool")
    if out is None and resume:
        raise InvalidArgumentError("resume=True goes on with the file of out, which is not given")
    if out is None and not isinstance(texts, Iterator):
        return False
    if wanted.precision in ("int8", "uint8"):
        raise InvalidArgumentError(
            f"precision is {wanted.precision!r}, whose ranges are those of all rows, and texts come in parts: encode "
            "them in 'float32', then call quantize_embeddings"
        )
    if out is not None and (wanted.output_value != "sentence_embedding" or wanted.convert_to_tensor):
        raise InvalidArgumentError("out is a file of embeddings: output_value and convert_to_tensor do not go with it")
    return True
