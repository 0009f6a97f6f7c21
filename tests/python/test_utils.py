"""Upstream's helpers of training: checkpoints, initialisation, batches of data."""

import os

import numpy as np
import pytest

from grilly import nn, optim, utils
from grilly.errors import CheckpointError, InvalidArgumentError, InvalidTypeError
from grilly.utils import data


def trained(seed=1, steps=2):
    np.random.seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        for p in model.parameters():
            p.accumulate(np.random.standard_normal(p.shape))
        optimizer.step()
    return model, optimizer


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def test_a_checkpoint_is_restored_in_every_bit(tmp_path):
    model, optimizer = trained()
    path = tmp_path / "a.npz"
    metadata = {"name": "run", "sizes": [1, 2], "rates": (0.5, None), 7: {"mean": np.arange(3)}}
    utils.save_checkpoint(model, None, optimizer, None, 3, 0.25, path, metadata)
    other, fresh = trained(seed=2, steps=1)
    found = utils.load_checkpoint(str(path), other, fresh)
    assert (found["epoch"], found["loss"]) == (3, 0.25) and os.listdir(tmp_path) == ["a.npz"]
    assert found["metadata"].pop(7)["mean"].tolist() == [0, 1, 2]
    assert found["metadata"] == {"name": "run", "sizes": [1, 2], "rates": (0.5, None)}
    assert same(model, other) and fresh.param_groups[0]["lr"] == 0.01 and fresh.param_groups[0]["betas"] == (0.9, 0.999)
    for a, b in zip(model.parameters(), other.parameters()):
        ones = np.ones(a.shape)
        a.accumulate(ones), b.accumulate(ones)
    optimizer.step(), fresh.step()
    assert same(model, other)
    utils.save_checkpoint(model_state=model.state_dict(), optimizer_state=optimizer.state_dict(), filepath=path)
    assert utils.load_checkpoint(path)["loss"] is None
    assert same(model, other) and utils.load_checkpoint(path, other)["optimizer_state"]["state"].keys() == {0, 1, 2}


def test_damaged_and_missing_checkpoints_are_named(tmp_path):
    model, optimizer = trained()
    path = tmp_path / "a.npz"
    utils.save_checkpoint(model, optimizer=optimizer, filepath=path)
    whole = path.read_bytes()
    other, fresh = trained(seed=2)
    before = [np.array(p) for p in other.parameters()]
    for content in (b"", whole[:100], whole[:-100], b"x" + whole[1:]):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="a.npz"):
            utils.load_checkpoint(path, other, fresh)
    middle = bytearray(whole)
    middle[len(whole) // 2] ^= 255
    path.write_bytes(middle)
    with pytest.raises(CheckpointError, match="a.npz"):
        utils.load_checkpoint(path, other, fresh)
    np.savez(path, weights=np.ones(3))
    with pytest.raises(CheckpointError, match="is no checkpoint of save_checkpoint, or damaged"):
        utils.load_checkpoint(path)
    np.savez(path, record=np.array([object()], dtype=object))
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        utils.load_checkpoint(path)  # nothing in it is executed
    with pytest.raises(CheckpointError, match="none.npz: cannot be read"):
        utils.load_checkpoint(tmp_path / "none.npz")
    utils.save_checkpoint(model, filepath=path)
    with pytest.raises(CheckpointError, match="has no optimizer_state"):
        utils.load_checkpoint(path, other, fresh)
    assert all(np.array_equal(a, b) for a, b in zip(before, other.parameters()))


def test_a_state_that_does_not_fit_changes_nothing(tmp_path):
    model, optimizer = trained()
    utils.save_checkpoint(model, optimizer=optimizer, filepath=tmp_path / "a.npz")
    narrow = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    fresh = optim.AdamW([p for name, p in narrow.named_parameters() if name != "2.bias"], lr=0.5)
    with pytest.raises(InvalidArgumentError, match="2.bias is missing"):
        utils.load_checkpoint(tmp_path / "a.npz", narrow, fresh)
    assert fresh.param_groups[0]["lr"] == 0.5 and not any(fresh.state.values())
    utils.load_checkpoint(tmp_path / "a.npz", narrow, fresh, strict=False)
    assert fresh.param_groups[0]["lr"] == 0.01


def test_a_full_disk_leaves_what_was_there(tmp_path):
    resource = pytest.importorskip("resource")
    model, _ = trained()
    path = tmp_path / "a.npz"
    utils.save_checkpoint(model, epoch=1, filepath=path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (0, 100, 1500):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(CheckpointError, match=r"a.npz: cannot be written: .*File too large.* before is intact"):
                utils.save_checkpoint(model, epoch=2, filepath=path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert utils.load_checkpoint(path)["epoch"] == 1 and os.listdir(tmp_path) == ["a.npz"]
    for unwritable in (tmp_path / "none" / "a.npz", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(CheckpointError, match="cannot be written"):
            utils.save_checkpoint(model, filepath=unwritable)
    with pytest.raises(InvalidArgumentError, match="both model and model_state"):
        utils.save_checkpoint(model, model.state_dict(), filepath=path)
    assert os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.parametrize(
    "name, options, deviation",
    [
        ("xavier_uniform_", {}, (2 / 500) ** 0.5),
        ("xavier_normal_", {"gain": 2.0}, 2 * (2 / 500) ** 0.5),
        ("kaiming_uniform_", {"a": 1.0}, (1 / 300) ** 0.5),
        ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, (2 / 200) ** 0.5),
        ("kaiming_normal_", {"nonlinearity": "tanh"}, 5 / 3 / 300**0.5),
    ],
)
def test_initial_numbers_have_their_deviation(name, options, deviation):
    fill, weight = getattr(utils, name), nn.Linear(300, 200).weight
    np.random.seed(5)
    assert fill(weight, **options) is weight
    numbers = np.array(weight)
    # Of 60,000 numbers: five standard errors of a deviation and of a mean.
    assert abs(numbers.std() / deviation - 1) < 5 / (2 * numbers.size) ** 0.5
    assert abs(numbers.mean()) < 5 * deviation / numbers.size**0.5
    if "uniform" in name:
        assert 0.99 < np.abs(numbers).max() / (3**0.5 * deviation) <= 1 + 1e-6
    np.random.seed(5)
    assert np.array_equal(fill(np.zeros((200, 300), np.float32), **options), numbers)
    with pytest.raises(InvalidArgumentError, match=r"tensor has shape \[3\], expected at least 2 axes"):
        fill(np.zeros(3))
    with pytest.raises(InvalidTypeError, match="tensor is of type list"):
        fill([[1.0]])


def test_batches_repeat_with_a_seed():
    dataset = data.TensorDataset(np.arange(10), np.arange(10) * 2)

    def epochs(**options):
        loader = data.DataLoader(dataset, batch_size=4, shuffle=True, **options)
        assert len(loader) == (2 if options.get("drop_last") else 3)
        return [[x.tolist() for x, y in loader if (y == 2 * x).all()] for _ in range(2)]

    np.random.seed(1)
    first = epochs()
    np.random.seed(1)
    again = epochs(num_workers=2)
    assert first == again and first[0] != first[1]
    assert [sorted(sum(epoch, [])) for epoch in first] == [list(range(10))] * 2
    assert [len(batch) for batch in epochs(drop_last=True)[0]] == [4, 4]
    drawn = [epochs(generator=np.random.default_rng(3)) for _ in range(2)]
    assert drawn[0] == drawn[1] != first


def test_datasets_samplers_and_transforms():
    transform = data.Compose([data.ToFloat32(), data.Lambda(lambda x: x + 1), data.Normalize(1.0, 2.0), data.Flatten()])
    images = np.arange(24).reshape(4, 2, 3)
    dataset = data.ArrayDataset(images, np.array([0, 1, 2, 1]), transform, data.OneHot(3))
    x, y = next(iter(data.DataLoader(dataset, batch_size=4)))
    assert x.dtype == np.float32 and np.allclose(x, images.reshape(4, 6) / 2) and y.tolist()[2] == [0, 0, 1]
    both = data.ConcatDataset([dataset, data.Subset(dataset, [3, 0])])
    assert len(both) == 6 and np.array_equal(both[4][0], dataset[3][0]) and np.array_equal(both[-1][0], dataset[0][0])
    np.random.seed(4)
    parts = data.random_split(dataset, [1, 3])
    assert [len(part) for part in parts] == [1, 3]
    np.random.seed(4)
    assert data.random_split(dataset, [1, 3])[1].indices == parts[1].indices
    assert len(list(data.RandomSampler(dataset, replacement=True, num_samples=9))) == 9
    assert sorted(sum(data.BatchSampler(5, 2, shuffle=True), [])) == list(range(5))
    assert list(data.DataLoader(dataset, batch_sampler=[[0], [1, 2]], collate_fn=len)) == [1, 2]
    assert data.default_collate([{"a": 1.0}, {"a": 2.0}])["a"].tolist() == [1.0, 2.0]
    assert data.default_collate(["a", "b"]) == ["a", "b"]
    noisy = data.RandomNoise(0.5)(np.zeros(10000, np.float32))
    assert noisy.dtype == np.float32 and abs(noisy.std() - 0.5) < 0.02
    assert data.RandomFlip(0.0)(images[0]).tolist() == images[0].tolist()
    for make, error, problem in [
        (lambda: data.TensorDataset(np.ones(2), np.ones(3)), InvalidArgumentError, r"the arrays have \[2, 3\] rows"),
        (lambda: data.ArrayDataset(np.ones(2), [1]), InvalidArgumentError, "there are 1 labels, expected 2"),
        (lambda: data.random_split(dataset, [1, 1]), InvalidArgumentError, "expected a sum of 4"),
        (lambda: both[6], IndexError, "index is 6, and there are 6 samples"),
        (lambda: data.OneHot(3)(3), IndexError, "the class is 3, expected 0 to 2"),
        (lambda: data.RandomSampler(dataset, num_samples=3), InvalidArgumentError, "num_samples needs replacement"),
        (lambda: data.DataLoader(dataset, batch_size=0), InvalidArgumentError, "batch_size is 0"),
        (lambda: data.DataLoader(dataset, shuffle=True, sampler=[0]), InvalidArgumentError, "give one of shuffle"),
    ]:
        with pytest.raises(error, match=problem):
            make()
