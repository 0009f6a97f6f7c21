"""`decode_states` against transformers' own decoders: tiny checkpoints, pairs in padded batches, three types."""

import numpy as np
import pytest
import torch
from models import families
from models.golden import per_text
from transformers import AutoModel, AutoTokenizer

import grilly

NARROW = 1.5  # times the largest error of theirs in the same type, both from float64
DECODERS = [name for name in families.table() if families.decodes(name)]


@pytest.fixture(scope="module", params=DECODERS)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return families.build(name, tmp_path_factory.mktemp("decoders"))


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def pairs(golden, texts) -> tuple[list[str], list[str]]:
    """Each of the golden file's texts, and a part of the 200, beside another."""
    left = [*(str(text) for text in golden["texts"]), *texts[1::20]]
    return left, [*left[7:], *left[:7]]


class Theirs:
    def __init__(self, folder, dtype: torch.dtype):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32 if dtype == torch.float64 else dtype)
        self.model.to(dtype)

    def states(self, texts: list[str], others: list[str], is_shifted: bool = True) -> list[np.ndarray]:
        """Of a padded batch, the rows of tokens."""
        limits = {"padding": True, "truncation": True, "return_tensors": "pt"}
        encoded, decoded = self.tokenizer(texts, **limits), self.tokenizer(others, **limits)
        read = decoded["input_ids"]
        read = self.model._shift_right(read) if is_shifted else read
        with torch.no_grad():
            answer = self.model(
                input_ids=encoded["input_ids"],
                attention_mask=encoded["attention_mask"],
                decoder_input_ids=read,
                decoder_attention_mask=decoded["attention_mask"],
            )
        counts = decoded["attention_mask"].sum(dim=1)
        return [row[:count].double().numpy() for row, count in zip(answer.last_hidden_state, counts, strict=True)]


@pytest.fixture(scope="module")
def exact(folder, pairs) -> np.ndarray:
    return np.concatenate(Theirs(folder, torch.float64).states(*pairs))


def largest(states: list[np.ndarray], exact: np.ndarray) -> float:
    rows = np.concatenate(states).astype(np.float64)
    assert rows.shape == exact.shape
    return float(np.abs(rows - exact).max() / np.abs(exact).max())


def test_golden_file_is_what_this_version_answers(folder, name, golden):
    texts, ids, listed = golden["texts"], per_text(golden[f"{name}/ids"]), golden[f"{name}/pairs"]
    theirs = Theirs(folder, torch.float64)
    states = [
        theirs.states([str(texts[text])], [str(texts[other])], bool(is_shifted))[0]
        for text, other, is_shifted in listed
    ]
    assert [len(each) for each in states] == [len(ids[other]) for _, other, _ in listed]
    assert largest(states, golden[f"{name}/states"].astype(np.float64)) <= 1e-7  # the file's numbers are float32


def test_states(folder, device, pairs, exact):
    with grilly.SentenceTransformer(folder, device=device, dtype="float32") as ours:
        assert ours.backend == device
        assert largest(ours.decode_states(*pairs), exact) <= 1e-5


def test_tokens_as_they_are(folder, device, pairs):
    exact = np.concatenate(Theirs(folder, torch.float64).states(*pairs, is_shifted=False))
    with grilly.SentenceTransformer(folder, device=device, dtype="float32") as ours:
        assert largest(ours.decode_states(*pairs, shift_right=False), exact) <= 1e-5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(folder, device, pairs, exact, dtype):
    theirs = Theirs(folder, getattr(torch, dtype)).states(*pairs)
    with grilly.SentenceTransformer(folder, device=device, dtype=dtype) as ours:
        assert ours.backend == device and ours.dtype == dtype
        assert largest(ours.decode_states(*pairs), exact) <= NARROW * largest(theirs, exact)
