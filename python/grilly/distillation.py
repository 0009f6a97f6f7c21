"""`distill`: a model of token vectors made of another model, as model2vec makes it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed
from grilly.distilled_tokens import Distilled, distilled_tokens
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.everywhere import EVERYWHERE
from grilly.inputs import as_int, as_list, logger, need_one_of, need_type, path_text, positive
from grilly.safetensors_file import safetensors
from grilly.sentence_transformer import SentenceTransformer
from grilly.sentence_transformer.calls import progress
from grilly.sentence_transformer.encoding import Encoding

__all__ = ["distill", "principal_components", "zipf_weights"]

Matrix = npt.NDArray[np.float64]
POOLINGS = ("mean", "first", "last", "model")
FOLDER = "0_StaticEmbedding"
MODULES = [
    {"idx": 0, "name": "0", "path": FOLDER, "type": "sentence_transformers.models.StaticEmbedding"},
    {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
]
SETTINGS: dict[str, object] = {
    "model_type": "SentenceTransformer",
    "prompts": {},
    "default_prompt_name": None,
    "similarity_fn_name": "cosine",
}
# Tokens whose rows are in memory at a time.
PART = 4096


def distill(
    model: Any,
    vocabulary: Sequence[str] | None = None,
    dimensions: int | float | str | None = 256,
    *,
    folder: str | os.PathLike[str],
    sif_coefficient: float | None = 1e-4,
    token_remove_pattern: str | None = r"\[unused\d+\]",
    pooling: str = "mean",
    max_length: int | None = 512,
    dtype: str = "float32",
    batch_size: int = 256,
    show_progress_bar: bool | None = False,
    overwrite: bool = False,
) -> Path:
    """Writes a StaticEmbedding folder: a vector for each token, `w_r pca(pool(encoder(token_r)))`, and Normalize.

    A text's embedding is the mean of its tokens' vectors, normalised: far faster than the model's, and less exact.
    `w_r = a / (a + p_r)` with `p_r = (1 / (r + 2)) / sum_s 1 / (s + 2)`, Zipf's law for the token of row r: the
    tokenizer's tokens come in the order of their frequency. The vector of the token for unknown words is zero.

    Args:
        model: A `SentenceTransformer`, or the name or folder of one.
        vocabulary: Words that get vectors of their own beside the tokenizer's tokens; one of several words is looked
            for in texts as it stands. Default: none.
        dimensions: Columns of the vectors after the principal component analysis; `"auto"`: as many as the model's; a
            float: as many as explain this share of the variance, between 0 and 1; None: no analysis.
        folder: What is written; created if missing.
        sif_coefficient: The number a, above 0 and below 1; None for weights of 1.
        token_remove_pattern: Tokens at whose start this regular expression matches get no vector; None: all get one.
        pooling: What the vector of a token is, among the special tokens that surround it: `"mean"` of all vectors,
            `"first"`, `"last"`, or `"model"`, the model's own embedding.
        max_length: Tokens of a text that the folder's model reads, as model2vec has it; None for all.
        dtype: `"float32"` or `"float16"`, of the vectors.
        batch_size: Maximum tokens per batch. No number depends on it.
        show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
        overwrite: Whether files of these names may be replaced; default False.

    Returns:
        The folder: `grilly.SentenceTransformer`, sentence-transformers and model2vec load it.

    The analysis is computed in float64; each component has the sign by which its largest score is positive, so that one
    machine gives one result. model2vec gives the same vectors up to rounding and that sign.

    Raises:
        InvalidArgumentError: An invalid value, a file that is there, or no token that is left.
        UnsupportedError: `numerics="everywhere"`, as eigenvectors are NumPy's; `vocabulary` for a tokenizer of BPE.

    Source: model2vec 0.10, `model2vec.distill.distill`; Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for
    Sentence Embeddings".

    Example:
        >>> import tempfile
        >>> import grilly
        >>> folder = grilly.distill(tiny, ["a phrase"], 16, folder=tempfile.mkdtemp())
        >>> with grilly.SentenceTransformer(folder, device="cpu") as static:
        ...     static.encode(["A cat sits on the mat."]).shape
        (1, 16)
    """
    size, longest = (
        positive(batch_size, "batch_size"),
        None if max_length is None else positive(max_length, "max_length"),
    )
    wanted = Wanted(dimensions, sif_coefficient, token_remove_pattern, pooling, longest, dtype, size)
    place = Path(path_text(folder, "folder"))
    need_type(overwrite, bool, "overwrite", "bool")
    if vocabulary is not None and isinstance(vocabulary, str):
        raise InvalidTypeError("vocabulary is of type str, expected a list of str")
    words = [] if vocabulary is None else as_list(vocabulary, "vocabulary")[0]
    if isinstance(model, str | os.PathLike):
        with SentenceTransformer(os.fspath(model)) as loaded:
            tokens, rows = token_vectors(loaded, words, wanted, show_progress_bar)
    else:
        need_type(model, Encoding, "model", "a SentenceTransformer, or the name of one")
        tokens, rows = token_vectors(model, words, wanted, show_progress_bar)
    rows = reduced(rows, dimensions) * zipf_weights(len(rows), sif_coefficient)[:, None]
    if tokens.unknown in tokens.tokens:
        rows[tokens.tokens.index(tokens.unknown)] = 0
    table = {"embedding.weight": rows.astype(dtype)}
    files = {
        f"{FOLDER}/model.safetensors": safetensors(table),
        f"{FOLDER}/tokenizer.json": tokens.file,
        "config_sentence_transformers.json": json.dumps(SETTINGS, indent=2).encode(),
        "modules.json": json.dumps(MODULES, indent=2).encode(),
    }
    _core.write_files(place, list(files.items()), overwrite)
    return place


@closed()
@dataclass(frozen=True)
class Wanted:
    """The arguments of `distill` that are checked before any token is encoded."""

    dimensions: int | float | str | None
    sif_coefficient: float | None
    token_remove_pattern: str | None
    pooling: str
    max_length: int | None
    dtype: str
    batch_size: int

    def __post_init__(self) -> None:
        need_one_of(self.pooling, POOLINGS, "pooling")
        need_one_of(self.dtype, ("float32", "float16"), "dtype")
        share = self.sif_coefficient
        if share is not None and not (isinstance(share, float | int) and 0 < share < 1):
            raise InvalidArgumentError(f"sif_coefficient is {share!r}, expected a number above 0 and below 1, or None")
        need_type(self.token_remove_pattern, str | None, "token_remove_pattern", "str or None")
        kept = self.dimensions
        if isinstance(kept, float):
            if not 0 < kept <= 1:
                raise InvalidArgumentError(f"dimensions is {kept}, expected a share above 0 and up to 1, or a number")
        elif isinstance(kept, str):
            need_one_of(kept, ("auto",), "dimensions")
        elif kept is not None:
            positive(kept, "dimensions")

    @property
    def removed(self) -> re.Pattern[str] | None:
        """The tokens that are left out."""
        if self.token_remove_pattern is None:
            return None
        try:
            return re.compile(self.token_remove_pattern)
        except re.error as error:
            raise InvalidArgumentError(f"token_remove_pattern is no regular expression: {error}") from error


def token_vectors(model: Encoding, words: list[str], wanted: Wanted, shown: bool | None) -> tuple[Distilled, Matrix]:
    """The tokens of a distilled model, and the vector of each as the model encodes it, `(N, D)`."""
    core = model._core
    if core.numerics == EVERYWHERE:
        raise UnsupportedError(
            'distill of a model with numerics="everywhere": eigenvectors are NumPy\'s, whose last bits differ from '
            'machine to machine; load it with numerics="run"'
        )
    tokenizer = model.tokenizer
    roles = {role: token for role, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    before, after = around(tokenizer)
    names = [token for token in core.tokens_of([*before, *after]) if token is not None]
    tokens = distilled_tokens(core.tokenizer.file(), roles, names, words, wanted.removed, wanted.max_length)
    numbers = core.tokenizer.ids_of(tokens.tokens)
    known = {token: number for token, number in zip(tokens.tokens, numbers, strict=True) if token not in tokens.new}
    rows = [
        tokenizer.encode(token) if (number := known.get(token)) is None else [*before, number, *after]
        for token in tokens.tokens
    ]
    found = list[Matrix]()
    options = {"prompt": "", "task": None, "batch_size": wanted.batch_size, "tokens": wanted.pooling != "model"}
    with progress(len(rows), shown) as advance:
        for start in range(0, len(rows), PART):
            part = rows[start : start + PART]
            encoded = core.encode_rows((part, [[0] * len(row) for row in part]), options)
            found.append(pooled(encoded, wanted.pooling))
            if advance is not None:
                advance(start + len(part))
    return tokens, np.concatenate(found)


def around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The tokens that are put before a text, and those after it."""
    found = tokenizer("a", return_special_tokens_mask=True)
    ids, special = found["input_ids"], found["special_tokens_mask"]
    first = special.index(0) if 0 in special else len(ids)
    last = len(ids) - special[::-1].index(0) if 0 in special else len(ids)
    return ids[:first], ids[last:]


def pooled(encoded: _core.Encoded, pooling: str) -> Matrix:
    """One vector of each row of tokens, in float64."""
    if pooling == "model":
        return encoded.texts.astype(np.float64)
    if pooling == "mean":
        return np.stack([rows.mean(axis=0, dtype=np.float64) for rows in encoded.tokens])
    place = 0 if pooling == "first" else -1
    return np.stack([rows[place] for rows in encoded.tokens]).astype(np.float64)


def zipf_weights(count: int, sif_coefficient: float | None) -> Matrix:
    """`a / (a + p_r)` with `p_r = (1 / (r + 2)) / sum_s 1 / (s + 2)`, for the rows 0 to `count` - 1; ones for None.

    Example:
        >>> from grilly.distillation import zipf_weights
        >>> zipf_weights(2, 0.5).round(3).tolist()
        [0.455, 0.556]
    """
    if sif_coefficient is None:
        return np.ones(count)
    shares = 1 / np.arange(2, count + 2)
    weights: Matrix = sif_coefficient / (sif_coefficient + shares / shares.sum())
    return weights


def reduced(rows: Matrix, dimensions: int | float | str | None) -> Matrix:
    """The rows in so many principal components; as they are for None, and where there are no more rows than these."""
    if dimensions is None:
        return rows
    kept = rows.shape[1] if dimensions == "auto" else dimensions
    assert not isinstance(kept, str)
    if kept > rows.shape[1]:
        logger.warning("dimensions is %s, but the model has %d columns: as many are kept", kept, rows.shape[1])
        kept = rows.shape[1]
    if kept >= len(rows):
        logger.warning("dimensions is %s, but there are %d tokens: their vectors are kept as they are", kept, len(rows))
        return rows
    return principal_components(rows, kept if isinstance(kept, float) else as_int(kept, "dimensions"))


def principal_components(rows: Matrix, dimensions: int | float) -> Matrix:
    """Scores of rows `(N, D)` in the components of the largest variance, `(N, K)`, in float64.

    Args:
        rows: Their mean is subtracted first.
        dimensions: K, or the share of the variance that K components explain at least.

    Returns:
        `(N, K)`: each component has the sign by which the score of the largest magnitude, the first of several, is
        positive.

    Example:
        >>> import numpy as np
        >>> from grilly.distillation import principal_components
        >>> rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.1], [0.0, -0.1]])
        >>> principal_components(rows, 1).ravel().round(6).tolist()
        [1.0, -1.0, 0.0, 0.0]
    """
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred / (len(rows) - 1))
    values, vectors = np.clip(values[::-1], 0, None), vectors[:, ::-1]
    if isinstance(dimensions, float):
        explained = np.cumsum(values) / values.sum()
        dimensions = min(int(np.searchsorted(explained, dimensions)) + 1, len(values))
    scores = centred @ vectors[:, :dimensions]
    largest = scores[np.abs(scores).argmax(axis=0), np.arange(dimensions)]
    return np.asarray(scores * np.where(largest < 0, -1.0, 1.0)) + 0.0
