"""`grilly.quant`: integers equal in bits to NumPy's, gradients beside float64, formats beside transformers' own."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import grilly
from grilly import ShaderCompiler, ShaderCompilerConfig, functional, nn, quant
from grilly.compiler import dispatch
from grilly.errors import InvalidArgumentError, InvalidTypeError

SHADERS = Path(__file__).parents[2] / "shaders"
RNG = np.random.default_rng(19)


@pytest.fixture(params=["cpu", "vulkan"])
def on(request):
    """Puts arrays on a device."""
    return lambda x: grilly.to_vulkan(np.float32(x), request.param)


def activations(rows: int, columns: int) -> np.ndarray:
    x = RNG.standard_normal((rows, columns)).astype(np.float32)
    x[0] *= 1000
    x[-1] = 0
    return x


def quantized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W1.58A8's activations in float32, one operation at a time."""
    scale = np.float32(127) / np.maximum(np.abs(x).max(axis=-1, initial=0), np.float32(1e-5))
    return np.clip(np.rint(x * scale[..., None]), -128, 127).astype(np.int64), scale


@pytest.mark.parametrize(("rows", "features", "outputs"), [(3, 7, 5), (2, 256, 9), (5, 1030, 4)])
@pytest.mark.parametrize("levels", ["ternary", "binary", "int8"])
def test_bitlinear_is_the_integer_product(on, levels, rows, features, outputs):
    x, w = activations(rows, features), RNG.standard_normal((outputs, features)).astype(np.float32)
    bias = RNG.standard_normal(outputs).astype(np.float32)
    make = {
        "ternary": quant.quantize_weights_ternary,
        "binary": quant.binarize_weights,
        "int8": quant.quantize_weights_8bit,
    }[levels]
    stored, scale = make(on(w))
    values = stored.numpy() if levels == "int8" else quant.unpack(stored.numpy(), w.shape, levels)
    divisor = scale.numpy().astype(np.float64)
    if levels == "ternary":
        assert abs(divisor[0] * np.abs(w).mean(dtype=np.float64) - 1) < 1e-5
        assert (values == np.clip(np.rint(w * scale.numpy()), -1, 1)).all()
    elif levels == "binary":
        assert (values == np.where(w > 0, 1, -1)).all()
    q, s = quantized(x)
    found_q, found_s = quant.quantize_activations(on(x))
    assert (found_q.numpy() == q).all() and (found_s.numpy() == s).all()
    sums = q @ values.T.astype(np.int64)
    expected = sums / divisor / s.astype(np.float64)[:, None] + bias
    y = quant.bitlinear_forward(on(x), stored, scale, on(bias), levels=levels)
    np.testing.assert_allclose(y.numpy(), expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())
    alone = quant.bitlinear_forward(on(x[1]), stored, scale, on(bias), levels=levels).numpy()
    assert alone.tobytes() == y.numpy()[1].tobytes(), "a row has other bits in a batch"


@pytest.mark.parametrize("kind", ["a constant", "normal numbers", "one large number"])
def test_the_scale_of_a_large_weight_is_exact(on, kind):
    """Plain sums of millions of float32 numbers are off by up to 4e-3. The CPU adds in float64; torch's own sums of a
    constant are off by 5e-7.
    """
    w = RNG.standard_normal((2100, 1999)).astype(np.float32)
    if kind == "a constant":
        w[:] = 0.1
    elif kind == "one large number":
        w[0, 0] = 1e7
    for make in (quant.quantize_weights_ternary, quant.binarize_weights):
        scale = make(on(w))[1]
        error = abs(float(scale.numpy()[0]) * np.abs(w).mean(dtype=np.float64) - 1)
        assert error < (2.0**-23 if scale.device == "cpu" else 5e-7)


def test_integers_are_the_same_on_every_device():
    x = np.concatenate([activations(3, 515), RNG.standard_normal((2, 515), np.float32) + 2])
    for make in (
        quant.quantize_activations,
        quant.quantize_activations_8bit,
        quant.dynamic_quantize_activations,
        lambda x: quant.quantize(x, "affine", 100),
        lambda x: quant.quantize_gradients(x, seed=7),
    ):
        cpu, vulkan = ([part.numpy() for part in make(grilly.to_vulkan(x, device))] for device in ("cpu", "vulkan"))
        assert [part.tobytes() for part in cpu] == [part.tobytes() for part in vulkan]


def test_gradients_are_rounded_at_random_without_a_bias(on):
    g = RNG.standard_normal(4096).astype(np.float32)[None]
    runs = [quant.quantize_gradients(on(g), seed=seed) for seed in range(64)]
    scale = runs[0][1].numpy()
    whole = np.stack([q.numpy() for q, _ in runs]).astype(np.float64)
    assert (np.abs(whole - g * scale) <= 1 + 1e-4).all()
    # The error of a rounding has a deviation of at most a half; eight deviations of the mean of all.
    assert abs((whole - np.float64(g) * scale).mean()) < 8 * 0.5 / np.sqrt(whole.size)
    again = quant.quantize_gradients(on(g), seed=3)[0].numpy()
    assert (again == runs[3][0].numpy()).all() and (again != runs[4][0].numpy()).any()


def test_groups_of_signs_and_back(on):
    w = RNG.standard_normal((3, 70)).astype(np.float32)
    packed, scale = quant.quantize_weights_1bit(on(w), group_size=32)
    assert scale.shape == (3, 3)
    means = [np.abs(w[:, start : start + 32]).mean(axis=1, dtype=np.float64) for start in (0, 32, 64)]
    expected = np.where(w > 0, 1, -1) * np.repeat(np.stack(means, 1), 32, axis=1)[:, :70]
    found = quant.dequantize_weights_1bit(packed, scale, 32, columns=70).numpy()
    np.testing.assert_allclose(found, expected, rtol=3e-6)
    x = RNG.standard_normal((4, 70)).astype(np.float32)
    q, s = quantized(x)
    y = quant.bitlinear_forward(on(x), packed, scale, group_size=32).numpy()
    np.testing.assert_allclose(y, (q / s.astype(np.float64)[:, None]) @ expected.T, atol=2e-5)
    y = quant.mixed_precision_matmul(on(x), packed, scale, group_size=32).numpy()
    np.testing.assert_allclose(y, x.astype(np.float64) @ expected.T, atol=2e-5)


def test_gradients_go_straight_through(on):
    x, w = RNG.standard_normal((2, 3, 40)).astype(np.float32), RNG.standard_normal((6, 40)).astype(np.float32)
    g = RNG.standard_normal((2, 3, 6)).astype(np.float32)
    packed, scale = quant.quantize_weights_ternary(on(w))
    values = quant.unpack(packed.numpy(), w.shape, "ternary") / scale.numpy().astype(np.float64)
    by_x = quant.bitlinear_backward_input(on(g), packed, scale, levels="ternary", columns=40)
    np.testing.assert_allclose(by_x.numpy(), g.astype(np.float64) @ values, atol=1e-5)
    q, s = quantized(x)
    seen = q / s.astype(np.float64)[..., None]
    by_w = quant.bitlinear_backward_weight(on(g), on(x)).numpy()
    np.testing.assert_allclose(by_w, g.reshape(-1, 6).T.astype(np.float64) @ seen.reshape(-1, 40), atol=1e-4)


def trained(on, levels: str) -> tuple[bytes, list[float]]:
    """A layer that learns another's numbers by gradient descent, and its losses."""
    numbers = np.random.default_rng(7)
    teacher, layer = nn.BitLinear(24, 8, levels=levels), nn.BitLinear(24, 8, levels=levels)
    teacher.weight[:] = numbers.standard_normal((8, 24))
    layer.weight[:] = numbers.standard_normal((8, 24))
    losses = []
    for _ in range(60):
        x = on(numbers.standard_normal((64, 24)))
        off = layer(x).numpy() - teacher(x).numpy()
        losses.append(float(np.square(off).mean()))
        layer.zero_grad()
        layer.backward(on(off / len(off)), x)
        layer.weight[:] -= np.float32(0.3) * np.asarray(layer.weight.grad)
    return layer.weight.tobytes(), losses


@pytest.mark.parametrize("levels", ["ternary", "binary"])
def test_a_layer_learns_and_gives_the_same_bits_twice(on, levels):
    weight, losses = trained(on, levels)
    assert np.mean(losses[-5:]) < 0.5 * losses[0], losses
    assert trained(on, levels)[0] == weight


def test_what_is_not_finite_makes_its_own_scale_nan(on):
    x = activations(5, 33)
    x[1, 3], x[2, 4], x[3, 32] = np.nan, np.inf, -np.inf
    for kind in ("absmax", "affine"):
        q, scale, *zero = (part.numpy() for part in quant.quantize(on(x), kind))
        assert (np.isnan(scale) == [False, True, True, True, False]).all()
        assert (q[1:4] == 0).all() and not any((part[1:4] != 0).any() for part in zero)
    packed, scale = quant.quantize_weights_ternary(on(np.ones((2, 8))))
    y = quant.bitlinear_forward(on(x[:, :8]), packed, scale, levels="ternary").numpy()
    assert np.isnan(y[1:3]).all() and np.isfinite(y[[0, 3, 4]]).all()


@pytest.mark.parametrize("depth", [36, 37])
def test_the_product_of_devices_without_packed_dots(vulkan, tmp_path, depth):
    """Those here have them, so that this variant runs nowhere else."""
    for name in ("counts", "elements", "elements-main", "levels"):
        shutil.copy(SHADERS / f"include/{name}.glsl", tmp_path)
    shutil.copy(SHADERS / "quantize/integer-linear.glsl", tmp_path)
    function = ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False)).get_compute_function(
        "integer-linear"
    )
    q = RNG.integers(-128, 128, (3, depth)).astype(np.int8)
    for place, levels in enumerate(("int8", "ternary", "binary")):
        values = RNG.choice(np.int8([-1, 1]) if levels == "binary" else np.int8([-1, 0, 1]), (5, depth))
        weight = values if levels == "int8" else quant.pack(values, levels)
        push = {"rows_of": 0, "rows": 15, "columns": 1, "rows_per_group": 16}
        push |= {"n": 5, "depth": depth, "row_bytes": weight.shape[1]}
        buffers = {"counts": np.zeros(8, np.uint32), "q": q, "weight": weight, "y": np.zeros((3, 5), np.int32)}
        constants = {"whole": depth % 4 == 0, "levels": place}
        y = dispatch(function, 1, buffers, push, constants)["y"].numpy()
        assert (y == q.astype(np.int64) @ values.T).all(), levels


def test_activations_have_their_names():
    x = np.float32([[-1.0, 0.5, 2.0]])
    for name in ("relu", "gelu", "swish", "sigmoid", "tanh", "leaky_relu"):
        y = getattr(quant, f"{name}_forward")(x)
        assert y.shape == x.shape and getattr(quant, f"{name}_backward")(np.ones_like(x), x).shape == x.shape
    assert quant.softmax_backward(np.ones_like(x), quant.softmax_forward(x)).shape == x.shape
    assert quant.layer_norm_forward(x, 3, np.ones(3), np.zeros(3)).shape == x.shape
    expected = functional.dropout(functional.relu(x), 0.5, seed=3)
    assert (quant.fused_relu_dropout(x, 0.5, seed=3) == expected).all()


def test_packed_arrays_keep_their_type(on):
    packed, _ = quant.quantize_weights_ternary(on(np.eye(4)))
    again = pickle.loads(pickle.dumps(packed))
    assert again.dtype == np.uint8 and (again.numpy() == packed.numpy()).all()
    values = quant.unpack(packed, (4, 4), "ternary")
    other = quant.pack(values, "huggingface")
    assert other.shape == (1, 4) and (quant.unpack(other, (4, 4), "huggingface") == values).all()


def test_errors_say_what_was_found():
    with pytest.raises(InvalidTypeError, match="bitlinear_forward: weight is of type float32, expected uint8"):
        quant.bitlinear_forward(np.ones((1, 8)), np.ones((2, 1), np.float32), [1.0])
    with pytest.raises(InvalidArgumentError, match=r"weight_scale has shape \[3\], expected \[2\] or \[1\]"):
        quant.bitlinear_forward(np.ones((1, 8)), np.ones((2, 1), np.uint8), np.ones(3))
    with pytest.raises(InvalidArgumentError, match="quantized_linear: q has shape"):
        quant.bitlinear_forward(np.ones((1, 9)), np.ones((2, 1), np.uint8), np.ones(1))
    with pytest.raises(InvalidArgumentError, match="i2_s: 64 columns, expected a multiple of 128"):
        quant.pack(np.zeros((2, 64), np.int8), "i2_s")
    with pytest.raises(InvalidArgumentError, match="code 3"):
        quant.unpack(np.full((1, 1), 255, np.uint8), (1, 4), "ternary")
    with pytest.raises(InvalidArgumentError, match="value 2 at"):
        quant.pack([[2]], "ternary")
    with pytest.raises(InvalidArgumentError, match="scope"):
        quant.quantize([[1.0]], scope="column")
