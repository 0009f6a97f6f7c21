"""Memory of arrays in a loop: what a driver allocates, what is retained, and what users see of it."""

import gc

import numpy as np
import pytest

import grilly
from grilly import functional

MIB = 1 << 20
#: Sizes of arrays in bytes, with and without a block of their own on a software device.
SIZES = [4 << 10, 300 << 10, 5 * MIB]


def counted(name: str) -> int:
    return int(grilly.stats()[name])


def step(x: np.ndarray) -> np.ndarray:
    """An upload, two results of which one is dropped at once, and a download."""
    y = functional.relu(grilly.to_vulkan(x))
    functional.relu(y)
    return y.numpy()


def retained() -> int:
    gc.collect()
    grilly._core.engine("vulkan").synchronize()
    return counted("bytes_retained")


def larger(size: int, varying: bool, draws: np.random.Generator) -> int:
    """Numbers of float32 in so many bytes, or in up to a quarter more."""
    return int(size * (draws.uniform(1, 1.25) if varying else 1)) // 4


@pytest.mark.parametrize("others", [0, 8])
@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_steady_loop_allocates_nothing(vulkan, size, varying, others):
    draws = np.random.default_rng(size + others)
    x = draws.standard_normal(size // 3, np.float32)
    alive = [grilly.to_vulkan(x[: size // 4]) for _ in range(others)]
    for number in range(10):
        if number == 3:
            before = counted("allocations")
        part = x[: larger(size, varying, draws)]
        assert np.array_equal(step(part), np.maximum(part, 0))
    assert counted("allocations") == before
    for kept in alive:
        assert np.array_equal(kept.numpy(), x[: size // 4])


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("varying", [False, True])
def test_large_results_and_uploads_allocate_nothing(vulkan, varying, others):
    """Above 32 MiB, where an allocation of a GPU takes a millisecond."""
    draws = np.random.default_rng(others)
    x = draws.standard_normal(33 * MIB // 3, np.float32)
    given = [grilly.to_vulkan(x[: larger(33 * MIB, varying, draws)]) for _ in range(3)]
    alive = [functional.relu(given[0]) for _ in range(others)]
    for number in range(9):
        if number == 3:
            before = counted("allocations")
        part = given[number % 3]
        functional.relu(part)
        assert np.array_equal(functional.relu(part).numpy(), np.maximum(x[: part.size], 0))
        assert np.array_equal(step(x[: part.size]), np.maximum(x[: part.size], 0))
    assert counted("allocations") == before and len(alive) == others


@pytest.mark.parametrize("varying", [False, True])
def test_rounds_of_several_arrays_allocate_nothing(vulkan, varying):
    draws = np.random.default_rng(5)
    x = draws.standard_normal(MIB // 2, np.float32)
    for number in range(12):
        if number == 3:
            before = counted("allocations")
        parts = [x[: larger(MIB, varying, draws)] for _ in range(8)]
        results = [functional.relu(grilly.to_vulkan(part)) for part in parts]
        for part, result in zip(parts, results, strict=True):
            assert np.array_equal(result.numpy(), np.maximum(part, 0))
        del results, result
    assert counted("allocations") == before


@pytest.mark.parametrize("varying", [False, True])
def test_calls_whose_results_are_dropped_unread_allocate_nothing(vulkan, varying):
    x = [grilly.to_vulkan(np.ones(int(3 * MIB * more) // 4, np.float32)) for more in (1, 1.25, 1.1, 1.2)]
    for number in range(300):
        if number == 3:
            before = counted("allocations")
        functional.relu(x[number % len(x) if varying else 0])
    assert counted("allocations") == before


def test_bytes_are_held_or_retained(vulkan):
    x = np.ones(MIB, np.float32)
    step(x)
    free, held = retained(), counted("bytes_held")
    given = grilly.to_vulkan(x)
    assert counted("bytes_held") >= held + x.nbytes
    del given
    gc.collect()
    assert counted("bytes_held") < held + MIB and retained() >= free
    grilly.reset_stats()
    assert counted("bytes_retained") >= free and counted("allocations") == 0


def test_a_model_that_is_closed_takes_what_is_retained_with_it(tiny_model, vulkan):
    model = grilly.VulkanSentenceTransformer(tiny_model, device=vulkan)
    model.encode(["a text"])
    step(np.ones(10 * MIB, np.float32))
    assert retained() >= 40 * MIB
    model.close()
    del model
    gc.collect()
    assert counted("bytes_retained") < MIB
