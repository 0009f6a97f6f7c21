"""Iterators of texts and pairs: scores, weights and vectors come in parts, with the bits of one list."""

import itertools
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from models import heads

from grilly import CrossEncoder, MultiVectorEncoder, SparseEncoder, errors

WORDS = "a dog and the cat sat on one mat of two or three".split()
TEXTS = [" ".join(WORDS[place % 7 : place % 7 + 1 + place % 6]) for place in range(50)]
PAIRS = list(zip(TEXTS, TEXTS[::-1], strict=True))
KINDS = {"scores": CrossEncoder, "words": SparseEncoder, "vectors": MultiVectorEncoder}


@pytest.fixture(scope="module", params=KINDS)
def model(request, tmp_path_factory):
    folder = heads.build(request.param, "bert", tmp_path_factory.mktemp(request.param))
    with KINDS[request.param](folder, device="cpu") as model:
        yield model


def call(model, texts, **options):
    return (model.predict if isinstance(model, CrossEncoder) else model.encode)(texts, **options)


def given(model) -> list:
    return PAIRS if isinstance(model, CrossEncoder) else TEXTS


def rows(found) -> list[np.ndarray]:
    return list(found if isinstance(found, np.ndarray | list) else found.toarray())


@pytest.mark.parametrize("size", [1, 7, 50, 51])
def test_parts_have_the_bits_of_one_list(model, size):
    texts = given(model)
    parts = call(model, iter(texts), chunk_size=size)
    assert iter(parts) is parts
    found = [rows(part) for part in parts]
    assert list(map(len, found)) == [len(texts[start : start + size]) for start in range(0, 50, size)]
    expected = rows(call(model, texts))
    assert all(map(np.array_equal, itertools.chain.from_iterable(found), expected))


def test_texts_are_taken_when_they_are_needed(model):
    taken = []
    parts = call(model, (taken.append(text) or text for text in given(model)), chunk_size=8)
    assert not taken
    next(parts)
    assert len(taken) == 8
    next(parts)
    assert len(taken) == 16


def test_no_texts_give_no_parts(model):
    assert list(call(model, iter([]))) == [] and len(next(call(model, iter(given(model))))) == 50


def test_faults_of_a_call_are_told_at_once_and_those_of_texts_with_their_place(model):
    for wrong in ({"batch_size": 0}, {"chunk_size": 0}, {"prompt_name": "none"}, {"nonsense": 1}):
        with pytest.raises(errors.InvalidArgumentError, match=next(iter(wrong))):
            call(model, iter(given(model)), **wrong)
    parts = call(model, iter([*given(model)[:9], 3]), chunk_size=4)
    assert [len(next(parts)) for _ in range(2)] == [4, 4]
    with pytest.raises(errors.InvalidTypeError, match=r"(?s)\[1\].*\(counted from text 8\)"):
        next(parts)


def test_a_bar_counts_all_texts(model, capsys):
    for _ in call(model, iter(given(model)), chunk_size=20, show_progress_bar=True):
        pass
    assert "50" in capsys.readouterr().err


def test_arguments_reach_every_part(model):
    options = {CrossEncoder: {"activation_fn": np.negative}, SparseEncoder: {"max_active_dims": 2}}
    options = options.get(type(model), {"token_pooling": 2})
    found = [row for part in call(model, iter(given(model)), chunk_size=7, **options) for row in rows(part)]
    expected = rows(call(model, given(model), **options))
    assert all(map(np.array_equal, found, expected)) and len(found) == 50
    assert not all(map(np.array_equal, found, rows(call(model, given(model)))))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's files")
def test_memory_does_not_grow_with_the_number_of_texts(model):
    """Of parts that are dropped nothing stays: after the first ones, 40 times as many add less than 8 MiB."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    texts = itertools.cycle(given(model))
    parts = call(model, itertools.islice(texts, 41 * 256), chunk_size=256)
    next(parts)
    before = resident()
    assert sum(1 for _ in parts) == 40
    assert resident() - before < 8 << 20, sys.platform
