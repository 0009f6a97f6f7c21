"""Attention, whole and in parts, and rotary positions."""

import numpy as np

from cases.table import OpCase, Values, shape_name

# batch, query heads, key heads, queries, keys, width
SIZES = (
    (1, 1, 1, 1, 1, 1),
    (2, 3, 3, 5, 7, 4),
    (1, 4, 2, 31, 33, 32),
    (1, 4, 1, 32, 32, 64),
    (2, 2, 2, 33, 31, 63),
    (1, 2, 2, 65, 64, 65),
    (1, 1, 1, 63, 129, 128),
    (1, 2, 1, 129, 127, 33),
    (2, 8, 8, 8, 8, 16),
    (0, 2, 2, 5, 5, 4),
    (2, 2, 2, 0, 5, 4),
    (1, 2, 2, 5, 257, 8),
)


def cases() -> list[OpCase]:
    return parts() + packed() + rotary()


PATTERNS = {
    "t5": {"architecture": "t5"},
    "llama": {"architecture": "llama"},
    "gpt2": {"architecture": "gpt2"},
    "granite": {"architecture": "granite"},
    "window": {"architecture": "modernbert", "window": 16},
    "any-window": {"architecture": "modernbert"},
    "global": {"architecture": "longformer", "window": 5, "global_tokens": 2},
    "random": {"architecture": "bigbird", "window": 3, "global_tokens": 1, "random_blocks": 2, "block": 16, "seed": 7},
}


def weights(v: Values, batch: int, heads: int, queries: int, keys: int) -> np.ndarray:
    powers = np.exp(v.plain(batch, heads, queries, keys).astype(np.float64))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(v.dtype)


def parts() -> list[OpCase]:
    found = []
    for b, h, g, sq, sk, d in SIZES:
        name = shape_name(b, h, g, sq, sk, d)
        found += [
            OpCase(
                "attention_scores",
                name,
                lambda v, b=b, h=h, g=g, sq=sq, sk=sk, d=d: [v.plain(b, sq, h, d), v.plain(b, sk, g, d)],
                {"scale": d**-0.5},
            ),
            OpCase("attention_mask", name, lambda v, b=b, h=h, sq=sq, sk=sk: [v.plain(b, h, sq, sk)]),
            OpCase(
                "attention_mask",
                f"keys-{name}",
                lambda v, b=b, h=h, sq=sq, sk=sk: [v.plain(b, h, sq, sk), v.bits(b, sk).astype(np.float32)],
                {"causal": False, "mask_value": -1e4},
            ),
            OpCase(
                "attention_output",
                name,
                lambda v, b=b, h=h, g=g, sq=sq, sk=sk, d=d: [weights(v, b, h, sq, sk), v.plain(b, sk, g, d)],
            ),
        ]
        if sq == sk:
            found.append(
                OpCase(
                    "attention_output",
                    f"causal-{name}",
                    lambda v, b=b, h=h, g=g, s=sq, d=d: [weights(v, b, h, s, s), v.plain(b, s, g, d)],
                    {"architecture": "gpt"},
                )
            )
    for name, options in PATTERNS.items():
        for queries, keys in ((33, 65), (129, 129)):
            found.append(
                OpCase(
                    "attention_output",
                    f"{name}-{queries}x{keys}",
                    lambda v, q=queries, k=keys: [weights(v, 2, 4, q, k), v.plain(2, k, 2, 31)],
                    options,
                )
            )
    return found + [
        OpCase(
            "attention_scores", "not-finite", lambda v: [v.not_finite(1, 5, 2, 8), v.plain(1, 7, 2, 8)], {"scale": 0.5}
        ),
        OpCase(
            "attention_scores", "outliers", lambda v: [v.outliers(1, 5, 2, 33), v.outliers(1, 7, 2, 33)], {"scale": 0.2}
        ),
        OpCase(
            "attention_scores", "half", lambda v: [v.plain(2, 9, 2, 8), v.plain(2, 7, 2, 8)], {"scale": 0.35}, "float16"
        ),
        OpCase("attention_mask", "three-axes", lambda v: [v.plain(4, 9, 9)]),
        OpCase("attention_mask", "half", lambda v: [v.plain(1, 2, 5, 5)], {"mask_value": -1e4}, "float16"),
        OpCase("attention_mask", "nothing", lambda v: [v.plain(1, 2, 5, 5)], {"causal": False}),
        OpCase("attention_mask", "not-finite", lambda v: [v.not_finite(1, 2, 5, 5)]),
        OpCase("attention_mask", "both", lambda v: [v.plain(3, 2, 33, 33), v.bits(3, 33).astype(np.float32)]),
        OpCase("attention_output", "not-finite", lambda v: [weights(v, 1, 2, 5, 9), v.not_finite(1, 9, 2, 8)]),
        OpCase("attention_output", "half", lambda v: [weights(v, 1, 2, 5, 9), v.plain(1, 9, 2, 8)], dtype="float16"),
    ]


def offsets(*lengths: int) -> np.ndarray:
    return np.r_[0, np.cumsum(lengths)].astype(np.int32)


LENGTHS = ((1,), (5, 1, 7), (31, 32, 33), (63, 0, 65), (129, 2), (0,), (257,))


def packed() -> list[OpCase]:
    found = []
    for lengths in LENGTHS:
        for heads, groups, width in ((1, 1, 1), (2, 2, 32), (4, 2, 33), (4, 1, 64), (1, 1, 128)):
            for causal in (False, True):
                bounds = offsets(*lengths)
                given = {"heads": heads, "kv_heads": groups, "head_dim": width, "scale": width**-0.5, "causal": causal}
                label = f"{'causal-' if causal else ''}{shape_name(*lengths)}-{shape_name(heads, groups, width)}"

                def operands(v, t=bounds[-1], h=heads * width, g=groups * width, bounds=bounds):
                    return [v.plain(t, h), v.plain(t, g), v.plain(t, g), bounds, bounds]

                found.append(OpCase("attention", label, operands, given))
                if width > 1 and not causal:
                    # Matrix cores take heads of whole 16 columns.
                    found.append(OpCase("attention", f"half-{label}", operands, given, "float16"))
        for width in (16, 48, 80, 112):
            bounds = offsets(*lengths)
            given = {"heads": 2, "kv_heads": 2, "head_dim": width, "scale": width**-0.5}

            def operands(v, t=bounds[-1], columns=2 * width, bounds=bounds):
                return [v.plain(t, columns), v.plain(t, columns), v.plain(t, columns), bounds, bounds]

            found.append(OpCase("attention", f"half-{shape_name(*lengths)}-{width}", operands, given, "float16"))
    found += hidden_keys()
    one = {"heads": 2, "kv_heads": 2, "head_dim": 16, "scale": 0.25}
    fused = {**one, "k_column": 32, "v_column": 64}
    return found + [
        OpCase(
            "attention",
            "cross",
            lambda v: [v.plain(10, 32), v.plain(45, 32), v.plain(45, 32), offsets(3, 7), offsets(33, 12)],
            one,
        ),
        OpCase(
            "attention",
            "no-keys",
            lambda v: [v.plain(5, 32), v.plain(4, 32), v.plain(4, 32), offsets(3, 2), offsets(0, 4)],
            one,
        ),
        OpCase(
            "attention",
            "one-tensor",
            lambda v: (lambda x: [x, x, x, offsets(3, 6), offsets(3, 6)])(v.plain(9, 96)),
            fused,
        ),
        OpCase(
            "attention",
            "outliers",
            lambda v: [v.outliers(9, 32), v.plain(9, 32), v.plain(9, 32), offsets(9), offsets(9)],
            one,
        ),
        OpCase(
            "attention",
            "not-finite",
            lambda v: [v.plain(9, 32), v.plain(9, 32), v.not_finite(9, 32), offsets(4, 5), offsets(4, 5)],
            one,
        ),
        OpCase(
            "attention",
            "half",
            lambda v: [v.plain(9, 32), v.plain(9, 32), v.plain(9, 32), offsets(4, 5), offsets(4, 5)],
            one,
            "float16",
        ),
    ]


MASKS = {
    "window": {"window": 3},
    "causal-window": {"window": 64, "causal": True},
    "global": {"window": 5, "global_tokens": 2},
    "end": {"causal": True, "align_end": True},
    "bias": {"bias": True},
    "biased-end": {"bias": True, "causal": True, "align_end": True},
    "all": {"bias": True, "window": 9, "global_tokens": 66, "causal": True, "align_end": True, "shared_by": 2},
}


def hidden_keys() -> list[OpCase]:
    """Texts of as many keys as queries, of more, of fewer and of none."""
    found = []
    bounds = offsets(5, 200, 65, 0)
    for name, mask in MASKS.items():
        given = {"heads": 2, "kv_heads": 1, "head_dim": 16, "scale": 0.25, **mask}
        keys = offsets(130, 40) if "shared_by" in mask else offsets(5, 66, 200, 7)

        def operands(v, make, keys=keys, mask=mask):
            found = [v.plain(bounds[-1], 32), v.plain(keys[-1], 16), make(keys[-1], 16), bounds, keys]
            return [*found, v.plain(4, 41).astype(np.float32)] if "bias" in mask else found

        found += [
            OpCase("attention", f"hidden-{name}", lambda v, of=operands: of(v, v.plain), given),
            OpCase("attention", f"hidden-half-{name}", lambda v, of=operands: of(v, v.plain), given, "float16"),
            OpCase("attention", f"hidden-not-finite-{name}", lambda v, of=operands: of(v, v.not_finite), given),
        ]
    return found


def rotary() -> list[OpCase]:
    found = []
    for b, s, h, d in (
        (1, 1, 1, 2),
        (2, 5, 3, 4),
        (1, 33, 2, 64),
        (2, 65, 1, 66),
        (1, 7, 12, 32),
        (0, 5, 2, 4),
        (2, 0, 2, 4),
    ):
        name = shape_name(b, s, h, d)
        for shared in (True, False):
            table = (s, d // 2) if shared else (b, s, d // 2)
            found.append(
                OpCase(
                    "rope",
                    f"{name}-{'shared' if shared else 'each'}",
                    lambda v, x=(b, s, h, d), table=table: [v.plain(*x), *circle(v, table)],
                )
            )
        # Half a head of float16 is read four elements at a time; other heads are widened.
        for of in (np.float16, np.float32):
            found.append(
                OpCase(
                    "rope",
                    f"half-{name}-angles-{np.dtype(of)}",
                    lambda v, x=(b, s, h, d), of=of: [
                        v.plain(*x),
                        *(t.astype(of) for t in circle(v, (x[1], x[3] // 2))),
                    ],
                    dtype="float16",
                )
            )
    return found + [
        OpCase("rope", "half-not-finite", lambda v: [v.not_finite(1, 5, 2, 16), *circle(v, (5, 8))], dtype="float16"),
        OpCase("rope", "half-each", lambda v: [v.plain(3, 5, 2, 8), *circle(v, (3, 5, 4))], dtype="float16"),
        OpCase("rope", "not-finite", lambda v: [v.not_finite(1, 5, 2, 8), *circle(v, (5, 4))]),
        OpCase(
            "rope",
            "half",
            lambda v: [v.plain(1, 5, 2, 8), *(t.astype(np.float32) for t in circle(v, (5, 4)))],
            dtype="float16",
        ),
    ]


def circle(v: Values, shape: tuple[int, ...]) -> list[np.ndarray]:
    angles = v.rng.random(shape) * 100
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
