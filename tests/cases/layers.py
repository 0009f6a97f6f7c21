"""Layers in float64, by their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases.reference import evaluate


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight, np.float64).T + np.asarray(layer.bias, np.float64)


def attended(
    layer: Any,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    keep: np.ndarray,
    rope: Any = None,
    added: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Multi-head attention in float64."""
    heads = layer.num_heads

    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(*x.shape[:2], heads, -1)

    projected = [
        split(dense(p, x.astype(np.float64))) for p, x in zip((layer.q_proj, layer.k_proj, layer.v_proj), (q, k, v))
    ]
    if rope is not None:
        for place in (0, 1):
            x = projected[place]
            angles = np.arange(x.shape[1])[:, None] * 10000.0 ** (-2 * np.arange(x.shape[3] // 2) / x.shape[3])
            projected[place] = evaluate("rope", [x, np.cos(angles), np.sin(angles)], {})
    scores = evaluate("attention_scores", projected[:2], {"scale": projected[0].shape[-1] ** -0.5}) + added
    weights = evaluate("softmax", [scores, np.broadcast_to(keep, scores.shape)], {})
    output = evaluate("attention_output", [weights, projected[2]], {}).reshape(q.shape)
    return dense(layer.out_proj, output), weights


def norm(layer: Any, x: np.ndarray) -> np.ndarray:
    return evaluate("layer_norm", [x, np.asarray(layer.weight), np.asarray(layer.bias)], {})


def feed_forward(layer: Any, x: np.ndarray) -> np.ndarray:
    return dense(layer.linear2, evaluate("activation", [dense(layer.linear1, x)], {"kind": "gelu_tanh"}))
