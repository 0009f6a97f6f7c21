"""Mixtures of experts: every token meets the experts that its scores name, and no others."""

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer

from . import families
from .family_reference import LiquidMoe
from .golden import FLOAT32, error, per_text, same_bits
from .spoil import rewrite

#: An expert of every text's first token, one of some texts' tokens, and one of none, or again of some.
NAMES = {"nomic_bert-moe": (0, 2, 4), "nomic_bert-moe-matrix": (0, 3, 7), "liquid_moe": (0, 2, 4)}
MATRIX = "encoder.layers.1.mlp.experts.mlp.w2"


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


def encode(folder, device: str, sentences: list[str]) -> np.ndarray:
    with VulkanSentenceTransformer(folder, device=device) as model:
        assert model.backend == device
        return model.encode(sentences, normalize_embeddings=False)


def test_an_expert_changes_the_texts_with_tokens_of_its_own_alone(name, device, slow, tmp_path):
    """Without its second product an expert adds nothing: the texts that never meet it keep their bits."""
    with np.load(families.FIXTURES / "families.npz") as file:
        some = slice(2, None, 6 if slow else 1)
        sentences, ids = [str(text) for text in file["texts"]][some], per_text(file[f"{name}/ids"])[some]
    sizes = families.table()[name]["routes"]
    routes = families.routes(sizes["used"], sizes["top_k"])
    folder = families.build(name, tmp_path)
    rows, seen = encode(folder, device, sentences), set()
    for expert in NAMES[name]:
        folder = families.build(name, tmp_path / str(expert))

        def silence(tensors, expert=expert):
            matrix = tensors[MATRIX].copy()
            np.split(matrix, sizes["experts"])[expert][:] = 0
            tensors[MATRIX] = matrix

        rewrite(folder, silence)
        meets = [any(expert in routes[token % len(routes)] for token in text) for text in ids]
        without = encode(folder, device, sentences)
        assert [not same_bits(one, other) for one, other in zip(without, rows)] == meets, expert
        seen.add((any(meets), all(meets)))
    assert (True, True) in seen and (True, False) in seen
    assert name != "nomic_bert-moe-matrix" or (False, False) in seen


def test_a_liquid_gate_is_that_of_its_definition(device, slow, tmp_path):
    """Beside NumPy in float64, in which another number of steps, or none that reads a state, gives other numbers."""
    with np.load(families.FIXTURES / "families.npz") as file:
        some = slice(2, None, 12 if slow else 1)
        sentences, ids = [str(text) for text in file["texts"]][some], per_text(file["liquid_moe/ids"])[some]
        golden = file["liquid_moe/rows"][some]
    folder = families.build("liquid_moe", tmp_path)
    reference = LiquidMoe(folder)

    def rows() -> np.ndarray:
        return np.stack([reference(row).mean(axis=0) for row in ids])

    expected = rows()
    assert error(golden, expected) <= 1e-7  # rounded to float32
    assert error(encode(folder, device, sentences), expected) <= FLOAT32
    for changes in ({"liquid_steps": 1}, {"liquid_steps": 5}):
        reference.config |= changes
        assert error(rows(), expected) > 10 * FLOAT32
    reference.config["liquid_steps"] = 6
    for name in reference.tensors:
        if name.endswith("recurrent.weight"):
            reference.tensors[name] *= 0
    assert error(rows(), expected) > 10 * FLOAT32
