"""Whitening of streams against moments and eigenvalues that NumPy finds in float64."""

import numpy as np
import pytest
from cases.bounds import summed

import grilly
from grilly import errors, functional, nn


def stream(seed: int = 0) -> list[np.ndarray]:
    """Batches of several sizes, far from the origin, whose columns are correlated."""
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((24, 24)) / 5 + np.eye(24)
    sizes = (1, 64, 7, 300, 33, 128, 2, 500)
    return [(rng.standard_normal((rows, 24)) @ mix + 5 * np.arange(24) / 24).astype(np.float32) for rows in sizes]


def moments(put, batches, momentum=0.0):
    mean, covariance, count = put(np.zeros(24, np.float32)), put(np.zeros((24, 24), np.float32)), 0
    for batch in batches:
        found = functional.streaming_whitening_update(put(batch), mean, covariance, count, momentum)
        mean, covariance, count = found
    return mean, covariance, count


def test_moments_of_batches_are_those_of_all_rows(put):
    batches = stream()
    rows = np.concatenate(batches).astype(np.float64)
    mean, covariance, count = moments(put, batches)
    assert count == len(rows)
    centred = rows - rows.mean(axis=0)
    expected = centred.T @ centred / len(rows)
    # Each number passes a sum over a batch, and eight combinations.
    shift = summed(2 * len(rows), np.abs(rows).mean(axis=0))
    assert (np.abs(np.asarray(mean) - rows.mean(axis=0)) <= shift).all()
    spread = np.abs(centred).T @ np.abs(centred) / len(rows)
    across = np.outer(shift, np.abs(centred).max(axis=0))
    assert (np.abs(np.asarray(covariance) - expected) <= summed(2 * len(rows), spread) + across + across.T).all()
    assert (np.asarray(covariance) == np.asarray(covariance).T).all()
    again = moments(put, batches)
    assert [np.asarray(x).tobytes() for x in again[:2]] == [np.asarray(x).tobytes() for x in (mean, covariance)]


@pytest.mark.parametrize("kind", ["zca", "pca"])
def test_whitened_rows_have_the_identity_as_covariance(put, kind):
    batches = stream()
    mean, covariance, _ = moments(put, batches)
    matrix = functional.streaming_whitening_matrix(covariance, kind)
    assert matrix.dtype == np.float64
    found = functional.streaming_whitening_apply(put(np.concatenate(batches)), mean, matrix)
    white = np.asarray(found).astype(np.float64)
    assert np.abs(white.T @ white / len(white) - np.eye(24)).max() <= 1e-3
    assert np.abs(white.mean(axis=0)).max() <= 1e-3
    if kind == "zca":
        assert np.abs(matrix - matrix.T).max() < 1e-12
    else:
        sizes = 1 / np.linalg.norm(matrix, axis=1) ** 2
        assert (np.diff(sizes) < 0).all() and np.allclose(sizes, np.linalg.eigvalsh(np.asarray(covariance))[::-1], 1e-5)
        assert (np.take_along_axis(matrix, np.abs(matrix).argmax(axis=1)[:, None], axis=1) > 0).all()


def test_a_momentum_is_the_least_share_of_a_batch(put):
    batches = stream()
    mean, covariance, count = np.zeros(24), np.zeros((24, 24)), 0
    for batch in batches:
        count += len(batch)
        share = max(len(batch) / count, 0.25)
        wide = batch.astype(np.float64)
        d = wide.mean(axis=0) - mean
        own = np.cov(wide.T, bias=True)
        covariance = (1 - share) * covariance + share * (own + (1 - share) * np.outer(d, d))
        mean = mean + share * d
    found = moments(put, batches, 0.25)
    assert np.abs(np.asarray(found[0]) - mean).max() < 1e-5
    assert np.abs(np.asarray(found[1]) - covariance).max() < 1e-4


def test_small_eigenvalues_are_raised_and_none_is_refused():
    flat = np.diag([4.0, 0.0])
    assert functional.streaming_whitening_matrix(flat, "pca", eps=0.25).tolist() == [[0.5, 0.0], [0.0, 1.0]]
    for wrong, message in (
        (np.zeros((2, 2)), "no positive eigenvalue"),
        (np.full((2, 2), np.nan), "not finite"),
        (np.ones((2, 3)), r"has shape \[2, 3\]"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            functional.streaming_whitening_matrix(wrong)
    with pytest.raises(errors.InvalidArgumentError, match="eps above 0"):
        functional.streaming_whitening_matrix(flat, eps=0.0)
    with pytest.raises(errors.InvalidArgumentError, match="'zca', 'pca'"):
        functional.streaming_whitening_matrix(flat, "ica")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f, x: f.streaming_whitening_update(x[:0], np.ones(3), np.ones((3, 3)), 0), "at least one row"),
        (lambda f, x: f.streaming_whitening_update(x, np.ones(3), np.ones((3, 2)), 0), "covariance has shape"),
        (lambda f, x: f.streaming_whitening_update(x, np.ones(3), np.ones((3, 3)), 0, 1.5), "momentum is 1.5"),
        (lambda f, x: f.streaming_whitening_update(x, np.ones(3), np.ones((3, 3)), -1), "count is -1"),
        (lambda f, x: f.streaming_whitening_apply(x, np.ones(3), np.ones((3, 2))), "matrix has shape"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call(functional, np.ones((5, 3), np.float32))


def test_a_layer_keeps_its_moments(device):
    layer, other = nn.StreamingWhitening(24).to(device), nn.StreamingWhitening(24)
    for batch in stream():
        layer.update(grilly.to_vulkan(batch, device))
    rows = np.concatenate(stream())
    assert int(layer.count) == len(rows) and repr(layer).endswith(f"count={len(rows)})")
    white = layer(rows).astype(np.float64)
    assert np.abs(white.T @ white / len(white) - np.eye(24)).max() <= 1e-3
    other.load_state_dict(layer.state_dict())
    assert (other.to(device)(rows) == layer(rows)).all()
