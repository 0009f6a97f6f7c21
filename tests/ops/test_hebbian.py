"""Oja's and Sanger's rules against the eigenvectors that NumPy finds in float64."""

import numpy as np
import pytest

import grilly
from grilly import errors, functional, nn

COLUMNS = 16


def spectrum(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A covariance in float64 whose eigenvalues fall by a factor of 0.6; its eigenvectors as rows, largest first."""
    vectors = np.linalg.qr(np.random.default_rng(seed).standard_normal((COLUMNS, COLUMNS)))[0].T
    covariance = vectors.T @ np.diag(4.0 * 0.6 ** np.arange(COLUMNS)) @ vectors
    return covariance, np.linalg.eigh(covariance)[1].T[::-1]


def learnt(device: str, update, units: int, seed: int) -> np.ndarray:
    """Weights after 300 batches of 256 rows of that covariance, on a device throughout."""
    rng = np.random.default_rng(100 + seed)
    root = np.linalg.cholesky(spectrum(seed)[0]).T
    weight = grilly.to_vulkan((rng.standard_normal((units, COLUMNS)) / 4).astype(np.float32), device)
    for step in range(300):
        rows = (rng.standard_normal((256, COLUMNS)) @ root).astype(np.float32)
        weight = update(weight, grilly.to_vulkan(rows, device), learning_rate=0.2 / (1 + step / 20))
        assert isinstance(weight, grilly.VulkanTensor)
    return weight.numpy()


def cosines(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of the angles between rows, whatever their signs."""
    wide = found.astype(np.float64)
    return np.abs((wide * expected).sum(axis=1)) / np.linalg.norm(wide, axis=1)


@pytest.mark.parametrize("update", [functional.oja_update, functional.sanger_update])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_unit_becomes_the_first_component(device, update, seed):
    weight = learnt(device, update, 1, seed)
    assert cosines(weight, spectrum(seed)[1][:1]).min() >= 0.999
    assert abs(np.linalg.norm(weight) - 1) < 1e-2


@pytest.mark.parametrize("seed", [0, 1])
def test_units_of_oja_span_the_first_components(device, seed):
    weight = learnt(device, functional.oja_update, 3, seed).astype(np.float64)
    basis = np.linalg.qr(weight.T)[0]
    # The cosines of the principal angles.
    assert np.linalg.svd(spectrum(seed)[1][:3] @ basis)[1].min() >= 0.999
    assert np.abs(weight @ weight.T - np.eye(3)).max() < 2e-2


@pytest.mark.parametrize("seed", [0, 1])
def test_units_of_sanger_are_the_first_components_in_order(device, seed):
    weight = learnt(device, functional.sanger_update, 3, seed)
    assert cosines(weight, spectrum(seed)[1][:3]).min() >= 0.999
    again = learnt(device, functional.sanger_update, 3, seed)
    assert weight.tobytes() == again.tobytes(), "a second run gave other bits"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f, x: f.oja_update(np.ones((2, 4)), x), r"oja_update: data has shape \[5, 3\], expected last axis 4"),
        (lambda f, x: f.sanger_update(np.ones(3), x), "sanger_update: weights has shape"),
        (lambda f, x: f.sanger_update(np.ones((2, 3)), x, np.nan), "learning_rate is nan"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call(functional, np.ones((5, 3), np.float32))


@pytest.mark.parametrize("kind", [nn.Oja, nn.Sanger])
def test_layers_learn_by_the_functions(device, kind):
    rng = np.random.default_rng(7)
    batch = grilly.to_vulkan(rng.standard_normal((2, 16, 6)).astype(np.float32), device)
    layer, other = kind(6, 2).to(device), kind(6, 2)
    update = functional.oja_update if kind is nn.Oja else functional.sanger_update
    expected = update(grilly.to_vulkan(layer.weight.numpy(), device), batch).numpy()
    layer.update(batch)
    assert layer.weight.tobytes() == expected.tobytes() and layer.weight.grad is None
    other.load_state_dict(layer.state_dict())
    assert (other.to(device)(batch).numpy() == layer(batch).numpy()).all()
    assert repr(layer) == f"{kind.__name__}(6, 2, learning_rate=0.01)" and not layer.weight.requires_grad


def test_float16_stays_float16(put):
    rng = np.random.default_rng(8)
    weight, x = (put(rng.standard_normal((rows, 4)).astype(np.float16)) for rows in (2, 8))
    assert functional.oja_update(weight, x).dtype == functional.sanger_update(weight, x).dtype == np.float16
