"""Which vectors of a query are those of its words, beside the reference."""

import sentence_transformers
from models import heads
from sentence_transformers.multi_vector_encoder.interpretability import real_query_token_slice as theirs

from grilly import MultiVectorEncoder
from grilly.query_tokens import real_query_token_slice


def test_the_slice_of_a_query(tmp_path):
    folder, their_folder = heads.build_both("vectors", "bert", tmp_path)
    model = sentence_transformers.MultiVectorEncoder(str(their_folder), device="cpu")
    with MultiVectorEncoder(folder, device="cpu") as ours:
        for query in ("Where is the cat?", "a dog", "the"):
            assert real_query_token_slice(ours, query) == theirs(model, query)
