"""Measures of scores against what is known, in NumPy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "average_precision", "best_accuracy", "best_f1", "f1_scores", "matthews", "ndcg", "pearson", "ranking", "ranks",
    "reciprocal_rank", "spearman",
]  # fmt: skip

Numbers = npt.NDArray[np.float64]


def pearson(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Pearson's correlation of two lists of numbers; NaN where one of them is constant.

    Example:
        >>> from grilly.evaluation.measures import pearson
        >>> pearson([1, 2, 3], [3, 5, 7])
        1.0
    """
    first, second = (np.asarray(each, np.float64) for each in (a, b))
    first, second = first - first.mean(), second - second.mean()
    lengths = float(np.sqrt(np.square(first).sum() * np.square(second).sum()))
    return min(1.0, max(-1.0, float(first @ second) / lengths)) if lengths > 0 else float("nan")


def ranks(values: npt.ArrayLike) -> Numbers:
    """The rank of each number, from 1; equal numbers have the mean of theirs.

    Example:
        >>> from grilly.evaluation.measures import ranks
        >>> ranks([0.5, 0.1, 0.5]).tolist()
        [2.5, 1.0, 2.5]
    """
    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    means: Numbers = np.cumsum(counts) - (counts - 1) / 2
    return means[places.reshape(-1)]


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Spearman's correlation: Pearson's of the ranks.

    Example:
        >>> from grilly.evaluation.measures import spearman
        >>> spearman([1, 2, 3], [3, 50, 7000])
        1.0
    """
    return pearson(ranks(a), ranks(b))


def groups(
    scores: npt.NDArray[Any], relevant: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Distinct scores, the highest first; how many have at least each, and how many of these are relevant."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else np.empty(0, np.int64)
    return ordered[ends], ends + 1.0, np.cumsum(relevant[order].astype(np.float64))[ends]


def average_precision(relevant: npt.ArrayLike, scores: npt.ArrayLike) -> float:
    """Sum over distinct scores of the precision times the gain in recall; 0 where nothing is relevant.

    Source: scikit-learn's `average_precision_score`.

    Example:
        >>> from grilly.evaluation.measures import average_precision
        >>> round(average_precision([1, 0, 1], [0.9, 0.5, 0.1]), 4)
        0.8333
    """
    _, found, correct = groups(np.asarray(scores), np.asarray(relevant))
    if not len(correct) or correct[-1] == 0:
        return 0.0
    return float((np.diff(correct, prepend=0.0) * correct / found).sum() / correct[-1])


def ndcg(relevant: npt.ArrayLike, scores: npt.ArrayLike, k: int) -> float:
    """Discounted gain of the first `k` by score over that of the best order; equal scores share their mean gain.

    Source: scikit-learn's `ndcg_score`.

    Example:
        >>> from grilly.evaluation.measures import ndcg
        >>> round(ndcg([0, 1], [0.9, 0.1], 10), 4)
        0.6309
    """
    gains, values = np.asarray(relevant, np.float64), np.asarray(scores)
    discounts = np.where(np.arange(len(gains)) < k, 1 / np.log2(np.arange(len(gains)) + 2.0), 0.0)
    _, found, correct = groups(values, gains)
    sizes = np.diff(found, prepend=0.0)
    shared = np.diff(np.cumsum(discounts)[found.astype(np.int64) - 1], prepend=0.0)
    best = float((np.sort(gains)[::-1] * discounts).sum())
    return float((np.diff(correct, prepend=0.0) / sizes * shared).sum() / best) if best > 0 else 0.0


def reciprocal_rank(relevant: npt.ArrayLike, scores: npt.ArrayLike, k: int) -> float:
    """One over the place of the first relevant one, by score; 0 where it is not among the first `k`.

    Example:
        >>> from grilly.evaluation.measures import reciprocal_rank
        >>> reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1], 10)
        0.5
    """
    order = np.argsort(-np.asarray(scores), kind="stable")[:k]
    places = np.flatnonzero(np.asarray(relevant)[order])
    return 1.0 / (int(places[0]) + 1) if len(places) else 0.0


def ranking(relevant: npt.ArrayLike, scores: npt.ArrayLike, k: int) -> tuple[float, float, float]:
    """Average precision, reciprocal rank and nDCG of one query's documents, the last two of the first `k`.

    Example:
        >>> from grilly.evaluation.measures import ranking
        >>> ranking([1, 0], [0.9, 0.1], 10)
        (1.0, 1.0, 1.0)
    """
    return average_precision(relevant, scores), reciprocal_rank(relevant, scores, k), ndcg(relevant, scores, k)


def middles(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Between each number and the next, in their type; where that rounds to the next, and at the end, the number."""
    between = (values[:-1] + values[1:]) / values.dtype.type(2)
    return np.append(np.where(between == values[1:], values[:-1], between), values[-1:])


def best_accuracy(scores: npt.NDArray[Any], labels: npt.NDArray[Any], higher: bool = True) -> tuple[float, float]:
    """The highest accuracy of "the score is at least the threshold", and that threshold; "at most" unless `higher`.

    Example:
        >>> import numpy as np
        >>> from grilly.evaluation.measures import best_accuracy
        >>> best_accuracy(np.array([1.0, 0.5, 0.0]), np.array([1, 1, 0]))
        (1.0, 0.25)
    """
    if not len(scores):
        return 0.0, -1.0
    sign = scores.dtype.type(1 if higher else -1)
    values, found, correct = groups(scores * sign, labels)
    right = correct + (len(labels) - np.sum(labels)) - (found - correct)
    least = np.nextafter(values[0], values.dtype.type(np.inf))
    accuracies, thresholds = np.append(len(labels) - np.sum(labels), right), np.append(least, middles(values))
    best = int(np.argmax(accuracies))
    return float(accuracies[best] / len(labels)), float(thresholds[best] * sign)


def best_f1(
    scores: npt.NDArray[Any], labels: npt.NDArray[Any], higher: bool = True
) -> tuple[float, float, float, float]:
    """The highest F1 of such a rule, its precision and recall, and the threshold; zeros where no label is 1.

    Example:
        >>> import numpy as np
        >>> from grilly.evaluation.measures import best_f1
        >>> best_f1(np.array([1.0, 0.5, 0.0]), np.array([1, 1, 0]))
        (1.0, 1.0, 1.0, 0.25)
    """
    sign = scores.dtype.type(1 if higher else -1)
    values, found, correct = groups(scores * sign, labels)
    if not len(values) or correct[-1] == 0:
        return 0.0, 0.0, 0.0, 0.0
    precision, recall = correct / found, correct / correct[-1]
    # Of equal ones the first counts, so that the order of operations is the reference's.
    scored = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    best = int(np.argmax(scored))
    threshold = float(middles(values)[best] * sign)
    return float(scored[best]), float(precision[best]), float(recall[best]), threshold


def matthews(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Matthews' correlation of two lists of 0 and 1; 0 where one of them is constant.

    Example:
        >>> from grilly.evaluation.measures import matthews
        >>> matthews([1, 0, 1, 0], [1, 0, 1, 0])
        1.0
    """
    found = pearson(np.asarray(labels, np.float64), np.asarray(predicted, np.float64))
    return 0.0 if np.isnan(found) else found


def f1_scores(labels: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> tuple[float, float, float]:
    """F1 of classes: their mean, that of all predictions together, and their mean weighted by their labels.

    Example:
        >>> import numpy as np
        >>> from grilly.evaluation.measures import f1_scores
        >>> f1_scores(np.array([0, 1, 2, 2]), np.array([0, 1, 2, 2]))
        (1.0, 1.0, 1.0)
    """
    classes = np.union1d(labels, predicted)[:, None]
    both = ((labels == classes) & (predicted == classes)).sum(axis=1)
    known = (labels == classes).sum(axis=1)
    scores = 2 * both / (known + (predicted == classes).sum(axis=1))
    return float(scores.mean()), float(both.sum() / len(labels)), float(scores @ known / len(labels))
