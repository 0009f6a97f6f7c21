"""`grilly.functional` as its documentation has it: values, any rank, mixed operands."""

import numpy as np
import pytest
from cases import CASES
from cases.bounds import U, bound
from cases.comparison import RNG, close, soft, values
from cases.reference import evaluate

import grilly
from grilly import errors, functional


@pytest.mark.parametrize("case", [case for case in CASES if case.function], ids=lambda case: case.id)
def test_a_function_is_its_operation(put, case):
    first, *rest = operands = case.operands()
    found = np.asarray(getattr(functional, case.function)(put(first), *rest, **case.attributes))
    expected = evaluate(case.op, operands, case.attributes)
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= bound(case.op, operands, case.attributes, expected, False)).all()


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3, 4, 2), (0, 3)])
@pytest.mark.parametrize("name, kind", [("relu", "relu"), ("gelu", "gelu_tanh"), ("silu", "silu"), ("gcu", "gcu")])
def test_activations_of_any_rank(put, shape, name, kind):
    x = values(*shape) if shape else np.float32(0.75)
    found = getattr(functional, name)(put(x))
    assert isinstance(found, grilly.VulkanTensor) == isinstance(put(x), grilly.VulkanTensor)
    close(found, evaluate("activation", [np.asarray(x)], {"kind": kind}))


def test_gelu_by_erf(put):
    x = values(33)
    close(functional.gelu(put(x), approximate="none"), evaluate("activation", [x], {"kind": "gelu_erf"}))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_softmax_honours_dim(put, dim):
    x = values(3, 5, 7)
    powers = np.exp(x.astype(np.float64))
    y = powers / powers.sum(axis=dim, keepdims=True)
    close(functional.softmax(put(x), dim), y)
    g = values(3, 5, 7)
    expected = y * (g - (g * y).sum(axis=dim, keepdims=True))
    close(functional.softmax_backward(put(g), put(y.astype(np.float32)), dim), expected)


def test_rows_whose_squares_leave_float32(put):
    """As in torch 2 (but for `layer_norm` of equal numbers, where it gives NaN): the limit that the guide states."""
    for row in ([3e19] * 4, [3e19, -3e19] * 2):
        x = put(np.array([row], np.float32))
        for y in (functional.embedding_normalize(x), functional.rms_norm(x, 4), functional.layer_norm(x, 4)):
            assert np.asarray(y).tolist() == [[0.0] * 4]
    x = put(np.full((1, 4), 1e-23, np.float32))
    close(functional.embedding_normalize(x, eps=1e-30), np.full((1, 4), 1e7))
    assert np.asarray(functional.rms_norm(x, 4, eps=0.0)).tolist() == [[np.inf] * 4]
    assert np.asarray(functional.layer_norm(x, 4)).tolist() == [[0.0] * 4]
    # the last rows on this side of the limit
    x = put(np.array([[9e18, -9e18] * 2], np.float32))
    signs = np.array([[1.0, -1.0] * 2])
    close(functional.embedding_normalize(x), signs / 2)
    for y in (functional.rms_norm(x, 4), functional.layer_norm(x, 4)):
        close(y, signs)


def test_softmax_of_infinities_along_another_axis(put):
    x = np.array([[1.0, -np.inf, np.nan], [2.0, -np.inf, 1.0]], np.float32)
    found = np.asarray(functional.softmax(put(x), 0))
    assert np.isfinite(found[:, 0]).all() and np.isnan(found[:, 1:]).all()


def test_linear(put):
    x, w, b = values(2, 3, 33), values(17, 33), values(17)
    expected = x.astype(np.float64) @ w.T.astype(np.float64) + b
    close(functional.linear(put(x), w, b), expected)
    close(functional.linear(x[0, 0], put(w), b), expected[0, 0])
    g = values(2, 3, 17)
    grad_input, grad_weight, grad_bias = functional.linear_backward(put(g), x, w, b)
    close(grad_input, g.astype(np.float64) @ w)
    close(grad_weight, np.einsum("abn,abk->nk", g.astype(np.float64), x))
    close(grad_bias, g.astype(np.float64).sum(axis=(0, 1)))
    assert functional.linear_backward(put(g), x, w)[2] is None


@pytest.mark.parametrize(
    "a, b",
    [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
     ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 3, 4), (2, 4, 5)), ((2, 3, 4), (1, 4, 5)),
     ((0, 3, 4), (4, 5))],
)  # fmt: skip
def test_matmul_has_numpys_shapes(put, a, b):
    first, second = values(*a), values(*b)
    close(functional.matmul(put(first), second), first.astype(np.float64) @ second.astype(np.float64))


def test_layer_norm_over_a_tuple(put):
    x, w, b = values(2, 3, 4, 5), values(4, 5), values(4, 5)
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axis=(2, 3), keepdims=True), wide.var(axis=(2, 3), keepdims=True)
    close(functional.layer_norm(put(x), (4, 5), w, b), (wide - mean) / np.sqrt(variance + 1e-5) * w + b)
    close(functional.layer_norm(put(x), 5), evaluate("layer_norm", [x, np.ones(5), np.zeros(5)], {}))


def test_weights_that_are_left_out_are_ones_and_zeros_in_every_bit(put):
    layer_norm, rms_norm, x, w = functional.layer_norm, functional.rms_norm, values(2, 3, 5), values(5)
    x[0] *= np.float32(1e-30)
    x[0, 0, 0], x[1, 0] = -0.0, [-0.0, -1e-38, 1e19, 1.0, -1e19]
    ones, zeros = np.ones(5, np.float32), np.zeros(5, np.float32)
    several = np.ones((3, 5), np.float32), np.zeros((3, 5), np.float32)
    for found, expected in (
        (layer_norm(put(x), 5), layer_norm(put(x), 5, ones, zeros)),
        (layer_norm(put(x), 5, w), layer_norm(put(x), [5], w, zeros)),
        (layer_norm(put(x), 5, None, w), layer_norm(put(x), 5, ones, w)),
        (layer_norm(put(x), (3, 5)), layer_norm(put(x), (3, 5), *several)),
        (layer_norm(put(x), (3, 5), None, several[1]), layer_norm(put(x), (3, 5), *several)),
        (rms_norm(put(x), 5), rms_norm(put(x), 5, ones)),
        (rms_norm(put(x), (3, 5)), rms_norm(put(x), (3, 5), several[0])),
    ):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_norm_gradients(put):
    g, x, w = values(2, 3, 33), values(2, 3, 33), values(33)
    unit = evaluate("layer_norm", [x, np.ones(33), np.zeros(33)], {})
    found = functional.layer_norm_backward(put(g), x, w)
    close(found[0], evaluate("layer_norm_backward", [g, x, w], {}))
    close(found[1], (g * unit).sum(axis=(0, 1)))
    close(found[2], g.astype(np.float64).sum(axis=(0, 1)))
    found = functional.rms_norm_backward(put(g), x, w)
    close(found[0], evaluate("rms_norm_backward", [g, x, w], {}))
    close(found[1], (g * evaluate("rms_norm", [x, np.ones(33)], {})).sum(axis=(0, 1)))
    close(functional.rms_norm(put(x), 33, w), evaluate("rms_norm", [x, w], {}))


def test_embedding(put):
    table = values(9, 5)
    for ids in (np.array(3), np.array([8, 0], np.uint8), np.arange(9, dtype=np.int64).reshape(3, 3), []):
        found = functional.embedding_lookup(put(table), ids)
        assert (np.asarray(found) == table[np.asarray(ids, int)]).all()
        assert found.shape == np.shape(ids) + (5,)
    assert (np.asarray(functional.embedding_lookup(table, put(np.array([1, 2])))) == table[1:3]).all()
    assert functional.embedding_lookup(put(table.astype(np.float16)), [1]).dtype == np.float16


def test_embedding_backward_is_the_sum_of_gradients(put):
    ids, g = RNG.integers(0, 7, (3, 11)), values(3, 11, 5)
    expected = np.zeros((7, 5))
    np.add.at(expected, ids, g.astype(np.float64))
    close(functional.embedding_backward(put(g), ids, 7, 5), expected)


def test_pooling(put):
    x, mask = values(3, 5, 7), np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    for mode in ("mean", "max", "sum"):
        for weights in (mask, mask.astype(bool), mask.astype(np.float64), put(mask)):
            expected = evaluate("reduce", [x, mask.astype(np.float64)], {"axis": 1, "kind": mode})
            close(functional.mean_pool(put(x), weights, mode), expected)
        close(functional.embedding_pool(put(x), mode), evaluate("reduce", [x], {"axis": 1, "kind": mode}))
    half = mask * 0.25
    close(functional.mean_pool(put(x), half), evaluate("reduce", [x, half], {"axis": 1, "kind": "mean"}))


def test_the_rest_of_embedding(put):
    x = values(2, 5, 8)
    close(
        functional.embedding_normalize(put(x)),
        x / (np.linalg.norm(x.astype(np.float64), axis=-1, keepdims=True) + 1e-8),
    )
    angles = np.arange(5)[:, None] / 10000.0 ** (2 * np.arange(4) / 8)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(5, 8)
    close(functional.embedding_position(put(x)), x + table)
    w1, b1, w2, b2 = values(12, 8), values(12), values(8, 12), values(8)
    inner = evaluate("linear", [x, w1, b1], {"bias": True, "activation": "silu"})
    close(functional.embedding_ffn(put(x), w1, b1, w2, b2, "silu"), inner @ w2.T.astype(np.float64) + b2)
    heads = x.reshape(2, 5, 4, 2).transpose(0, 2, 1, 3).astype(np.float64)
    attended = soft(heads @ heads.swapaxes(-1, -2) / np.sqrt(2), np.ones(1)) @ heads
    close(functional.embedding_attention(put(x), num_heads=4), attended.transpose(0, 2, 1, 3).reshape(2, 5, 8))


def test_residual_broadcasts_its_second_operand(put):
    x, y = values(2, 3, 5), values(3, 1)
    close(functional.residual(put(x), y), x.astype(np.float64) + y)
    with pytest.raises(ValueError):
        functional.residual(y, x)


def test_whitening(put):
    x = values(33, 5)
    mean, std = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    found = functional.whitening_transform(put(x))
    for one, expected in zip(found, ((x - mean) / (std + 1e-8), mean, std)):
        close(one, expected)
    close(functional.whitening_apply(put(x), mean, std), (x - mean) / (std + 1e-8))
    for one, expected in zip(functional.whitening_batch_stats(put(x)), (mean, std)):
        close(one, expected)


def test_dropout(put):
    x = np.ones((1000,), np.float32)
    found = np.asarray(functional.dropout(put(x), 0.25, seed=5))
    assert (found == evaluate("dropout", [x], {"p": 0.25, "seed": 5}).astype(np.float32)).all()
    assert 150 < (found == 0).sum() < 350
    assert (np.asarray(functional.dropout(put(x), 0.25, training=False)) == 1).all()
    assert (np.asarray(functional.dropout_backward(put(x), 0.25, 5)) == found).all()
    np.random.seed(1)
    first = np.asarray(functional.dropout(put(x)))
    assert not (np.asarray(functional.dropout(put(x))) == first).all()
    np.random.seed(1)
    assert (np.asarray(functional.dropout(put(x))) == first).all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(put, reduction, weighted):
    x, t = values(3, 4, 7), RNG.integers(0, 7, (3, 4))
    t[1, 1] = t[0, 3] = -100
    w = np.abs(values(7)) + 0.5 if weighted else None
    operands = [x, np.where(t == -100, -1, t).astype(np.int32)] + ([w] if weighted else [])
    losses = evaluate("cross_entropy", operands, {"label_smoothing": 0.1})
    total = np.where(t == -100, 0, (np.ones(7) if w is None else w)[np.maximum(t, 0)]).sum(dtype=np.float64)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[reduction]
    close(functional.cross_entropy(put(x), t, w, reduction, label_smoothing=0.1), expected)
    g = values(3, 4) if reduction == "none" else np.float32(0.5)
    each = np.broadcast_to(g / (total if reduction == "mean" else 1), (3, 4))
    expected = evaluate("cross_entropy_backward", [each, *operands], {"label_smoothing": 0.1})
    found = functional.cross_entropy_backward(g, put(x), t, w, reduction, label_smoothing=0.1)
    close(found, expected)


def test_cross_entropy_refuses_other_classes():
    with pytest.raises(IndexError, match="class 7"):
        functional.cross_entropy(values(2, 7), [0, 7])
    with pytest.raises(TypeError, match="expected integers"):
        functional.cross_entropy(values(2, 7), values(2, 7))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_other_losses(put, reduction):
    p, t, w = RNG.random((3, 5)).astype(np.float32), RNG.random((3, 5)).astype(np.float32), np.abs(values(5)) + 0.5
    reduce = {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction]
    share = {"mean": 1 / 15, "sum": 1.0, "none": 1.0}[reduction]
    g = values(3, 5) if reduction == "none" else np.float32(2)
    losses = w * evaluate("binary_cross_entropy", [p, t], {})
    close(functional.binary_cross_entropy(put(p), t, w, reduction), reduce(losses))
    slope = w.astype(np.float64) * (p.astype(np.float64) - t) / (p.astype(np.float64) * (1 - p.astype(np.float64)))
    found = functional.binary_cross_entropy_backward(g, put(p), t, w, reduction)
    # 1 - p is exact or rounded once, so that every step is off by a unit or two of its own.
    np.testing.assert_allclose(np.asarray(found), g * slope * share, rtol=2e-6)
    close(functional.mse_loss(put(p), t, reduction), reduce((p.astype(np.float64) - t) ** 2))
    close(functional.mse_loss_backward(g, put(p), t, reduction), g * 2 * (p.astype(np.float64) - t) * share)


def activation_names():
    return [name.removesuffix("_backward") for name in functional.__all__ if name.endswith("_backward")]


KINDS = {"gelu": "gelu_tanh"} | {
    name: name for name in ("relu", "silu", "softplus", "sigmoid", "tanh", "leaky_relu", "quick_gelu", "gcu", "roswish")
}


@pytest.mark.parametrize("name", KINDS)
def test_every_activation_and_its_derivative(put, name):
    given = {"leaky_relu": {"negative_slope": 0.2}, "roswish": {"alpha": 0.5, "beta": 2.0}}.get(name, {})
    attributes = {"kind": KINDS[name], **dict(zip("ab", given.values()))}
    x, g = values(3, 65), values(3, 65)
    close(getattr(functional, name)(put(x), **given), evaluate("activation", [x], attributes))
    found = getattr(functional, f"{name}_backward")(put(g), x, **given)
    close(found, evaluate("activation_backward", [g, x], attributes))


@pytest.mark.parametrize(
    "name, argument", [("leaky_relu", "negative_slope"), ("roswish", "alpha"), ("roswish", "beta")]
)
def test_an_activation_and_its_derivative_name_themselves(name, argument):
    x = values(3)
    with pytest.raises(errors.InvalidArgumentError, match=f"^{name}: {argument} is nan"):
        getattr(functional, name)(x, **{argument: float("nan")})
    with pytest.raises(errors.InvalidArgumentError, match=f"^{name}_backward: {argument} is nan"):
        getattr(functional, f"{name}_backward")(x, x, **{argument: float("nan")})


@pytest.mark.parametrize("name, kind", [("swiglu", "silu"), ("geglu", "gelu_tanh")])
def test_gates(put, name, kind):
    x, g = values(3, 66), values(3, 33)
    close(getattr(functional, name)(put(x)), evaluate("gated", [x], {"kind": kind}))
    close(getattr(functional, f"{name}_backward")(put(g), x), evaluate("gated_backward", [g, x], {"kind": kind}))


def test_every_derivative_named_by_its_function():
    for name in activation_names():
        assert hasattr(functional, name) or name in ("embedding", "gemm")


def test_the_variance_of_a_norm_does_not_cancel(put):
    """Where the mean is large, E[x^2] - E[x]^2 in float32 loses what the sum of (x - E[x])^2 keeps."""
    x = 1000 + values(7, 1024)
    expected = evaluate("layer_norm", [x, np.ones(1024), np.zeros(1024)], {})
    ours = np.abs(np.asarray(functional.layer_norm(put(x), 1024)) - expected).max()
    mean = x.mean(-1, keepdims=True, dtype=np.float32)
    variance = (x * x).mean(-1, keepdims=True, dtype=np.float32) - mean * mean
    by_squares = np.abs((x - mean) / np.sqrt(np.maximum(variance, 0) + np.float32(1e-5)) - expected).max()
    print(f"largest error by (x - E[x])^2 {ours:.1e}, by E[x^2] - E[x]^2 {by_squares:.1e}")
    # What is left is the rounding of the mean.
    assert ours <= 4 * 1000 * U and by_squares >= 30 * ours


def test_topk(put):
    x = values(3, 4, 700)
    found, columns = (np.asarray(part) for part in functional.topk(put(x), 20))
    expected = np.argsort(-x, axis=-1, kind="stable")[..., :20]
    assert columns.dtype == np.int32 and np.array_equal(columns, expected)
    assert np.array_equal(found, np.take_along_axis(x, expected, axis=-1))
    mask = np.arange(700) % 2 == 1
    _, columns = functional.topk(put(x), 350, mask=mask)
    assert (np.asarray(columns) % 2 == 1).all()
    found, columns = (np.asarray(part) for part in functional.topk(put(x[0, 0]), 3, mask=np.arange(700) == 5))
    assert columns.tolist() == [5, -1, -1] and found[1:].tolist() == [-np.inf] * 2


def test_topk_refuses_what_does_not_fit():
    for arguments in (([1.0, 2.0], 3), ([1.0, 2.0], 0), ([], 1), (1.0, 1)):
        with pytest.raises(errors.InvalidArgumentError):
            functional.topk(*arguments)
    for mask in ([1, 0, 1], [0.5, 0.5]):
        with pytest.raises(errors.InvalidArgumentError, match="mask"):
            functional.topk([1.0, 2.0], 1, mask=mask)
