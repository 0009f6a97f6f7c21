"""Models of modules, made by the same lines under both packages."""

import importlib

import numpy as np
import pytest
import sentence_transformers
import torch
from models import heads

import grilly

WIDTH = 384
TEXTS = ["a dog and the cat", "Rain fell on the harbour. " * 60, "", "Été 東京"]
UNIT = 2e-6

OURS = importlib.import_module("grilly.compat.sentence_transformers.models")
THEIRS = importlib.import_module("sentence_transformers.sentence_transformer.modules")
MADE = {
    "usual": lambda kinds: [kinds.Pooling(WIDTH), kinds.Normalize()],
    "older": lambda kinds: [
        kinds.Pooling(word_embedding_dimension=WIDTH, pooling_mode_mean_tokens=False, pooling_mode_cls_token=True)
    ],
    "two modes": lambda kinds: [kinds.Pooling(WIDTH, pooling_mode=("max", "mean"), include_prompt=False)],
    "dropout": lambda kinds: [kinds.Pooling(WIDTH, "mean_sqrt_len_tokens"), kinds.Dropout(0.5), kinds.Normalize()],
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("limit", [None, 20])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_embeddings(real_model_path, tmp_path, name, limit):
    given = {} if limit is None else {"max_seq_length": limit}

    def both(kinds, model, **more):
        first = kinds.Transformer(str(real_model_path), **given, **more)
        made = [first, *MADE[name](kinds)]
        settings = [module.get_config_dict() for module in made[1:]]
        return model(modules=made, device="cpu"), settings

    ours, our_settings = both(OURS, grilly.SentenceTransformer)
    theirs, their_settings = both(
        THEIRS, sentence_transformers.SentenceTransformer, model_kwargs={"dtype": torch.float32}
    )
    assert our_settings == their_settings and ours.max_seq_length == theirs.max_seq_length
    expected = theirs.encode(TEXTS, prompt="query: ")
    scale = np.abs(expected).max()
    assert np.abs(ours.encode(TEXTS, prompt="query: ") - expected).max() <= UNIT * scale
    ours.save_pretrained(tmp_path / "saved")
    again = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.abs(again.encode(TEXTS, prompt="query: ") - expected).max() <= UNIT * scale


@pytest.mark.parametrize("strategy", ["max", "sum"])
def test_weights_of_words(tmp_path, strategy):
    folder = str(heads.build("words", "bert", tmp_path))
    rows = []
    for kinds, pooling, model in (
        (OURS, importlib.import_module("grilly.compat.sentence_transformers.sparse_encoder.modules"), grilly),
        (THEIRS, importlib.import_module("sentence_transformers.sparse_encoder.modules"), sentence_transformers),
    ):
        made = [kinds.Transformer(folder, transformer_task="fill-mask"), pooling.SpladePooling(strategy)]
        encoder = model.SparseEncoder(modules=made, device="cpu")
        rows.append(np.asarray(encoder.encode(TEXTS, convert_to_sparse_tensor=False)))
    assert np.abs(rows[0] - rows[1]).max() <= UNIT * np.abs(rows[1]).max()
