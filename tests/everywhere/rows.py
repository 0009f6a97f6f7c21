"""Operations on rows: norms, softmax, reductions, pooling, sums of embeddings, rotations."""

import math

import numpy as np

from .arithmetic import INFINITY, NAN, F, add, canonical, div, floats, mul, quiet, root, settle, sub, total
from .functions import exponential


def length(x: np.ndarray) -> np.ndarray:
    return F(x.shape[-1])


def layer_norm(x, weight, bias, eps: float) -> np.ndarray:
    """`(x - mean) / sqrt(var + eps) * weight + bias` along the last axis."""
    x = settle(x)
    d = sub(x, div(total(x), length(x))[..., None])
    variance = div(total(mul(d, d)), length(x))
    factor = div(F(1), root(add(variance, settle(eps))))
    return canonical(add(mul(mul(d, factor[..., None]), settle(weight)), settle(bias)))


def rms_norm(x, weight, eps: float) -> np.ndarray:
    """`x / sqrt(mean(x^2) + eps) * weight` along the last axis."""
    x = settle(x)
    variance = div(total(mul(x, x)), length(x))
    factor = div(F(1), root(add(variance, settle(eps))))
    return canonical(mul(mul(x, factor[..., None]), settle(weight)))


def normalize(x, eps: float, floor: str = "max") -> np.ndarray:
    """`x / max(|x|, eps)`, or with floor "add" `x / (|x| + eps)`, |x| of a row."""
    x = settle(x)
    norm = root(total(mul(x, x)))
    norm = add(norm, settle(eps)) if floor == "add" else np.where(norm < settle(eps), settle(eps), norm)
    return canonical(div(x, norm[..., None]))


@quiet
def softmax(x, keep=None) -> np.ndarray:
    """`e^(x - max) / sum e^(x - max)` over the kept entries of the last axis; 0 elsewhere and in rows without any.

    A row with a kept NaN is NaN.
    """
    x = settle(x)
    kept = np.broadcast_to(True if keep is None else np.asarray(keep) != 0, x.shape)
    seen = np.where(kept, x, -INFINITY)
    most = np.where(np.isnan(seen), -INFINITY, seen).max(axis=-1, keepdims=True, initial=-INFINITY)
    e = np.where(kept, exponential(sub(seen, most)), F(0))
    y = mul(e, div(F(1), total(e))[..., None])
    return canonical(np.where(kept.any(axis=-1, keepdims=True), y, F(0)))


@quiet
def largest(x: np.ndarray, axis: int) -> np.ndarray:
    """The largest along an axis, NaN if one is NaN."""
    return np.where(np.isnan(x).any(axis=axis), NAN, x.max(axis=axis))


@quiet
def in_order(x: np.ndarray) -> np.ndarray:
    """The sum of rows, from the first on."""
    result = np.zeros(x.shape[1:], F)
    for row in x:
        result = result + row
    return result


def parts(kind: str, x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The sum, largest or squared deviations of rows; the sum of weights, whether one is positive, or the mean."""
    if kind == "max":
        chosen = np.broadcast_to(True if weights is None else weights > 0, x.shape)
        return largest(np.where(chosen, x, -INFINITY), -1), chosen.any(axis=-1).astype(F)
    if kind != "deviation":
        return (total(x), F(0)) if weights is None else (total(mul(weights, x)), total(weights))
    mean = div(total(x), length(x))
    d = sub(x, mean[..., None])
    return total(mul(d, d)), mean


def joined(kind: str, values: np.ndarray, others: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parts of rows from those of their chunks, along the last axis, of so many numbers each."""
    values, others = settle(values), settle(others)
    if kind == "max":
        return largest(values, -1), largest(others, -1)
    if kind != "deviation":
        return total(values), total(others)
    mean = div(total(mul(counts, others)), F(counts.sum(dtype=np.int64)))
    d = sub(others, mean[..., None])
    return total(add(values, mul(counts, mul(d, d)))), mean


@quiet
def reduce(kind: str, x: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The sum, mean, largest number or deviation of rows of settled numbers, by settled weights, if there are some.

    Of long rows chunks are reduced first, of a power of two of numbers about the root of the length, at least 1024.
    """
    n = x.shape[-1]
    size = max(1 << max(math.isqrt(n) - 1, 0).bit_length(), 1024)
    if n <= size:
        value, other = parts(kind, x, weights)
    else:
        cuts = [np.s_[..., first : first + size] for first in range(0, n, size)]
        each = [parts(kind, x[cut], None if weights is None else weights[cut]) for cut in cuts]
        values, others = (canonical(np.stack([np.broadcast_to(y, x.shape[:-1]) for y in of], -1)) for of in zip(*each))
        value, other = joined(kind, values, others, floats([x[cut].shape[-1] for cut in cuts]))
    if kind == "mean":
        return div(value, length(x) if weights is None else np.where(other < F(1e-9), F(1e-9), other))
    if kind == "max":
        return np.where((other > 0) | (weights is None), value, F(0))
    return root(div(value, length(x))) if kind == "deviation" else value


@quiet
def pool(mode: str, x, skip: int = 0) -> np.ndarray:
    """One vector from tokens [n, columns], of which the first `skip` do not count."""
    x = settle(x)
    kept, columns = x[skip:], x.shape[1:]
    if mode == "max":
        return canonical(largest(np.concatenate([np.full((1, *columns), -INFINITY), kept]), 0))
    if not len(kept):
        return np.zeros(columns, F)
    if mode in ("cls", "last_token"):
        return canonical(kept[0 if mode == "cls" else -1])
    weights = np.arange(skip + 1, len(x) + 1)
    result = in_order(mul(weights.astype(F)[:, None], kept) if mode == "weighted_mean" else kept)
    if mode == "sum":
        return canonical(result)
    count = F(weights.sum()) if mode == "weighted_mean" else F(len(kept))
    return canonical(div(result, root(count) if mode == "mean_sqrt_length" else count))


@quiet
def token_convolution(x, weight, offsets, before: int) -> np.ndarray:
    """Of each text sums of its rows times weights [1 or rows, blocks of columns, taps], in order."""
    x, weight = settle(x), settle(weight)
    weight = np.repeat(np.broadcast_to(weight, (len(x), *weight.shape[1:])), x.shape[1] // weight.shape[1], axis=1)
    y = np.zeros(x.shape, F)
    for start, end in zip(offsets[:-1], offsets[1:]):
        for tap in range(weight.shape[2]):
            first, last = max(start, start + before - tap), min(end, end + before - tap)
            if first < last:
                own = slice(first, last)
                y[own] = add(y[own], mul(weight[own, :, tap], x[first + tap - before : last + tap - before]))
    return canonical(y)


def embedding_sum(tables, indices) -> np.ndarray:
    """`tables[0][indices[0]] + tables[1][indices[1]] + ...`, in this order."""
    rows = [settle(floats(table)[np.asarray(index)]) for table, index in zip(tables, indices, strict=True)]
    y = rows[0]
    for row in rows[1:]:
        y = add(y, row)
    return canonical(y)


def rope(x, cosine, sine) -> np.ndarray:
    """`(x1 cos - x2 sin, x2 cos + x1 sin)` of pairs of columns of heads [..., heads, size]; further ones are copied.

    Angles are [..., pairs], the same for all heads.
    """
    x, cosine, sine = settle(x), settle(cosine)[..., None, :], settle(sine)[..., None, :]
    pairs = cosine.shape[-1]
    first, second, rest = np.split(x, [pairs, 2 * pairs], axis=-1)
    turned = sub(mul(first, cosine), mul(second, sine)), add(mul(second, cosine), mul(first, sine))
    return canonical(np.concatenate([*turned, rest], axis=-1))
