"""Token ids against transformers' goldens: every family, with arguments that agree with its file and that do not."""

import numpy as np
import pytest

from grilly import _core

from .golden import per_text
from .token_cases import CASES, GOLDEN, MOST, TEXTS, build


@pytest.mark.parametrize("case", CASES)
def test_ids(case, tmp_path):
    with np.load(GOLDEN) as golden:
        wanted = per_text(golden[case])
    model = _core.EmbeddingModel.load(build(case, tmp_path / "model"), {"device": "cpu", "max_seq_length": MOST})
    ids = model.tokenize(TEXTS)
    assert [text for text, own, other in zip(TEXTS, ids, wanted, strict=True) if own != other] == []


def test_the_arguments_matter():
    # electra has distilbert's pieces, with the file's own class no argument counts, and gpt2 has no pieces with digits.
    cases = [case for case in CASES if case not in ("electra", "dpr", "mpnet, file", "gpt2, cohere", "gpt2, later")]
    with np.load(GOLDEN) as golden:
        assert len({golden[case].tobytes() for case in cases}) == len(cases)
        assert np.array_equal(golden["mpnet, file"], golden["mpnet"])
