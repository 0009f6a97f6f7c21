"""Scores of groups of documents beside sentence-transformers' own, on the same vectors."""

import pytest
import torch
from sentence_transformers.multi_vector_encoder import scoring as theirs

from grilly import late_scores, xtr_scores

CHANCE = torch.Generator().manual_seed(8)


SHAPES = ((4, 9), (4, 3, 17), (4, 17))
ROWS = [torch.randn(*shape, 24, generator=CHANCE) for shape in SHAPES]
MASKS = [torch.rand(shape, generator=CHANCE) > 0.3 for shape in SHAPES]


@pytest.mark.parametrize("name", theirs.__all__)
@pytest.mark.parametrize("masked", [False, True])
def test_scores(name, masked):
    ours = getattr(xtr_scores if "xtr" in name.lower() else late_scores, name)
    places = (0, 2 if name.endswith("pairwise") else 1)
    masks = [MASKS[place] if masked else None for place in places]
    # Without a mask rows of zeros are padding.
    queries, documents = (ROWS[place] if masked else ROWS[place] * MASKS[place][..., None] for place in places)
    options = [{"top_k": most} for most in (1, 7, 40, 256)] if "xtr" in name.lower() else [{}]
    for option in options:
        if isinstance(ours, type):
            calls = [kind(**option) for kind in (ours, getattr(theirs, name))]
            assert calls[0].get_config_dict() == calls[1].get_config_dict()
            found, expected = (call(queries, documents, *masks) for call in calls)
        else:
            found, expected = (kind(queries, documents, *masks, **option) for kind in (ours, getattr(theirs, name)))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5), option
