"""The transformer of grilly.train in float64 with NumPy alone: loss, gradients by name, and steps of optimisers."""

from __future__ import annotations

import numpy as np
from cases.elementwise import philox

EPS = 1e-5
ROOT = np.sqrt(2 / np.pi)

Numbers = dict[str, np.ndarray]


def parameters(tensors: dict[str, np.ndarray]) -> Numbers:
    """The parameters of a trainer's tensors, without the moments."""
    return {name: np.array(x, np.float64) for name, x in tensors.items() if not name.startswith(("m.", "v."))}


def normalised(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)


def by_normalised(g, x):
    """The gradient of `normalised` in x."""
    centred = x - x.mean(-1, keepdims=True)
    divisor = np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)
    u = centred / divisor
    return (g - g.mean(-1, keepdims=True) - u * (g * u).mean(-1, keepdims=True)) / divisor


def gelu(x):
    return x * (1 + np.tanh(ROOT * (x + 0.044715 * x**3))) / 2


def by_gelu(g, x):
    inner = np.tanh(ROOT * (x + 0.044715 * x**3))
    return g * ((1 + inner) / 2 + x * (1 - inner**2) * ROOT * (1 + 3 * 0.044715 * x**2) / 2)


def turned(x, sign=1):
    """Rotary positions of (B, heads, L, D): column d of a head's first half with column d of its second."""
    length, half = x.shape[2], x.shape[3] // 2
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(half) / half)
    cosines, sines = np.cos(angles), sign * np.sin(angles)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cosines - second * sines, second * cosines + first * sines], -1)


def split(x, heads):
    """(B, L, D) as (B, heads, L, D / heads)."""
    rows, length, columns = x.shape
    return x.reshape(rows, length, heads, columns // heads).transpose(0, 2, 1, 3)


def joined(x):
    rows, heads, length, columns = x.shape
    return x.transpose(0, 2, 1, 3).reshape(rows, length, heads * columns)


class Rounded:
    """Rows rounded to int8 and matrices to ternary values (W1.58A8), and how far any of them is from a tie."""

    def __init__(self) -> None:
        self.margin = np.inf

    def _of(self, x, scale, most):
        scaled = x * scale
        from_tie = np.abs(np.abs(scaled) % 1 - 0.5)[np.abs(scaled) < most + 0.5]
        self.margin = min(self.margin, from_tie.min() / most)
        return np.clip(np.rint(scaled), -most, most) / scale

    def rows(self, x):
        return self._of(x, 127 / np.maximum(np.abs(x).max(-1, keepdims=True), 1e-5), 127)

    def matrix(self, w):
        return self._of(w, 1 / max(np.abs(w).mean(), 1e-5), 1)


class Masks:
    """What dropout multiplies by, 0 or `1 / (1 - p)`, in batch `number` of a run with this seed."""

    def __init__(self, p: float, seed: int, number: int) -> None:
        low, high, *_ = (int(word) for word in philox(seed, np.zeros(1, np.uint64), 0, 4)[0])
        self.p, self.seed, self.offset = p, high << 32 | low, np.uint64(number << 32)

    def _left(self, words):
        return ((words >> np.uint64(8)).astype(np.float64) * 2.0**-24 >= np.float32(self.p)) / (1 - self.p)

    def of(self, place: int, shape):
        """Of a tensor at a place: 0 is that of the embeddings, `3 n + 2` and `3 n + 3` are those of layer `n`."""
        if not self.p:
            return 1.0
        size = int(np.prod(shape))
        blocks = np.arange(-(-size // 4), dtype=np.uint64) + self.offset
        return self._left(philox(self.seed, blocks, place, 0).reshape(-1)[:size].reshape(shape))

    def of_weights(self, place: int, shape):
        """Of the weights `(B, heads, L, L)` of layer `n`, whose place is `3 n + 1`."""
        if not self.p:
            return 1.0
        rows, heads, length, _ = shape
        tokens = np.arange(rows * length).reshape(rows, 1, length, 1)
        blocks = np.tile(np.arange(-(-length // 4), dtype=np.uint64), (rows, heads, length, 1)) + self.offset
        words = philox(self.seed, blocks, place, tokens * heads + np.arange(heads).reshape(heads, 1, 1))
        return self._left(words.reshape(rows, heads, length, -1)[..., :length])


class Reference:
    """Loss and gradients of one batch of windows, `(B, L + 1)`; with `rounded` those of BitLinear, straight-through."""

    def __init__(
        self,
        p: Numbers,
        tokens: np.ndarray,
        heads: int,
        masks: Masks = Masks(0.0, 0, 0),  # noqa: B008
        rounded: Rounded | None = None,
    ) -> None:
        self.p, self.heads, self.masks, self.rounded = p, heads, masks, rounded
        self.layers = len({name.split(".")[1] for name in p if name.startswith("layers.")})
        self.inputs, self.targets = np.asarray(tokens)[:, :-1], np.asarray(tokens)[:, 1:]
        self.learned = "positions.weight" in p
        self.output = "output.weight" if "output.weight" in p else "embedding.weight"
        self.kept: dict[str, np.ndarray] = {}
        self.loss = self._forward()

    def _norm(self, name: str, x):
        self.kept[name] = x
        return normalised(x) * self.p[f"{name}.weight"] + self.p[f"{name}.bias"]

    def _linear(self, name: str, x):
        w = self.p[f"{name}.weight"]
        if self.rounded is not None:
            x, w = self.rounded.rows(x), self.rounded.matrix(w)
        self.kept[name], self.kept[f"{name}.weight"] = x, w
        return x @ w.T + self.p[f"{name}.bias"]

    def _dropped(self, place: int, x):
        self.kept[f"mask {place}"] = self.masks.of(place, x.shape)
        return x * self.kept[f"mask {place}"]

    def _forward(self) -> float:
        length = self.inputs.shape[1]
        x = self.p["embedding.weight"][self.inputs]
        x = self._dropped(0, x + self.p["positions.weight"][:length] if self.learned else x)
        hidden = np.triu(np.full((length, length), -np.inf), 1)
        for layer in range(self.layers):
            at = f"layers.{layer}."
            qkv = self._linear(at + "attention.query_key_value", self._norm(at + "attention_norm", x))
            q, k, v = (split(part, self.heads) for part in np.split(qkv, 3, -1))
            if not self.learned:
                q, k = turned(q), turned(k)
            scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + hidden
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            left = self.masks.of_weights(3 * layer + 1, weights.shape)
            self.kept |= {at + "q": q, at + "k": k, at + "v": v, at + "weights": weights, at + "left": left}
            x = x + self._dropped(3 * layer + 2, self._linear(at + "attention.output", joined((weights * left) @ v)))
            wide = self._linear(at + "feed_forward.in", self._norm(at + "feed_forward_norm", x))
            self.kept[at + "wide"] = wide
            x = x + self._dropped(3 * layer + 3, self._linear(at + "feed_forward.out", gelu(wide)))
        self.last = self._norm("final_norm", x)
        logits = self.last @ self.p[self.output].T
        logits -= logits.max(-1, keepdims=True)
        self.probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        chosen = np.take_along_axis(self.probabilities, self.targets[..., None], -1)
        return float(-np.log(chosen).mean())

    def gradients(self) -> Numbers:
        found = {name: np.zeros_like(x) for name, x in self.p.items()}

        def linear(name, g):
            x = self.kept[name]
            found[f"{name}.weight"] += np.einsum("bln,blk->nk", g, x)
            found[f"{name}.bias"] += g.sum((0, 1))
            return g @ self.kept[f"{name}.weight"]

        def norm(name, g):
            x = self.kept[name]
            found[f"{name}.weight"] += (g * normalised(x)).sum((0, 1))
            found[f"{name}.bias"] += g.sum((0, 1))
            return by_normalised(g * self.p[f"{name}.weight"], x)

        g = self.probabilities.copy()
        np.put_along_axis(g, self.targets[..., None], np.take_along_axis(g, self.targets[..., None], -1) - 1, -1)
        g /= self.targets.size
        found[self.output] += np.einsum("blv,bld->vd", g, self.last)
        g = norm("final_norm", g @ self.p[self.output])
        for layer in reversed(range(self.layers)):
            at = f"layers.{layer}."
            added = g * self.kept[f"mask {3 * layer + 3}"]
            wide = by_gelu(linear(at + "feed_forward.out", added), self.kept[at + "wide"])
            g = g + norm(at + "feed_forward_norm", linear(at + "feed_forward.in", wide))
            added = g * self.kept[f"mask {3 * layer + 2}"]
            mixed = split(linear(at + "attention.output", added), self.heads)
            q, k, v, weights, left = (self.kept[at + name] for name in ("q", "k", "v", "weights", "left"))
            by_weights = mixed @ v.transpose(0, 1, 3, 2) * left
            by_scores = weights * (by_weights - (by_weights * weights).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
            used = weights * left
            parts = by_scores @ k, by_scores.transpose(0, 1, 3, 2) @ q, used.transpose(0, 1, 3, 2) @ mixed
            if not self.learned:
                parts = turned(parts[0], -1), turned(parts[1], -1), parts[2]
            by_qkv = np.concatenate([joined(part) for part in parts], -1)
            g = g + norm(at + "attention_norm", linear(at + "attention.query_key_value", by_qkv))
        g = g * self.kept["mask 0"]
        np.add.at(found["embedding.weight"], self.inputs, g)
        if self.learned:
            found["positions.weight"][: g.shape[1]] += g.sum(0)
        return found


class Optimizer:
    """Torch's formulas in float64 on parameters by name, with the gradients scaled to a norm of at most `max_norm`."""

    def __init__(self, p: Numbers, rate: float, decay=0.0, max_norm=None) -> None:
        self.p, self.rate, self.decay, self.max_norm = p, rate, decay, max_norm
        self.m, self.v = ({name: np.zeros_like(x) for name, x in p.items()} for _ in "mv")
        self.steps = 0

    def step(self, gradients: Numbers, factor: float = 1.0) -> float:
        """Updates the parameters and returns the norm of the gradients."""
        self.steps += 1
        norm = float(np.sqrt(sum((g**2).sum() for g in gradients.values())))
        scale = 1.0 if self.max_norm is None else min(1.0, self.max_norm / (norm + 1e-6))
        self.update({name: g * scale for name, g in gradients.items()}, self.rate * factor)
        return norm


class Adam(Optimizer):
    """`torch.optim.Adam`, or AdamW, whose decay is apart from the gradient."""

    def __init__(self, p: Numbers, rate: float, betas=(0.9, 0.999), eps=1e-8, apart=True, **options) -> None:
        super().__init__(p, rate, **options)
        self.betas, self.eps, self.apart = betas, eps, apart

    def update(self, gradients: Numbers, rate: float) -> None:
        c1, c2 = (1 - beta**self.steps for beta in self.betas)
        for name, g in gradients.items():
            if not self.apart:
                g = g + self.decay * self.p[name]
            m, v = self.m[name], self.v[name]
            m += (1 - self.betas[0]) * (g - m)
            v += (1 - self.betas[1]) * (g**2 - v)
            update = (m / c1) / (np.sqrt(v / c2) + self.eps)
            self.p[name] -= rate * (update + self.decay * self.p[name] if self.apart else update)


class Sgd(Optimizer):
    """`torch.optim.SGD` with a momentum, which begins with the first gradient: zeros before it are the same."""

    def __init__(self, p: Numbers, rate: float, momentum=0.9, **options) -> None:
        super().__init__(p, rate, **options)
        self.momentum = momentum

    def update(self, gradients: Numbers, rate: float) -> None:
        for name, g in gradients.items():
            self.m[name] = self.momentum * self.m[name] + g + self.decay * self.p[name]
            self.p[name] -= rate * self.m[name]
