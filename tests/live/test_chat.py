"""Chat templates, pairs and texts in dicts beside sentence-transformers."""

import numpy as np
import pytest
import sentence_transformers
from models import chat
from models.variants import BASE

from grilly import SentenceTransformer

TEXTS = ["A dog and a cat.", "", "  the rain #1 \n## two", "one two three " * 60, "Été 東京 'it''s' {{ x }} <|end|>"]


def compare(folder, **call):
    """Both models, text by text."""
    load = call.pop("load", {})
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu", **load)
    with SentenceTransformer(str(folder), device="cpu", **load) as ours:
        for text in call.pop("texts", TEXTS):
            features = [model.preprocess([text], **call)["input_ids"].tolist() for model in (ours, theirs)]
            assert features[0] == features[1], text
            rows = [np.asarray(model.encode([text], **call)[0], dtype=np.float64) for model in (ours, theirs)]
            assert np.abs(rows[0] - rows[1]).max() < 1e-5 * max(1.0, np.abs(rows[1]).max())


@pytest.mark.parametrize("prompt", [None, "Find: "])
@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2"])
@pytest.mark.parametrize("name", chat.TEMPLATES)
def test_bare_decoders(tmp_path, name, family, prompt):
    folder = chat.build(tmp_path, chat.TEMPLATES[name], family)
    for file in ("modules.json", "sentence_bert_config.json"):
        (folder / file).unlink(missing_ok=True)
    if name == "turns" and prompt:
        for model in (sentence_transformers.SentenceTransformer, SentenceTransformer):
            with pytest.raises(Exception, match="System role"):
                model(str(folder), device="cpu").encode("a", prompt=prompt)
        return
    compare(folder, prompt=prompt)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"message": {"format": "structured"}},
        {"processing_kwargs": {"chat_template": {"add_generation_prompt": True}}},
        {
            "processing_kwargs": {
                "chat_template": {"add_generation_prompt": True, "restore_suffix": False},
                "text": {"max_length": 9},
            }
        },
        {"processing_kwargs": {"chat_template": {"max_length": 11, "documents": [{"a": 1}]}}},
        {"max_seq_length": 12, "processor_kwargs": {"truncation_side": "left"}},
        {"max_seq_length": 12, "query_length": 7},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["marks", "roles", "parts"])
def test_listed_decoders(tmp_path, name, more):
    if name == "marks" and "message" in more:
        pytest.skip("the template adds the content to a str: neither takes parts")
    folder = chat.build(tmp_path, chat.TEMPLATES[name], more=dict(more))
    compare(folder)
    compare(folder, task="query", texts=TEXTS[:1] + TEXTS[3:4])


def test_pairs_and_dicts(tmp_path):
    for folder in (chat.build(tmp_path, chat.TEMPLATES["roles"]), BASE):
        theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        with SentenceTransformer(str(folder), device="cpu") as ours:
            for texts in ([("a dog", "the cat")], [{"text": "a dog"}, "on"], [["a dog", "one " * 70], ["on", "two"]]):
                rows = [np.asarray(model.encode(texts, prompt="two ", batch_size=1)) for model in (ours, theirs)]
                assert np.abs(rows[0] - rows[1]).max() < 1e-5 * max(1.0, np.abs(rows[1]).max())
