"""What a call of a `MultiVectorEncoder` asks for, and its result from the vectors that are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grilly._core import EmbeddingModel, Encoded
from grilly.closed import closed
from grilly.everywhere import normalized
from grilly.sentence_transformer.calls import Request
from grilly.tensors import as_tensor, like, stored
from grilly.token_pooling import BaseTokenPooling, pooling_of
from grilly.token_products import TokenVectors

__all__ = ["MultiVectorRequest", "results"]


@closed()
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MultiVectorRequest(Request):
    """The arguments of `encode` besides the texts."""

    output_value: str | None = "token_embeddings"
    convert_to_numpy: bool = True
    convert_to_tensor: bool = False
    normalize_embeddings: bool = False
    token_pooling: Any = None


def results(
    found: Encoded | TokenVectors,
    wanted: MultiVectorRequest,
    core: EmbeddingModel,
    task: str | None,
    own: BaseTokenPooling | None,
) -> list[Any]:
    """The result for each text: its vectors, or a dict of its features; `own` is the pooling of the model.

    Example:
        >>> from grilly.multi_vector_results import MultiVectorRequest, results
        >>> core = colbert_model._core
        >>> found = core.encode(["A cat."], {"prompt": "", "task": None, "batch_size": 1, "tokens": True})
        >>> [rows.shape for rows in results(found, MultiVectorRequest(), core, None, None)]
        [(5, 24)]
    """
    asked, dtype = pooling_of(wanted.token_pooling), core.dtype_for(task)
    given: list[Any]
    if wanted.output_value is None:
        given = [
            {"input_ids": np.array(ids, np.int64), "attention_mask": scored, "token_embeddings": stored(rows, dtype)}
            for ids, scored, rows in zip(found.ids, found.scored, found.tokens, strict=True)
        ]
        for pooling in [each for each in (own, asked) if each is not None and each.applies_to(task)]:
            for features in given:
                (rows,) = pooling.pool([features["token_embeddings"][features["attention_mask"]]], task=task)
                features |= {"attention_mask": np.ones(len(rows), bool), "token_embeddings": rows}
        return [{name: like(values) for name, values in features.items()} for features in given]
    given = [rows[scored] for rows, scored in zip(found.tokens, found.scored, strict=True)]
    if own is not None:
        given = own.pool([stored(rows, dtype) for rows in given], task=task)
    if wanted.normalize_embeddings:
        given = [normalized(np.array(rows, np.float32), core.numerics) for rows in given]
    given = [stored(rows, dtype) for rows in given]
    given = [as_tensor(rows, dtype) if wanted.convert_to_tensor else like(rows) for rows in given]
    return given if asked is None else list(asked.pool(given, task=task))
