"""The calls that a report checks: rows of the table of operation cases, by their names there, with random operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly.report import products
from grilly.report.references import Array
from grilly.report.row import UNITS, Row, Values

__all__ = ["ROWS"]


#: Vectors of documents, around steps of 16 and 64.
DOCUMENTS = (0, 1, 15, 16, 17, 63, 64, 65, 130, 3)


def offsets(*lengths: int) -> Any:
    """Boundaries of texts of these lengths."""
    return np.r_[0, np.cumsum(lengths)].astype(np.int32)


def circle(v: Values, *shape: int) -> list[Array]:
    """Cosines and sines."""
    angles = v.rng.random(shape) * 100
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


def weight_of(v: Values, levels: str, n: int, k: int) -> Array:
    return products.packed(v.rng.choice([-1, 0, 1] if levels == "ternary" else [-1, 1], (n, k)), levels)


def sixty_fourths(v: Values) -> list[Array]:
    """Multiples of a power of two, of which sums are exact."""
    return [(v.rng.integers(-64, 65, (5, 75)) / 64).astype(np.float32)]


def experts(v: Values, rows: int, top_k: int, count: int, n: int, k: int) -> list[Array]:
    """Rows, matrices of experts, of which the last has no rows, the places of rows by expert, and biases."""
    x, weight = v.plain(rows, k), v.plain(count, n, k)
    flat = np.argsort(v.rng.random((rows, count - 1)), axis=1)[:, :top_k].reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(count + 1))
    return [x, weight, order.reshape(rows, top_k).astype(np.int32), starts.astype(np.int32), v.plain(count, n)]


def product(v: Values, m: int, n: int, k: int, by: int = 1) -> list[Array]:
    """Rows, matrix, bias and residual."""
    return [v.plain(m, k), v.plain(n, k) / by, v.plain(n), v.plain(m, n)]


def probabilities(v: Values, *shape: int) -> Any:
    powers = np.exp(v.plain(*shape).astype(float))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def attending() -> list[Row]:
    """Attention of packed texts: whole, causal, of shared key heads; then what hides keys or adds to scores."""
    found = []
    for case, lengths, heads, groups, width, dtype in (
        ("31x32x33-4x2x33", (31, 32, 33), 4, 2, 33, "float32"),
        ("causal-31x32x33-4x1x64", (31, 32, 33), 4, 1, 64, "float32"),
        ("half-31x32x33-4x1x64", (31, 32, 33), 4, 1, 64, "float16"),
    ):
        given = {"heads": heads, "kv_heads": groups, "head_dim": width, "scale": width**-0.5}
        given["causal"] = case.startswith("causal")

        def texts(v: Values, lengths: Any = lengths, h: int = heads * width, g: int = groups * width) -> list[Array]:
            t = offsets(*lengths)
            return [v.plain(t[-1], h), v.plain(t[-1], g), v.plain(t[-1], g), t, t]

        found.append(Row("attention", case, texts, given, dtype))
    masks: dict[str, dict[str, Any]] = {
        "window": {"window": 3},
        "causal-window": {"window": 64, "causal": True},
        "global": {"window": 5, "global_tokens": 2},
        "end": {"causal": True, "align_end": True},
        "bias": {"bias": True},
        "cap": {"soft_cap": 1.5},
        "distances": {"distances": [16, 0]},
    }
    for case, mask in masks.items():

        def hidden(v: Values, mask: Any = mask) -> list[Array]:
            q, k = offsets(5, 200, 65, 0), offsets(5, 66, 200, 7)
            made = [v.plain(q[-1], 32), v.plain(k[-1], 16), v.plain(k[-1], 16), q, k]
            made += [v.plain(4, 41).astype(np.float32)] if "bias" in mask else []
            return made + ([v.plain(121, 32)] if "distances" in mask else [])

        given = {"heads": 2, "kv_heads": 1, "head_dim": 16, "scale": 0.25, **mask}
        found.append(Row("attention", f"hidden-{case}", hidden, given))
        if case == "causal-window":
            found.append(Row("attention", f"hidden-half-{case}", hidden, given, "float16"))
    return found


FUSED = {"bias": True, "residual": "added", "activation": "gelu_erf"}
MODES = ["cls", "max", "mean", "mean_sqrt_length", "weighted_mean", "last_token", "sum"]


def domain(kind: str, x: Array) -> Array:
    return np.abs(x) + x.dtype.type(0.01) if kind in ("sqrt", "log") else x


def elements() -> list[Row]:
    kinds: dict[str, dict[str, Any]] = dict.fromkeys(
        "gelu_erf gelu_tanh relu silu tanh sigmoid quick_gelu softplus gcu leaky_relu roswish sqrt exp log".split(), {}
    )
    kinds |= {"leaky_relu": {"a": 0.01}, "roswish": {"a": 0.7, "b": 1.3}}
    found = [
        Row("activation", f"{kind}-257", lambda v, kind=kind: [domain(kind, v.plain(257))], {"kind": kind, **more})  # type: ignore[misc]
        for kind, more in kinds.items()
    ]
    for kind in ("add", "subtract", "multiply", "divide"):
        second = Values.positive if kind == "divide" else Values.plain
        made = lambda v, second=second: [v.plain(3, 65), second(v, 65)]  # noqa: E731
        found.append(Row("binary", f"{kind}-3x65-65", made, {"kind": kind}))
    return [
        *found,
        Row("activation", "silu-half-1000", lambda v: [v.plain(3, 1000)], {"kind": "silu"}, "float16"),
        Row("gated", "silu-3x66", lambda v: [v.plain(3, 66)], {"kind": "silu"}),
        Row("bias_gelu", "none-3x65", lambda v: [v.plain(3, 65), v.plain(65)], {"approximate": "none"}),
        Row("cast", "3x1025", lambda v: [v.plain(3, 1025)], {"to": "float16"}),
        Row(
            "set_rows",
            "5-33x31",
            lambda v: [v.plain(33, 31), v.plain(5, 31), v.rng.permutation(33)[:5].astype(np.int32)],
        ),
        Row("whiten", "eps-33x65", lambda v: [v.plain(33, 65), v.plain(65), v.positive(65), np.float32(0.5)]),
    ]


def along_rows() -> list[Row]:
    return [
        Row("softmax", "3x1025", lambda v: [v.plain(3, 1025)]),
        Row("softmax", "keep-3x65", lambda v: [v.plain(3, 65), v.bits(3, 65)]),
        Row("softmax", "causal-33x65", lambda v: [v.plain(33, 65)], {"causal": True}),
        Row("softmax", "half-1000", lambda v: [v.plain(3, 1000)], {}, "float16"),
        Row("softmax_along", "2x65x3-1", lambda v: [v.plain(2, 65, 3)], {"axis": 1}),
        Row("layer_norm", "3x1025", lambda v: [v.plain(3, 1025), v.plain(1025), v.plain(1025)]),
        Row("layer_norm", "half-1000", lambda v: [v.plain(3, 1000), v.plain(1000), v.plain(1000)], {}, "float16"),
        Row("rms_norm", "3x1025", lambda v: [v.plain(3, 1025), v.plain(1025)]),
        Row("normalize", "3x1025", lambda v: [v.plain(3, 1025)]),
        Row("residual_layer_norm", "33x65", lambda v: [v.plain(33, 65), v.plain(33, 65), v.plain(65), v.plain(65)]),
        Row("residual_rms_norm", "33x65", lambda v: [v.plain(33, 65), v.plain(33, 65), v.plain(65)]),
        Row("rope", "1x33x2x64-shared", lambda v: [v.plain(1, 33, 2, 64), *circle(v, 33, 32)]),
        Row("rms_norm_rope", "1x33x2x64-each", lambda v: [v.plain(1, 33, 2, 64), v.plain(64), *circle(v, 1, 33, 32)]),
        *(
            Row("reduce", f"{kind}-7x129x65-1", lambda v: [v.plain(7, 129, 65)], {"axis": 1, "kind": kind})
            for kind in ("sum", "mean", "max", "deviation")
        ),
        Row(
            "reduce",
            "positive-mean-2x33x5-1",
            lambda v: [v.plain(2, 33, 5), v.positive(2, 33)],
            {"axis": 1, "kind": "mean"},
        ),
        Row("pool", "all", lambda v: [v.plain(9, 7), offsets(4, 5), np.zeros(2, np.int32)], {"modes": MODES}),
        Row(
            "embedding_sum",
            "three",
            lambda v: [v.ids(9, 5), v.plain(9, 33), v.ids(5, 5), v.plain(5, 33), v.ids(2, 5), v.plain(2, 33)],
        ),
    ]


def in_floats() -> list[Row]:
    wide, plain = lambda v: product(v, 193, 136, 48, 8), {"transpose_a": False, "transpose_b": False}  # noqa: E731
    return [
        Row("linear", "residual-127x129x129", lambda v: product(v, 127, 129, 129), {"bias": True, "residual": "added"}),
        Row(
            "linear",
            "gelu_erf",
            lambda v: [v.plain(33, 65), v.plain(63, 65) / 8, v.plain(63)],
            {"bias": True, "activation": "gelu_erf"},
        ),
        Row("linear", "half-193x136x48", wide, FUSED, "float16"),
        *(
            Row("linear", "half-plain-33x264x1056", lambda v: [v.plain(33, 1056), v.plain(264, 1056) / 8], {}, dtype)
            for dtype in UNITS
        ),
        Row("matmul", "NN-65x127x128", lambda v: [v.plain(65, 128), v.plain(128, 127)], plain),
        Row("matmul", "NT-5x3x1023", lambda v: [v.plain(5, 1023), v.plain(3, 1023)], plain | {"transpose_b": True}),
        Row("matmul", "half-NN", lambda v: [v.plain(3, 200, 72), v.plain(3, 72, 136)], {}, "float16"),
        Row(
            "gated_linear",
            "silu-33x63x64",
            lambda v: [v.plain(33, 64), v.plain(63, 64) / 8, v.plain(63, 64)],
            {"kind": "silu"},
        ),
        Row(
            "layer_norm_linear",
            "bias-33x63x64",
            lambda v: [v.plain(33, 64), v.plain(64), v.plain(64), v.plain(63, 64), v.plain(63)],
            {"bias": True},
        ),
        Row(
            "token_convolution",
            "apart-1-31x0x32x1x33-65x13x4",
            lambda v: [v.plain(97, 65), v.plain(97, 13, 4), offsets(31, 0, 32, 1, 33)],
            {"before": 1},
        ),
        Row(
            "max_sim", "96-4", lambda v: [v.plain(4, 96), v.plain(sum(DOCUMENTS), 96), offsets(4), offsets(*DOCUMENTS)]
        ),
        Row("max_sum", "3-5", lambda v: [v.plain(3, 5), offsets(3), offsets(5)]),
        Row("top_k", "5x65-10", lambda v: [v.plain(5, 65)], {"count": 10}),
        Row("route", "normalized-255x2x8", lambda v: [3 * v.plain(255, 8)], {"top_k": 2, "normalized": True}),
        Row(
            "expert_linear",
            "bias-65x2x3x31x65",
            lambda v: experts(v, 65, 2, 3, 31, 65),
            {"bias": True, "activation": "gelu_erf"},
        ),
        Row(
            "weighted_sum", "bias-33x2x65", lambda v: [v.plain(33, 2, 65), v.plain(33, 2), v.plain(65)], {"bias": True}
        ),
        Row(
            "attention_scores",
            "1x4x2x31x33x32",
            lambda v: [v.plain(1, 31, 4, 32), v.plain(1, 33, 2, 32)],
            {"scale": 32**-0.5},
        ),
        Row("attention_mask", "small", lambda v: [v.plain(2, 3, 5, 5)], {"mask_value": -8.0}),
        Row("attention_bias", "bias-1x4x33x33", lambda v: [v.plain(1, 4, 33, 33), v.plain(4, 9)]),
        Row("attention_output", "1x4x2x31x33x32", lambda v: [probabilities(v, 1, 4, 31, 33), v.plain(1, 33, 2, 32)]),
    ]


def in_integers() -> list[Row]:
    ternary, binary = {"levels": "ternary"}, {"levels": "binary"}
    norms = {"factors": False, "kept": False}
    return [
        Row("quantize_rows", "3x257", lambda v: [v.plain(3, 257)]),
        Row("quantize_rows", "affine-5x33", affine, {"kind": "affine"}),
        Row("quantize_rows", "ternary-tensor", sixty_fourths, {"kind": "ternary", "scope": "tensor"}),
        Row("quantize_rows", "binary-tensor", sixty_fourths, {"kind": "binary", "scope": "tensor"}),
        Row(
            "layer_norm_quantize_rows",
            "33x64",
            lambda v: [outliers(v, 33, 64), v.plain(64), v.plain(64)],
            norms,
        ),
        Row("rms_norm_quantize_rows", "33x64", lambda v: [outliers(v, 33, 64), v.plain(64)], norms),
        Row("dequantize_rows", "3x5", lambda v: [v.bytes(3, 5), v.positive(3)]),
        Row("integer_linear", "193x144x36", lambda v: [v.bytes(193, 144), v.bytes(36, 144)]),
        Row("integer_linear", "ternary-9x64x31", lambda v: [v.bytes(9, 64), weight_of(v, "ternary", 31, 64)], ternary),
        Row("integer_linear", "binary-9x64x31", lambda v: [v.bytes(9, 64), weight_of(v, "binary", 31, 64)], binary),
        Row(
            "quantized_linear",
            "int8-row-1x160x200",
            lambda v: [v.bytes(1, 160), v.positive(1), v.bytes(200, 160), v.positive(200)],
            {"levels": "int8", "scope": "row"},
        ),
        Row(
            "quantized_linear",
            "ternary-tensor-17x80x36",
            lambda v: [v.bytes(17, 80), v.positive(17), weight_of(v, "ternary", 36, 80), v.positive(1)],
            ternary | {"scope": "tensor"},
        ),
        Row(
            "quantized_linear",
            "binary-32-4x200x3",
            lambda v: [v.bytes(4, 200), v.positive(4), weight_of(v, "binary", 3, 200), v.positive(3, 7)],
            binary | {"scope": 32},
        ),
    ]


def affine(v: Values) -> list[Array]:
    x = v.plain(5, 33) + np.float32(1.5)
    x[1:][-1:] = 0
    return [x]


def outliers(v: Values, *shape: int) -> Array:
    """Plain, with a column a thousand times as large."""
    x = v.plain(*shape)
    x[..., shape[-1] // 2] *= 1000
    return x


ROWS: list[Row] = [*in_floats(), *attending(), *along_rows(), *elements(), *in_integers()]
