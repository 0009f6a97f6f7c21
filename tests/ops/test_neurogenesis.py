"""Layers that grow: as many units as data in float64 have dimensions, and states that a program updates in place."""

import numpy as np
import pytest

import grilly
from grilly import errors, functional, nn
from grilly.program import Graph


def grown(device: str, rank: int, seed: int, noise: float) -> tuple[int, np.ndarray, float]:
    """Units, weights and the share left over after 60 batches of 64 rows of 64 columns."""
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((rank, 64))
    layer = nn.Neurogenesis(64, capacity=32)
    layer.to(device)
    for _ in range(60):
        rows = rng.standard_normal((64, rank)) @ basis
        other = rng.standard_normal(rows.shape)
        rows += other * (noise * np.linalg.norm(rows) / np.linalg.norm(other))
        share = layer.update(grilly.to_vulkan(rows.astype(np.float32), device))
    return int(layer.units), layer.weight.numpy(), float(share)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rank", [1, 3, 8])
def test_there_are_as_many_units_as_the_data_have_dimensions(device, rank, seed):
    units, weight, share = grown(device, rank, seed, 0.0)
    assert units == rank and not weight[rank:].any() and share < 1e-6
    basis = np.random.default_rng(seed).standard_normal((rank, 64))
    space = np.linalg.qr(basis.T)[0]
    rows = weight[:rank].astype(np.float64)
    assert np.linalg.svd(rows @ space)[1].min() > 0.999
    noisy = grown(device, rank, seed, 0.01)
    assert rank <= noisy[0] <= rank + 1
    again = grown(device, rank, seed, 0.0)
    assert (again[0], again[1].tobytes()) == (units, weight.tobytes()), "a second run gave other bits"


def test_growth_ends_at_the_capacity_and_needs_energy(put):
    rng = np.random.default_rng(3)
    weight, units = put(np.zeros((2, 5), np.float32)), put(np.zeros((), np.float32))
    weight, units, share = functional.neurogenesis_update(weight, units, put(np.zeros((4, 5), np.float32)))
    assert (float(units), float(share)) == (0.0, 0.0) and not np.asarray(weight).any()
    for _ in range(4):
        rows = put(rng.standard_normal((40, 5)).astype(np.float32))
        weight, units, share = functional.neurogenesis_update(weight, units, rows)
    assert float(units) == 2.0 and float(share) > 0.1 and np.isfinite(np.asarray(weight)).all()


def test_a_program_updates_its_states_to_the_same_bits(device):
    rng = np.random.default_rng(5)
    batches = [rng.standard_normal((32, 12)).astype(np.float32) for _ in range(5)]
    first = (rng.standard_normal((4, 12)) / 4).astype(np.float32)
    graph = Graph()
    x, share = graph.input("x", (32, 12)), graph.input("share", ())
    weight = graph.state("weight", first)
    lower = graph.state("lower", np.tri(4, dtype=np.float32))
    mean, covariance = graph.state("mean", np.zeros(12)), graph.state("covariance", np.zeros((12, 12)))
    rows, units = graph.state("rows", np.zeros((6, 12))), graph.state("units", np.zeros(()))
    graph.call("hebbian_update", weight, x, graph.filled(0.05, ()), lower)
    graph.call("streaming_moments", mean, covariance, x, share)
    left = graph.call("neurogenesis", rows, units, x, threshold=0.25)[2]
    program = graph.program([left], device)
    sanger, means, spread, count = first, np.zeros(12), np.zeros((12, 12)), 0
    grows, number = np.zeros((6, 12)), np.zeros(())
    here = lambda *values: [grilly.to_vulkan(np.asarray(value, np.float32), device) for value in values]  # noqa: E731
    for step, batch in enumerate(batches):
        program.run(batch, np.float32(1 / (step + 1)))
        sanger = functional.sanger_update(*here(sanger, batch), learning_rate=0.05).numpy()
        means, spread, count = functional.streaming_whitening_update(*here(batch, means, spread), count)
        grows, number, _ = functional.neurogenesis_update(*here(grows, number, batch), learning_rate=0, threshold=0.25)
    states = {name: value.numpy() for name, value in program.states().items()}
    expected = {"weight": sanger, "mean": means, "covariance": spread, "rows": grows, "units": number}
    for name, value in expected.items():
        assert states[name].tobytes() == np.asarray(value).tobytes(), name
    assert 1 < states["units"] <= 6


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f, x: f.neurogenesis_update(np.ones((2, 3)), [0.0], x), r"units has shape \[1\]"),
        (lambda f, x: f.neurogenesis_update(np.ones((2, 3)), 0.0, x, threshold=-1), "threshold is -1.0"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call(functional, np.ones((5, 3), np.float32))


def test_a_number_of_units_that_cannot_be_adds_none(put):
    x = put(np.ones((4, 3), np.float32))
    for units in (-1.0, 2.0, np.nan, np.inf):
        weight, found, share = functional.neurogenesis_update(put(np.zeros((2, 3), np.float32)), np.float32(units), x)
        assert not np.asarray(weight).any() and np.asarray(found).tobytes() == np.float32(units).tobytes()
        assert float(share) == 1.0


def test_a_layer_keeps_its_units(device):
    x = np.random.default_rng(7).standard_normal((2, 16, 6)).astype(np.float32)
    layer, other = nn.Neurogenesis(6, 4).to(device), nn.Neurogenesis(6, 4)
    for _ in range(3):
        layer.update(grilly.to_vulkan(x, device))
    other.load_state_dict(layer.state_dict())
    assert (other.to(device)(x) == layer(x)).all() and repr(other) == "Neurogenesis(6, 4, units=3)"
    weight = functional.neurogenesis_update(np.zeros((2, 6), np.float16), 0.0, x.astype(np.float16))[0]
    assert weight.dtype == np.float16
