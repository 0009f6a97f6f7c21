"""Operations on rows: norms, softmax, pooling, sums of embeddings, rotations."""

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


@quiet
def reduce(kind: str, x: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The sum, mean, largest number or deviation of rows of settled numbers, by settled weights, if there are some."""
    if kind == "max" and weights is None:
        return largest(x, -1)
    if kind == "max":
        chosen = np.broadcast_to(weights > 0, x.shape)
        found = largest(np.where(chosen, x, -INFINITY), -1)
        return np.where(chosen.any(axis=-1), found, F(0))
    y = total(x if weights is None else mul(weights, x))
    if kind == "sum":
        return y
    by = length(x)
    if weights is not None:
        by = total(weights)
        by = np.where(by < F(1e-9), F(1e-9), by)
    y = div(y, by)
    if kind == "mean":
        return y
    d = sub(x, y[..., None])
    return root(div(total(mul(d, d)), length(x)))


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
