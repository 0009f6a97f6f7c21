"""Models beside the independent one, and beside hashes that change only with the version of the mode."""

import numpy as np
import pytest
from conftest import LONG, is_software
from models.golden import per_text

from grilly import VulkanSentenceTransformer

from . import hashes
from .bert import Model
from .comparison import NUMERICS, difference

#: Checkpoints of BERT: sizes, activations, poolings, modules, types of the file.
VARIANTS = (
    "base", "no_modules", "odd_sizes", "one_type", "head_64", "head_8_one_layer", "head_1", "eps", "float16",
    "bfloat16", "hidden_relu", "hidden_gelu_new", "hidden_silu", "pooling_all", "pooling_weightedmean", "dense_two",
    "dense_residual", "dense_residual_projected", "layer_norm", "every_module",
)  # fmt: skip


def opened(folder, device) -> VulkanSentenceTransformer:
    model = VulkanSentenceTransformer(str(folder), device=device, numerics="everywhere")
    assert model.backend == device and model.numerics == NUMERICS
    return model


def is_slow(device: str) -> bool:
    """Whether most of a test's time is the compiler of a software driver."""
    return is_software(device) and not LONG


@pytest.mark.parametrize("name", VARIANTS)
def test_small_checkpoints_have_the_models_bits(name, checkpoint, device, variants_golden):
    if is_slow(device) and VARIANTS.index(name) % 7:
        pytest.skip("one checkpoint of seven on a software driver")
    own, texts = Model(checkpoint(name)), [str(text) for text in variants_golden["texts"]]
    with opened(checkpoint(name), device) as model:
        ids = [model.tokenizer.encode(text, truncation=True) for text in texts]
        for unit in (False, True):
            found = model.encode(texts, batch_size=5, normalize_embeddings=unit)
            problem = difference(found, np.stack([own.embed(row, unit) for row in ids]))
            assert problem is None, f"unit={unit}: {problem}"


@pytest.fixture(scope="module")
def real(real_model_path, device):
    with opened(real_model_path, device) as model:
        yield model


def test_real_weights_have_the_models_bits(real, device, minilm, minilm_golden, texts, sample):
    if is_slow(device):
        pytest.skip("their hash on a software driver, below")
    found = real.encode([texts[index] for index in sample], normalize_embeddings=False)
    ids = per_text(minilm_golden["ids"])
    problem = difference(found, np.stack([minilm.embed(ids[index]) for index in sample]))
    assert problem is None, problem


def test_a_text_has_the_same_bits_in_any_batch(real, device, texts, sample):
    if is_slow(device):
        pytest.skip("of small checkpoints on a software driver, in test_classes.py")
    some = [texts[index] for index in sample[:5]]
    together = real.encode(some)
    for size in (1, 2):
        assert difference(real.encode(some[::-1], batch_size=size)[::-1], together) is None


def test_hashes_of_small_checkpoints(device, checkpoint, variants_golden):
    texts = [str(text) for text in variants_golden["texts"]]
    for name in hashes.CHECKPOINTS[:2] if is_slow(device) else hashes.CHECKPOINTS:
        with opened(checkpoint(name), device) as model:
            assert hashes.of(model.encode(texts, normalize_embeddings=False)) == hashes.stored(
                NUMERICS, name, len(texts)
            ), name


def test_hashes_of_the_real_weights(real, device, texts):
    """Of all texts; on a software driver, unless there is time, of the first."""
    count = hashes.FEW if is_slow(device) else len(texts)
    found = real.encode(texts[:count], normalize_embeddings=False)
    assert hashes.of(found) == hashes.stored(NUMERICS, hashes.REAL, count)


def test_the_models_hashes_are_the_stored_ones(checkpoint, variants_golden):
    """Of the independent model, which needs no device."""
    ids = {name: per_text(variants_golden[f"{name}/plain/ids"]) for name in hashes.CHECKPOINTS}
    for name, rows in ids.items():
        assert hashes.of_model(Model(checkpoint(name)), rows) == hashes.stored(NUMERICS, name, len(rows)), name


def test_a_line_of_the_table_is_found_by_all_its_words():
    with pytest.raises(LookupError, match="no hash of base of 3 texts in everywhere-1"):
        hashes.stored(NUMERICS, "base", 3)
    with pytest.raises(LookupError, match="everywhere-0"):
        hashes.stored("everywhere-0", "base", 12)
