"""Mixtures of experts: ties, what is not finite, experts of every size, models of the listed families."""

import numpy as np
import pytest
from models import families

from grilly import VulkanSentenceTransformer

from .comparison import NUMERICS, call, difference
from .operations import evaluate
from .test_functions import moderate, random_bits

F = np.float32
WILD = np.uint32([0x7FC00000, 0xFFFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000]).view(F)


@pytest.mark.parametrize("normalized", [False, True])
def test_routes(same, normalized):
    """Equal scores, zeros of both signs and what counts as zero, NaN, infinities, random bits."""
    random = np.random.default_rng(17)
    small = random.choice(F([0.0, -0.0, 2.0**-101, -(2.0**-120), 2.0**-149, 2.0**-100]), (40, 6))
    wild = random.choice(np.concatenate([WILD, F([1, -1, 0, 3e38])]), (200, 6))
    for scores in (small, wild, np.full((3, 6), -np.inf, F), random_bits("scores", 300, 6), moderate("scores", 300, 6)):
        for top_k in (1, 2, 6):
            same(
                "route",
                [
                    scores,
                ],
                top_k=top_k,
                normalized=normalized,
            )


def places(rows: int, top_k: int, experts: int) -> list[np.ndarray]:
    chosen = np.random.default_rng(rows).random((rows, experts), F)
    return list(evaluate("route", [chosen], {"top_k": top_k})[1:])


@pytest.mark.parametrize("depth", [1, 33, 200])
def test_each_expert_has_a_balance_and_exponents_of_its_own(same, depth):
    """Matrices, rows and columns of very different sizes; rows that are not finite; none but the last expert's."""
    rows, experts, columns = 70, 5, 66
    random = np.random.default_rng(depth)
    weight = random.standard_normal((experts, columns, depth)).astype(F)
    weight *= F(2.0) ** F([0, -60, 60, -100, 20])[:, None, None]
    weight[1, :, depth // 2] *= F(2.0**-30)
    weight[2, :, depth // 3] *= F(2.0**30)
    weight[4] = 0
    weight[3, 2] = F(2.0**-140)
    x = random.standard_normal((rows, 2, depth)).astype(F) * F(2.0) ** random.integers(-60, 60, (rows, 2, 1)).astype(F)
    x[:5, 0, depth // 2] = WILD
    x[6] = -0.0
    own = places(rows, 2, experts)
    bias = random.standard_normal((experts, columns)).astype(F)
    bias[0, 0] = np.nan
    same("expert_linear", [x, weight, *own])
    same("expert_linear", [x[:, 0], weight, *own, bias], bias=True, activation="gelu_erf")
    weight[0, 5, 0] = np.inf
    same("expert_linear", [x, weight, *own])
    last = [np.arange(2 * rows, dtype=np.int32).reshape(rows, 2), np.int32([0] * experts + [2 * rows])]
    same("expert_linear", [x, weight, *last])


def test_an_expert_is_a_linear_layer(engine):
    x, weight = moderate("x", 40, 96), moderate("w", 3, 50, 96)
    order, starts = np.arange(40, dtype=np.int32)[:, None], np.int32([0, 0, 40, 40])
    found = call(engine, "expert_linear", [x, weight, order, starts], {})
    assert difference(found[:, 0], call(engine, "linear", [x, weight[1]], {})) is None


def test_weighted_sums(same):
    x, weight = random_bits("x", 50, 3, 65), random_bits("w", 50, 3)
    for each in (x, moderate("x", 50, 3, 65), np.full((50, 3, 65), -(2.0**-60), F), x[..., :64]):
        for by in (weight, moderate("w", 50, 3), np.full((50, 3), 2.0**-60, F), np.full((50, 3), -0.0, F)):
            same("weighted_sum", [each, by])
            same("weighted_sum", [each, by, random_bits("bias", each.shape[2])], bias=True)


@pytest.mark.parametrize("name", ["nomic_bert-moe", "liquid_moe"])
def test_models_have_the_same_bits_on_every_device(name, device, tmp_path):
    texts = ["A cat sits on the mat.", "", "Routes differ by word. " * 9, "dogs and cats"]
    folder = families.build(name, tmp_path)

    def embedded(chosen: str, **options) -> np.ndarray:
        with VulkanSentenceTransformer(str(folder), device=chosen, numerics="everywhere") as model:
            assert model.backend == chosen and model.numerics == NUMERICS
            return model.encode(texts, normalize_embeddings=False, **options)

    found = embedded(device)
    assert np.isfinite(found).all() and found.any()
    assert difference(found, embedded("cpu", batch_size=1)) is None
