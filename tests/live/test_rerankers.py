"""Decoders as cross-encoders beside sentence-transformers, and beside transformers as published rerankers use it."""

import json

import numpy as np
import pytest
import torch
from fixtures.listed_heads import ROLES
from models import families
from models.spoil import change_json
from sentence_transformers import CrossEncoder as Theirs
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoModelForCausalLM, AutoTokenizer

from grilly import CrossEncoder
from grilly.scores import identity

QUERIES = ["a dog", "one two three four", "where is the cat and the dog"]
DOCUMENTS = ["the cat and a dog", "rain", "one two three " * 9, "", "Été 東京 <|end|>", "one two " * 120]
PAIRS = [(query, document) for query in QUERIES for document in DOCUMENTS]
#: A prefix, the instruction, the query, the document, a suffix, as Qwen3-Reranker's page has them.
PREFIX = '<|im_start|>system\nAnswer "yes" or "no".<|im_end|>\n<|im_start|>user\n'
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
ROLE = "messages | selectattr('role', 'eq', '{}') | map(attribute='content') | first"
BODY = "\n".join(f"<{name}>: {{{{ {ROLE.format(role)} }}}}" for name, role in {
    "Instruct": "system", "Query": "query", "Document": "document",
}.items())  # fmt: skip
LIMIT = 150
FLOAT32 = {"dtype": torch.float32}
#: Jinja drops a newline at the end of a template.
PUBLISHED = f"{PREFIX}{BODY}{{{{ {json.dumps(SUFFIX)} }}}}"


def near(ours, theirs) -> None:
    left, right = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert left.shape == right.shape and np.abs(left - right).max() <= 1e-5 * max(1.0, np.abs(right).max())


def theirs_of(folder, words, template) -> Theirs:
    given = {"processor_kwargs": {"chat_template": template}} if template else {}
    first = Transformer(str(folder), transformer_task="text-generation", model_kwargs=FLOAT32, **given)
    return Theirs(modules=[first, LogitScore(*words)], device="cpu")


@pytest.mark.parametrize("words", [("one", "Ġthe"), ("one",)])
@pytest.mark.parametrize("template", [ROLES, None])
@pytest.mark.parametrize("family", ["llama", "qwen2-matrix", "qwen3", "gemma2", "mistral"])
def test_folders_without_modules(tmp_path, family, template, words, device):
    """Without a template only pairs of some tokens; of Gemma 2 one pair at a time (`families.batch_size`)."""
    folder = families.build(family, tmp_path)
    (folder / "modules.json").unlink(missing_ok=True)
    change_json(folder / "config.json", architectures=["AnyForCausalLM"], tie_word_embeddings=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    theirs = theirs_of(folder, tokenizer.convert_tokens_to_ids(list(words)), template)
    given = {"processor_kwargs": {"chat_template": template}} if template else {}
    named = dict(zip(("true_token", "false_token"), words, strict=False))
    with CrossEncoder(folder, device=device, dtype="float32", **given, **named) as ours:
        pairs = PAIRS if device == "cpu" else PAIRS[::5]
        size = 1 if family == "gemma2" else 8
        near(
            ours.predict(pairs, activation_fn=identity),
            theirs.predict(pairs, activation_fn=torch.nn.Identity(), batch_size=size),
        )
        near(ours.predict(pairs), theirs.predict(pairs, batch_size=size))
        if template:
            prompt = {"prompt": "Find what answers."}
            near(ours.predict(pairs, **prompt), theirs.predict(pairs, batch_size=size, **prompt))
        for pair in pairs:
            ids = theirs.preprocess([list(pair)])["input_ids"][0].tolist()
            assert ours._core.tokenize_pairs([pair[0]], [pair[1]])[0][0] == ids


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_published_usage(tmp_path, family):
    """Qwen3-Reranker's page: prefix and suffix by hand, the share of "yes" in the softmax of two logits."""
    folder = families.build(family, tmp_path)
    (folder / "modules.json").unlink(missing_ok=True)
    change_json(folder / "config.json", architectures=["AnyForCausalLM"], tie_word_embeddings=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    yes, no = tokenizer.convert_tokens_to_ids(["one", "Ġthe"])
    pairs, expected = [], []
    for query, document in PAIRS:
        text = f"{PREFIX}<Instruct>: Find.\n<Query>: {query}\n<Document>: {document}{SUFFIX}"
        tokens = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        if tokens["input_ids"].shape[1] > LIMIT:
            continue
        with torch.no_grad():
            row = model(**tokens).logits[0, -1]
        pairs.append((query, document))
        expected.append(torch.stack([row[no], row[yes]]).log_softmax(0)[1].exp().item())
    assert len(pairs) > 5
    arguments = {"true_token": "one", "false_token": "Ġthe", "processor_kwargs": {"chat_template": PUBLISHED}}
    with CrossEncoder(folder, device="cpu", dtype="float32", max_length=LIMIT, **arguments) as ours:
        near(ours.predict(pairs, prompt="Find."), expected)
