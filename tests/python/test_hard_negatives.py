"""Hard negatives whose rows are kept in a folder; tests/live/test_search_libraries.py has their numbers."""

import numpy as np

from grilly import SentenceTransformer, util
from grilly.hard_negatives import rows_of

PAIRS = {
    "query": ["Where is the cat?", "Is it raining?", "Who won?"],
    "answer": ["On the mat.", "It pours.", "Nobody did."],
}


def test_a_folder_of_rows_is_of_one_model_and_its_settings(checkpoint, tmp_path):
    texts = PAIRS["answer"]
    with SentenceTransformer(checkpoint("base"), device="cpu") as model:

        def rows():
            return rows_of(model, texts, "document", (None, None), 32, str(tmp_path))

        first = rows()
        assert np.array_equal(first, model.encode_document(texts, normalize_embeddings=True))
        assert np.array_equal(rows(), first) and len(list(tmp_path.iterdir())) == 1
        model[1].pooling_mode = "cls"
        assert np.array_equal(rows(), model.encode_document(texts, normalize_embeddings=True))
        assert not np.array_equal(rows(), first) and len(list(tmp_path.iterdir())) == 2


def test_kept_rows_give_the_same_negatives(checkpoint, tmp_path):
    options = {"num_negatives": 1, "verbose": False, "range_max": 2}
    with SentenceTransformer(checkpoint("base"), device="cpu") as model:
        found = util.mine_hard_negatives(PAIRS, model, **options)
        for _ in range(2):
            assert util.mine_hard_negatives(PAIRS, model, cache_folder=str(tmp_path), **options) == found
    assert set(found) == {"query", "answer", "negative"} and len(found["negative"]) == 3
