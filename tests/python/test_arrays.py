"""`VulkanTensor` and its makers."""

import copy
import gc
import os
import pickle
import weakref

import numpy as np
import pytest

import grilly
from grilly import _core, errors, functional
from grilly.functional import dispatch


@pytest.fixture
def place(device):
    return lambda x: grilly.to_vulkan(x, device)


def test_properties(place, device):
    x = place(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize, len(x)) == ((2, 3), 2, 6, 24, 4, 2)
    assert x.dtype == np.float32 and x.device == device and x.device_name
    assert "(2, 3)" in repr(x) and "float32" in repr(x) and device in repr(x)


@pytest.mark.parametrize(
    "given, kept",
    [(np.float32, np.float32), (np.float64, np.float32), (np.float16, np.float16), (bool, np.int32),
     (np.int64, np.int32), (np.uint8, np.int32)],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3, 4)])
def test_round_trip(place, given, kept, shape):
    x = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(given)
    tensor = place(x)
    assert tensor.dtype == kept and tensor.shape == shape
    for found in (tensor.numpy(), np.asarray(tensor), grilly.from_vulkan(tensor)):
        assert found.dtype == kept and np.array_equal(found, x)
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert np.array_equal(np.from_dlpack(tensor), x)


def test_strides_and_byte_order(place):
    x = np.arange(24, dtype=">f4").reshape(4, 6)[::2, ::-3]
    assert np.array_equal(place(x).numpy(), x)


def test_what_changes_on_the_host_stays_on_the_device(place):
    x = np.ones(3, np.float32)
    ids = np.array([0, 1])
    tensor, indices = place(x), place(ids)
    x[:], ids[:] = 5, 9
    assert tensor.tolist() == [1, 1, 1] and indices.tolist() == [0, 1]
    assert np.asarray(functional.embedding_lookup(np.eye(2), indices)).shape == (2, 2)
    tensor.numpy()[:] = 7
    assert tensor.tolist() == [1, 1, 1]


def test_reshape(place):
    x = place(np.arange(6.0))
    for shape in ((2, 3), [3, 2], (-1, 2), (6,), np.array([2, 3])):
        assert np.array_equal(x.reshape(shape).numpy(), np.arange(6.0).reshape(shape))
    assert x.reshape(2, -1).shape == (2, 3) and place(np.arange(4)).reshape(2, 2).tolist() == [[0, 1], [2, 3]]
    for wrong in ((4,), (-1, -1), (5, -1)):
        with pytest.raises(errors.InvalidArgumentError):
            x.reshape(wrong)
    for wrong in ("ab", [1.5, 4], [[2], [3]]):
        with pytest.raises(errors.InvalidTypeError):
            x.reshape(wrong)


def test_numbers(place):
    x = place(2.5)
    assert x.item() == 2.5 and float(x) == 2.5 and bool(x)
    with pytest.raises(ValueError):
        place([1.0, 2.0]).item()
    with pytest.raises(TypeError):
        len(x)
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__(copy=False)


def test_operators_and_functions_of_numpy(place):
    x = place([1.0, 2.0])
    for found in (np.ones(2) + x, x + np.ones(2), np.add(x, 1)):
        assert isinstance(found, np.ndarray) and found.tolist() == [2, 3]
    assert np.concatenate([x, x]).tolist() == [1, 2, 1, 2] and int(place([3])) == 3
    with pytest.raises(TypeError):
        x + 1


def test_copies_and_pickles(place, device):
    for given in (np.ones((2, 3), np.float16), np.array([4, 5])):
        x = place(given)
        assert copy.copy(x) is x and copy.deepcopy(x) is x and weakref.ref(x)() is x
        again = pickle.loads(pickle.dumps(x))
        assert again.device == device and again.dtype == x.dtype and np.array_equal(again.numpy(), given)


def test_what_is_already_there_is_not_moved(place, device):
    x = place(np.ones(3))
    assert grilly.to_vulkan(x, device) is x
    assert grilly.VulkanTensor(x, device).numpy().tolist() == [1, 1, 1]


def test_containers(place, device):
    made = grilly.to_vulkan_batch((np.ones(2), [1, 2]), device)
    assert isinstance(made, tuple) and [x.dtype for x in made] == [np.float32, np.int32]
    assert isinstance(grilly.to_vulkan_batch([1.0], device), list)
    assert isinstance(grilly.to_vulkan_batch(np.ones(2), device), grilly.VulkanTensor)
    assert grilly.ensure_vulkan_compatible(place([1, 2])).dtype == np.int32
    assert grilly.ensure_vulkan_compatible(np.ones((2, 3)).T).flags.c_contiguous
    assert grilly.from_dlpack(np.ones(2, np.float32), device).device == device


@pytest.mark.parametrize("x", ["text", [object()], np.array(["a"]), [1j]])
def test_what_is_not_numbers_is_refused(place, x):
    with pytest.raises(TypeError):
        place(x)


def test_integers_beyond_32_bits_are_refused(place):
    with pytest.raises(IndexError):
        place(np.array([2**40]))


def test_unknown_devices():
    with pytest.raises(ValueError, match="cuda"):
        grilly.to_vulkan([1.0], "cuda")


def test_a_device_that_is_not_there(vulkan):
    with pytest.raises(IndexError):
        grilly.to_vulkan([1.0], "vulkan:99")


def test_two_devices_do_not_mix(vulkan):
    with pytest.raises(ValueError, match="residual: operands are on different devices, .* and "):
        functional.residual(grilly.to_vulkan([1.0], "cpu"), grilly.to_vulkan([1.0], "vulkan"))
    moved = grilly.to_vulkan(grilly.to_vulkan([1.0], "vulkan"), "cpu")
    assert moved.device == "cpu" and functional.residual(grilly.to_vulkan([1.0], "cpu"), moved).tolist() == [2.0]


def test_del_frees(vulkan):
    grilly.to_vulkan([1.0]).numpy()
    before = grilly.stats()["bytes_held"]
    x = grilly.to_vulkan(np.zeros(1 << 20, np.float32))
    y = functional.relu(x)
    y.numpy()
    assert grilly.stats()["bytes_held"] >= before + (8 << 20)
    del x, y
    gc.collect()
    grilly.to_vulkan([1.0]).numpy()
    assert grilly.stats()["bytes_held"] < before + (1 << 20)


def test_torch_tensors_without_importing_torch(run):
    code = """
    import sys, numpy as np, grilly
    class Tensor:
        def detach(self): return self
        def __array__(self, dtype=None, copy=None): return np.ones((2, 2), dtype or np.float32)
    print(grilly.to_vulkan(Tensor(), "cpu").shape, "torch" in sys.modules)
    """
    assert run(code).output.strip() == "(2, 2) False"


def test_a_repeated_chain_moves_nothing(vulkan):
    """Neither data nor the constants of an operation, which stay on the device: ones, offsets, sinusoids."""
    x, w = grilly.to_vulkan(np.ones((2, 5, 8), np.float32)), grilly.to_vulkan(np.ones((8, 8), np.float32))

    def chain():
        y = functional.layer_norm(functional.gelu(functional.linear(x, w)), 8)
        y = functional.flash_attention2(y, y, y, use_rope=True)
        y = functional.embedding_attention(functional.embedding_position(functional.rms_norm(y, 8)))
        return functional.mse_loss(functional.apply_rope(y.reshape(2, 5, 2, 4)), x.reshape(2, 5, 2, 4))

    first = chain().item()
    before = grilly.stats()
    second = chain()
    after = grilly.stats()
    assert all(after[name] == before[name] for name in ("bytes_up", "bytes_down", "submits"))
    assert second.item() == first


def test_calls_that_differ_in_anything_are_made_ready_apart(place):
    x = place(np.array([-2.0, 3.0], np.float32))
    for _ in range(2):
        assert np.signbit(functional.leaky_relu(x, 0.0).numpy()).tolist() == [True, False]
        assert np.signbit(functional.leaky_relu(x, -0.0).numpy()).tolist() == [False, False]
        assert functional.leaky_relu(x, 0.5).tolist() == [-1.0, 3.0]
        assert functional.leaky_relu(x.reshape(2, 1), 0.5).tolist() == [[-1.0], [3.0]]
        assert functional.relu(x).tolist() == [0.0, 3.0]
        assert functional.relu(place(np.array([-2.0, 3.0], np.float16))).dtype == np.float16


def test_more_kinds_of_calls_than_are_kept(place):
    xs = [place(np.full(n, -float(n), np.float32)) for n in range(1, 700)]
    for _ in range(2):
        found = [functional.leaky_relu(x, 0.5) for x in xs]
        assert [y.shape for y in found] == [(n,) for n in range(1, 700)]
        assert all((y.numpy() == -n / 2).all() for n, y in enumerate(found, 1))


def test_constants_that_are_kept_are_few(device):
    engine = _core.engine(device)
    for count in range(1, 40):
        assert dispatch.kept(engine, dispatch.filled, 1.0, count * 100_000).shape == (count * 100_000,)
    assert sum(array.nbytes for array in dispatch._held.values()) <= dispatch.MOST


class Speaker:
    """Says that it speaks DLPack."""

    def __init__(self, capsule=None, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("speaker", [Speaker(), Speaker(3), Speaker(device=(2, 0)), Speaker(device=None)])
def test_an_object_whose_dlpack_gives_no_capsule_is_of_the_wrong_type(speaker):
    for use in (
        lambda: grilly.from_dlpack(speaker, "cpu"),
        lambda: grilly.to_vulkan(speaker, "cpu"),
        lambda: grilly.functional.gelu(speaker),
    ):
        with pytest.raises(grilly.errors.InvalidTypeError, match="type Speaker gives no array"):
            use()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_computes_on_the_cpu_with_constants_of_its_own(run):
    code = """
    import os, numpy as np, grilly
    from grilly import functional
    x = grilly.to_vulkan([[1.0, 3.0]], "cpu")
    functional.layer_norm(x, 2), functional.layer_norm([[1.0, 3.0]], 2)
    child = os.fork()
    if child == 0:
        y = functional.layer_norm(grilly.to_vulkan([[1.0, 3.0]], "cpu"), 2, eps=0.0)
        print(y.tolist(), functional.layer_norm([[1.0, 3.0]], 2, eps=0.0).tolist(), flush=True)
        try:
            functional.relu(x)
        except grilly.errors.UnusableError:
            print("refused", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """
    done = run(code)
    assert done.output.split("\n")[:2] == ["[[-1.0, 1.0]] [[-1.0, 1.0]]", "refused"], done.errors


def test_two_names_of_one_device_are_one_engine(vulkan):
    first, second = grilly.to_vulkan([1.0]), grilly.to_vulkan([2.0], "vulkan:0")
    assert first.device == second.device
    assert grilly.functional.residual(first, second).numpy().tolist() == [3.0]
    host, other = grilly.to_vulkan([1.0], "cpu"), grilly.to_vulkan([2.0], "cpu")
    assert grilly.functional.residual(host, other).numpy().tolist() == [3.0]


def test_an_array_beyond_the_storage_buffer_range_is_refused_by_name(vulkan):
    limit = next(d for d in grilly.info()["devices"] if d["position"] == 0)["limits"]["storage_buffer_range"]
    if limit > 1 << 28:
        pytest.skip(f"this device binds {limit} bytes at once")
    large = np.zeros(limit // 4 + 64, np.float32)
    with pytest.raises(grilly.errors.UnsupportedError, match=f"storage-buffer range of {limit} bytes"):
        grilly.functional.relu(large)


@pytest.mark.parametrize("axes", [32, 33, 64])
def test_as_many_axes_as_numpy_has(device, axes):
    """NumPy 2 has 64, the binding between it and the compiled part 32."""
    try:
        x = np.full((1,) * axes, -2.0, dtype=np.float32)
    except ValueError:
        pytest.skip(f"this NumPy has fewer than {axes} axes")
    moved = grilly.to_vulkan(x, device)
    assert moved.shape == x.shape and np.array_equal(moved.numpy(), x)
    assert np.array_equal(grilly.functional.relu(moved).numpy(), 0 * x)
    assert grilly.functional.relu(x).shape == x.shape


def test_arrays_are_compared_element_by_element(place):
    x = place(np.array([1.0, 2.0], np.float32))
    assert (x == x).tolist() == [True, True] and (x != [1.0, 3.0]).tolist() == [False, True]
    assert (x == place(np.array([[2.0], [1.0]], np.float32))).tolist() == [[False, True], [True, False]]
    assert len({x, x}) == 1


def test_attributes_are_distinguished_by_their_bits():
    engine = _core.engine("cpu")
    x = engine.upload(np.float32([-1]))

    def sign(a: float) -> bool:
        return bool(np.signbit(engine.call("activation", [x], {"kind": "leaky_relu", "a": a}).numpy()[0]))

    assert [sign(a) for a in (0.0, -0.0, 0.0, -0.0)] == [True, False, True, False]
    for _ in range(2):
        with pytest.raises(ValueError, match="activation: invalid type: boolean"):
            engine.call("activation", [x], {"kind": "leaky_relu", "a": True})
        assert engine.call("activation", [x], {"kind": "leaky_relu", "a": 1}).numpy() == [-1]
    with pytest.raises(ValueError, match="unknown field `b2`"):
        engine.call("activation", [x], {"kind": "relu", "b2": 1.0})
