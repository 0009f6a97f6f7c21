"""Which vectors of a query are those of its own words."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grilly.multi_vector_encoder import MultiVectorEncoder

__all__ = ["real_query_token_slice"]


def real_query_token_slice(model: MultiVectorEncoder, query: str) -> slice:
    """The slice of `encode_query`'s vectors that are of tokens of the query, without markers and what expands it.

    Source: `sentence_transformers.multi_vector_encoder.interpretability.real_query_token_slice`, version 6.2.

    Example:
        >>> from grilly.query_tokens import real_query_token_slice
        >>> own = real_query_token_slice(colbert_model, "Where is the cat?")
        >>> len(colbert_model.encode_query(["Where is the cat?"])[0][own])
        6
    """
    empty, ids = (features["input_ids"].tolist() for features in model.encode_query(["", query], output_value=None))
    start = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(empty, ids, strict=False)))
    if "query_expansion" in json.loads(model._core.module_settings)[0]:  # both are as long
        return slice(start, start + len(model.tokenizer(query, add_special_tokens=False)["input_ids"]))
    return slice(start, start + len(ids) - len(empty))
