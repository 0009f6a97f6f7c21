"""What the products beside a checkpoint give of each token: a vector, and a weight in the text's sparse embedding."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly._core import EmbeddingModel, Encoded
from grilly.closed import closed
from grilly.everywhere import normalized
from grilly.sparse import SparseRows
from grilly.tensors import stored
from grilly.tokenizer import Tokenizer

__all__ = ["KIND", "PART", "TokenProducts", "kind_of", "token_vectors"]

#: The class of the core that computes both, and the files of the products.
KIND = "HybridEncoder"
FILES = ("colbert_linear.pt", "sparse_linear.pt")
SETTINGS = "config_sentence_transformers.json"
#: Texts whose tokens' vectors are in memory at a time where only their weights are wanted.
PART = 128
# Roles of the tokens that have no weight.
UNUSED = ("cls_token", "eos_token", "pad_token", "unk_token")

Rows = npt.NDArray[np.float32]


def kind_of(folder: Path, kind: str) -> str:
    """The class of the core that reads a folder for a class: that of the products where the folder has their files.

    A folder that a class of sentence-transformers has saved as its own is read as that.
    """
    if not any((folder / name).is_file() for name in FILES):
        return kind
    try:
        saved = json.loads((folder / SETTINGS).read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        saved = None  # not there, or what loading will reject
    return kind if saved not in (None, "SentenceTransformer") else KIND


@closed()
@dataclass(frozen=True, eq=False, repr=False)
class TokenVectors:
    """The vectors of each text's tokens, their ids, and which of them are scored."""

    tokens: list[Rows]
    ids: list[list[int]]
    scored: list[npt.NDArray[np.bool_]]


@closed()
class TokenProducts:
    """The parts of the rows that a core of this kind gives of a text's tokens.

    A row has the columns of the token's vector before it is normalised, then its weight, the last once more where the
    number of columns would be odd.

    Attributes:
        columns: Those of a vector.
        words: Those of a sparse embedding: the rows of the model's table of words.
    """

    def __init__(self, core: EmbeddingModel, tokenizer: Tokenizer) -> None:
        settings = next(module for module in json.loads(core.module_settings) if module["kind"] == "Products")
        self.columns = int(settings[FILES[0]])
        self.words = int(json.loads(core.config_json)["vocab_size"])
        roles = tokenizer.special_tokens_map
        ids = core.tokenizer.ids_of([str(roles[role]) for role in UNUSED if role in roles])
        self._unused = np.array([number for number in ids if number is not None], np.int64)

    @classmethod
    def of(cls, core: EmbeddingModel, tokenizer: Tokenizer) -> TokenProducts | None:
        """Those of a core; None for one without."""
        return cls(core, tokenizer) if any(name == "Products" for name, _ in core.modules) else None

    def all_vectors(self, rows: Rows, numerics: str) -> Rows:
        """The vectors `(T, C)` of a text's tokens, each divided by `max(norm, 1e-12)`; the first is not scored."""
        return normalized(rows[:, : self.columns].copy(), numerics)

    def vectors(self, rows: Rows, numerics: str) -> Rows:
        """The vectors `(T - 1, C)` of all tokens but the first."""
        return self.all_vectors(rows[1:], numerics)

    def weights(self, rows: Rows, ids: list[int]) -> dict[int, np.float32]:
        """`max(0, max_t w_t)` over the places t of each id, in the order of their first places; those of 0 left out."""
        weights = np.maximum(rows[:, self.columns], np.float32(0))
        found, first, place = np.unique(np.array(ids, np.int64), return_index=True, return_inverse=True)
        best = np.zeros(len(found), np.float32)
        np.maximum.at(best, place, weights)
        kept = np.flatnonzero((best > 0) & ~np.isin(found, self._unused))
        kept = kept[np.argsort(first[kept], kind="stable")]
        return dict(zip(found[kept].tolist(), best[kept], strict=True))

    def sparse(self, found: Encoded, dtype: str, most: int | None = None) -> SparseRows:
        """Sparse embeddings `(N, V)` of texts, of each the `most` largest weights; a tie goes to the lower column."""
        values: list[Any] = [stored(np.zeros(0, np.float32), dtype)]
        columns = [np.zeros(0, np.int64)]
        for rows, ids in zip(found.tokens, found.ids, strict=True):
            weights = self.weights(rows, ids)
            order = np.array(sorted(weights), np.int64)
            own: Any = stored(np.array([weights[column] for column in order.tolist()], np.float32), dtype)
            order, own = order[own > 0], own[own > 0]  # some are 0 in 16 bits
            if most is not None:
                kept = np.sort(np.argsort(-own, kind="stable")[:most])
                order, own = order[kept], own[kept]
            values.append(own)
            columns.append(order)
        ends = np.cumsum([0, *(len(own) for own in values[1:])]).astype(np.int64)
        return SparseRows(np.concatenate(values), np.concatenate(columns), ends, (len(values) - 1, self.words))


def token_vectors(found: Encoded, core: EmbeddingModel, tokenizer: Tokenizer) -> Encoded | TokenVectors:
    """What a core gives of the texts' tokens; of products the vectors, of which a text's first is not scored."""
    products = TokenProducts.of(core, tokenizer)
    if products is None:
        return found
    tokens = [products.all_vectors(rows, core.numerics) for rows in found.tokens]
    return TokenVectors(tokens, found.ids, [np.arange(len(ids)) > 0 for ids in found.ids])
