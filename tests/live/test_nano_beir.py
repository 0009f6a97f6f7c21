"""Evaluators of NanoBEIR beside sentence-transformers', both over the same stand-in for the package datasets."""

import sys

import evaluated
import nano_data_sets
import pytest
import sentence_transformers
from models import heads
from sentence_transformers.cross_encoder import evaluation as of_pairs
from sentence_transformers.multi_vector_encoder import evaluation as of_vectors
from sentence_transformers.sentence_transformer import evaluation as of_rows
from sentence_transformers.sparse_encoder import evaluation as of_words

import grilly
from grilly import evaluation

NAMES = ["MSMARCO", "nfcorpus", "touche2020"]
PROMPTS = {"query_prompts": dict.fromkeys(NAMES, "a question: "), "corpus_prompts": "an answer: "}
#: Prefix of the evaluator's name -> its module, the class of the model, and which small model with random weights.
KINDS = {
    "": (of_rows, "SentenceTransformer", None),
    "Sparse": (of_words, "SparseEncoder", "words"),
    "MultiVector": (of_vectors, "MultiVectorEncoder", "vectors"),
    "CrossEncoder": (of_pairs, "CrossEncoder", "scores"),
}
CASES = [
    ("", {}),
    ("", PROMPTS | {"truncate_dim": 32, "aggregate_key": "most", "aggregate_fn": max}),
    ("Sparse", {}),
    ("Sparse", {"max_active_dims": 8, "batch_size": 7, "main_score_function": "dot"}),
    ("MultiVector", {"corpus_chunk_size": 20, "mrr_at_k": [5, 10]}),
    ("CrossEncoder", {}),
    ("CrossEncoder", {"rerank_k": 12, "at_k": 4, "always_rerank_positives": False}),
]


@pytest.mark.parametrize("prefix, given", CASES)
def test_metrics_and_files(prefix, given, tmp_path, real_model_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", nano_data_sets.module())
    module, name, head = KINDS[prefix]
    folders = heads.build_both(head, "bert", tmp_path) if head else (real_model_path, real_model_path)
    nano = sys.modules[getattr(module, f"{prefix}NanoBEIREvaluator")._load_dataset_subset_split.__module__]
    monkeypatch.setattr(nano, "is_datasets_available", lambda: True)
    ours, theirs = (getattr(each, f"{prefix}NanoBEIREvaluator")(NAMES, **given) for each in (evaluation, module))
    with getattr(grilly, name)(str(folders[0]), device="cpu") as model:
        models = model, getattr(sentence_transformers, name)(str(folders[1]), device="cpu")
        # Scores that are not divided by norms are up to some hundred.
        evaluated.compare(ours, theirs, models, tmp_path / "files", 3e-6 if head else evaluated.UNIT)
    assert ours.get_config_dict() == theirs.get_config_dict()
