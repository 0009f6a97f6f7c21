"""Older names of a CrossEncoder's evaluators, with 6.2's warning."""

from __future__ import annotations

import warnings
from typing import Any

from grilly.closed import closed
from grilly.evaluation.scored_pairs import (
    CrossEncoderClassificationEvaluator,
    CrossEncoderCorrelationEvaluator,
    CrossEncoderRerankingEvaluator,
)

__all__ = [
    "CEBinaryAccuracyEvaluator", "CEBinaryClassificationEvaluator", "CECorrelationEvaluator", "CEF1Evaluator",
    "CERerankingEvaluator", "CESoftmaxAccuracyEvaluator",
]  # fmt: skip


def older(name: str, kind: type[Any]) -> type[Any]:
    """A class by an older name, whose constructor warns of it."""

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        warnings.warn(f"{name} is the older name of {kind.__name__}", DeprecationWarning, stacklevel=2)
        kind.__init__(self, *arguments, **options)

    members = {"__init__": __init__, "__doc__": f"The older name of `{kind.__name__}`.", "__module__": __name__}
    return closed()(type(name, (kind,), members))


CEBinaryAccuracyEvaluator = older("CEBinaryAccuracyEvaluator", CrossEncoderClassificationEvaluator)
CEBinaryClassificationEvaluator = older("CEBinaryClassificationEvaluator", CrossEncoderClassificationEvaluator)
CEF1Evaluator = older("CEF1Evaluator", CrossEncoderClassificationEvaluator)
CESoftmaxAccuracyEvaluator = older("CESoftmaxAccuracyEvaluator", CrossEncoderClassificationEvaluator)
CECorrelationEvaluator = older("CECorrelationEvaluator", CrossEncoderCorrelationEvaluator)
CERerankingEvaluator = older("CERerankingEvaluator", CrossEncoderRerankingEvaluator)
