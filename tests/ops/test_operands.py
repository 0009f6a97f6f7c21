"""What functional operations take and refuse, what they do when a device fails, and what they move."""

import logging

import numpy as np
import pytest
from cases.comparison import close, values
from cases.reference import evaluate

import grilly
from grilly import _core, errors, fallbacks, functional


def test_strided_operands_are_read_as_numpy_reads_them():
    x = values(6, 8)
    for view in (x.T, x[::2, ::-1], x[:, None, ::3], np.broadcast_to(x[0], (3, 8)), np.asfortranarray(x)):
        assert functional.relu(view).tobytes() == functional.relu(view.copy()).tobytes()
    swapped = x.astype(">f4")
    assert (functional.relu(swapped) == functional.relu(x)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float16, bool, np.int8, np.uint8, np.int64, np.uint64])
def test_types_of_input(dtype):
    x = np.array([0, 1, 1], dtype=dtype)
    found = functional.relu(x)
    assert found.dtype == (np.float16 if dtype is np.float16 else np.float32)
    assert found.tolist() == [0, 1, 1]


@pytest.mark.parametrize("x", ["text", [1j], [None], [object()], np.array(["a"]), np.array([1], "M8[s]"), {"a": 1}])
def test_what_is_not_numbers_is_refused(x):
    with pytest.raises(TypeError):
        functional.relu(x)


def test_ragged_lists_are_refused():
    with pytest.raises(ValueError, match="x is not an array"):
        functional.relu([[1.0], [1.0, 2.0]])


def test_an_object_with_array_is_an_operand():
    class Foreign:
        def detach(self):
            return self

        def __array__(self, dtype=None, copy=None):
            return np.array([-1.0, 2.0], dtype)

    assert functional.relu(Foreign()).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("ids", [[9], [-1], [2**40], [-(2**40)], np.array([2**64 - 1], np.uint64)])
def test_bad_ids_raise_indexerror(put, ids):
    with pytest.raises(IndexError) as caught:
        functional.embedding_lookup(put(values(9, 5)), ids)
    assert isinstance(caught.value, errors.IndexOutOfRangeError)


@pytest.mark.parametrize("ids", [[1.0], [True], ["a"]])
def test_ids_are_integers(ids):
    with pytest.raises(TypeError, match="expected integers"):
        functional.embedding_lookup(values(9, 5), ids)


def test_float16_stays_float16():
    x = values(3, 8, dtype=np.float16)
    w = values(8, 8)
    for found in (
        functional.gelu(x), functional.linear(x, w), functional.layer_norm(x, 8), functional.softmax(x, 0),
        functional.mean_pool(x), functional.attention(x, x, x)[0], functional.whitening_transform(x)[0],
        functional.linear_backward(x, x, w)[0], functional.layer_norm_backward(x, x, np.ones(8))[0],
        functional.cross_entropy(x, [0, 1, 2]), functional.mse_loss(x, x), functional.matmul(x, w.astype(np.float16)),
    ):  # fmt: skip
        assert found.dtype == np.float16


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.linear(values(3, 4), values(5, 3)),
        lambda f: f.linear(values(3, 4), values(5, 4), values(4)),
        lambda f: f.linear(np.float32(1), values(5, 4)),
        lambda f: f.layer_norm(values(3, 4), 3),
        lambda f: f.layer_norm(values(3, 4), (3, 4), values(4)),
        lambda f: f.layer_norm(values(3, 4), ()),
        lambda f: f.layer_norm(values(3, 4), 4, eps=np.nan),
        lambda f: f.softmax(np.float32(1)),
        lambda f: f.softmax(values(3), 1),
        lambda f: f.matmul(values(3, 4), values(3, 4)),
        lambda f: f.attention(values(3, 4), values(3, 5), values(3, 4)),
        lambda f: f.attention(values(3, 4), values(5, 4), values(4, 4)),
        lambda f: f.attention(values(3, 4), values(5, 4), values(5, 4), np.ones((4, 5), bool)),
        lambda f: f.attention(values(3, 4), values(5, 4), values(5, 4), np.ones((2, 3, 5), bool)),
        lambda f: f.embedding_lookup(values(3), [0]),
        lambda f: f.embedding_position(values(2, 600, 4)),
        lambda f: f.embedding_attention(values(2, 3, 10)),
        lambda f: f.embedding_pool(values(2, 3, 4), "cls"),
        lambda f: f.mean_pool(values(2, 3, 4), np.ones((2, 4))),
        lambda f: f.swiglu(values(3, 5)),
        lambda f: f.gelu(values(3), "exact"),
        lambda f: f.dropout(values(3), 1.5),
        lambda f: f.dropout(values(3), seed=-1),
        lambda f: f.apply_rope(values(1, 2, 3, 5)),
        lambda f: f.apply_rope(values(1, 2, 3, 4), [0, 1, 2]),
        lambda f: f.apply_rope_backward(values(1, 2, 3, 4), [0, 1, 2]),
        lambda f: f.cross_entropy(values(3, 4), [0, 1]),
        lambda f: f.cross_entropy(values(3, 4), [0, 1, 2], reduction="median"),
        lambda f: f.mse_loss(values(3), values(4)),
        lambda f: f.relu_backward(values(3), values(4)),
        lambda f: f.attention_scores(values(1, 2, 8), values(1, 2, 8)),
        lambda f: f.attention_scores(values(1, 2, 3, 4), values(1, 2, 2, 4)),
        lambda f: f.attention_output(values(1, 2, 3, 3), values(1, 4, 2, 4), 2, 4),
        lambda f: f.whitening_apply(values(3, 4), values(3), values(4)),
    ],
)
def test_operands_that_do_not_fit(call):
    with pytest.raises((ValueError, IndexError)) as caught:
        call(functional)
    assert isinstance(caught.value, errors.GrillyError)


@pytest.fixture
def device_faults(vulkan):
    from grilly import testing

    fallbacks.reset()
    yield testing.inject_fault
    testing.clear_faults()
    fallbacks.reset()


@pytest.mark.parametrize("kind", ["allocation", "device_lost"])
def test_the_cpu_takes_over_from_a_device_that_fails(device_faults, kind, caplog):
    x = values(3, 5)
    expected = functional.relu(x)
    before = grilly.stats()["fallbacks"]
    device_faults(kind)
    with caplog.at_level(logging.WARNING, "grilly"):
        for _ in range(2):
            assert (functional.relu(x) == expected).all()
    assert len([record for record in caplog.records if "runs on the CPU" in record.getMessage()]) == 1
    assert grilly.stats()["fallbacks"] >= before + 2 and fallbacks.operations() == {"relu": 2}


def test_a_fault_is_raised_under_strict(device_faults, monkeypatch):
    monkeypatch.setenv("GRILLY_STRICT", "1")
    device_faults("allocation")
    with pytest.raises(errors.DeviceError):
        functional.relu(values(3, 5))


def test_a_chain_on_a_device_moves_nothing(vulkan):
    arrays = [values(*shape) for shape in ((4, 33), (65, 33), (65,), (33, 65), (33,), (33,))]
    x, w1, b1, w2, weight, bias = (grilly.to_vulkan(array) for array in arrays)
    _core.engine("vulkan").synchronize()
    before = grilly.stats()
    y = functional.layer_norm(functional.linear(functional.gelu(functional.linear(x, w1, b1)), w2), 33, weight, bias)
    _core.engine("vulkan").synchronize()
    after = grilly.stats()
    assert (after["bytes_up"], after["bytes_down"]) == (before["bytes_up"], before["bytes_down"])
    assert after["submits"] - before["submits"] == 1
    inner = evaluate("linear", arrays[:3], {"bias": True})
    inner = evaluate("activation", [inner], {"kind": "gelu_tanh"})
    close(y, evaluate("layer_norm", [inner @ arrays[3].T.astype(np.float64), *arrays[4:]], {}), terms=256)


def test_offsets_that_fall_are_refused(device):
    engine = _core.engine(device)

    def call(op, *operands, **attributes):
        return engine.call(op, [engine.upload(np.ascontiguousarray(x)) for x in operands], attributes).numpy()

    x, rising, falling = values(6, 4), np.int32([0, 2, 5, 6]), np.int32([0, 5, 2, 6])
    heads = {"heads": 1, "kv_heads": 1, "head_dim": 4, "scale": 0.5}
    assert call("attention", x, x, x, rising, rising, **heads).shape == (6, 4)
    with pytest.raises(ValueError, match="attention: q_offsets does not rise from 0 to 6"):
        call("attention", x, x, x, falling, rising, **heads)
    with pytest.raises(ValueError, match="attention: kv_offsets does not rise from 0 to 6"):
        call("attention", x, x, x, rising, falling, **heads)
    assert call("pool", x, rising, np.zeros(3, np.int32), modes=["mean"]).shape == (3, 4)
    with pytest.raises(ValueError, match="pool: offsets does not rise"):
        call("pool", x, falling, np.zeros(3, np.int32), modes=["mean"])
    assert call("embedding_backward", x, np.arange(6, dtype=np.int32), rising).shape == (3, 4)
    with pytest.raises(ValueError, match="embedding_backward: starts does not rise"):
        call("embedding_backward", x, np.arange(6, dtype=np.int32), falling)


@pytest.mark.parametrize("name", ["residual", "matmul", "attention", "mse_loss", "relu_backward"])
def test_float16_beside_float32_gives_float32_in_either_order(put, name):
    """As in NumPy and torch; 1e5 is infinite in float16."""
    small, large = np.ones((1, 2, 2), np.float16), np.full((1, 2, 2), 1e5, np.float32)
    function = getattr(functional, name)
    calls = {
        "attention": lambda a, b: function(a, a, b, need_weights=False)[0],
        "mse_loss": lambda a, b: function(a, b),
    }
    call = calls.get(name, function)
    for first, second in ((small, large), (large, small)):
        found = np.asarray(call(put(first), put(second)))
        assert found.dtype == np.float32 and np.isfinite(found).all(), (name, first.dtype)
    assert np.asarray(call(put(small), put(small))).dtype == np.float16


def test_weights_leave_the_type_alone(put):
    x, weight = values(3, 4).astype(np.float16), values(5, 4)
    assert functional.linear(put(x), put(weight)).dtype == np.float16
    assert functional.linear(put(values(3, 4)), put(weight.astype(np.float16))).dtype == np.float32


def test_a_product_that_does_not_fit_blames_nobody():
    with pytest.raises(
        ValueError, match=r"input has 512 columns, but weight has shape \[512, 256\].*takes 256; its transp"
    ):
        functional.linear(np.ones((2, 512)), np.ones((512, 256)))
    with pytest.raises(ValueError, match=r"input has 8 columns, but weight has shape \[4, 16\].*takes 16$"):
        grilly.nn.Linear(16, 4)(np.ones((2, 8), np.float32))


def test_a_masked_array_is_refused():
    with pytest.raises(TypeError, match="mask would be lost"):
        functional.softmax(np.ma.masked_array([1.0, 2.0, 9.0], mask=[0, 0, 1]))
