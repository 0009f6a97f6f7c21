"""100 steps in 16 bits on the CPU, beside the same steps on a Vulkan device and in float32."""

import numpy as np
import pytest

from grilly.train import Trainer, TransformerConfig

SMALL = TransformerConfig(vocab_size=256, d_model=64, num_layers=2, num_heads=2, ffn_dim=128, max_seq_len=32)


def batches(config: TransformerConfig, rows: int, steps: int = 100) -> list[np.ndarray]:
    """Windows that begin anywhere in a text of three words in any order, so that there is something to learn."""
    numbers = np.random.default_rng(0)
    words = [b"the quick ", b"brown fox ", b"jumps over "]
    text = np.frombuffer(b"".join(words[place] for place in numbers.integers(0, 3, 2000)), np.uint8)
    starts = numbers.integers(0, len(text) - config.max_seq_len - 1, (steps, rows))
    places = starts[..., None] + np.arange(config.max_seq_len + 1)
    return list(text[places].astype(np.int64))


def losses(device: str, dtype: str, config: TransformerConfig, rows: int) -> tuple[np.ndarray, dict[str, str]]:
    trainer = Trainer(config, device=device, batch_size=rows, dtype=dtype, max_norm=1.0)
    return np.array([trainer.step(windows).loss for windows in batches(config, rows)]), trainer.hashes()


def of_each(name: str) -> tuple[TransformerConfig, int]:
    from conftest import LONG

    if name == "tiny" and not LONG:
        pytest.skip("the whole configuration runs under GRILLY_TEST_LONG")
    return (TransformerConfig.tiny(), 4) if name == "tiny" else (SMALL, 16)


@pytest.mark.parametrize("dtype, share", [("bfloat16", 0.1), ("float16", 0.5)])
def test_values_are_rounded_where_a_vulkan_device_rounds_them(vulkan, dtype, share):
    """The gradient that is computed first is far closer than that of float32: only sums have another order.

    In float16, whose unit is an eighth, another order changes more roundings.
    """

    def gradient(device: str, dtype: str) -> tuple[float, np.ndarray]:
        trainer = Trainer(SMALL, device=device, batch_size=4, betas=(0.0, 0.999), dtype=dtype)
        return trainer.step(batches(SMALL, 4, 1)[0]).loss, trainer.tensors()["m.output.weight"]

    (loss, expected), (own_loss, found), (_, wide) = (
        gradient(vulkan, dtype),
        gradient("cpu", dtype),
        gradient("cpu", "float32"),
    )
    assert abs(own_loss - loss) <= 1e-6 * loss
    apart, rounding = np.linalg.norm(found - expected), np.linalg.norm(found - wide)
    assert apart <= share * rounding, (apart, rounding)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["small", "tiny"])
def test_a_hundred_steps_are_those_of_a_vulkan_device(vulkan, name, dtype):
    config, rows = of_each(name)
    found, _ = losses("cpu", dtype, config, rows)
    expected, _ = losses(vulkan, dtype, config, rows)
    assert np.abs(found - expected).max() <= 1e-3, np.abs(found - expected).max()
    assert found[-1] < 0.6 * found[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["small", "tiny"])
def test_a_hundred_steps_repeat_and_are_rounded(name, dtype):
    config, rows = of_each(name)
    found, hashes = losses("cpu", dtype, config, rows)
    again, same = losses("cpu", dtype, config, rows)
    assert np.array_equal(again, found) and same == hashes
    wide, others = losses("cpu", "float32", config, rows)
    assert others != hashes and 0 < np.abs(found - wide).max() < 0.1
