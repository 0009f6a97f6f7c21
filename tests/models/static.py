"""StaticEmbedding models, as sentence-transformers saves them."""

import json
from pathlib import Path

import numpy as np

from .safetensors_file import write

WORDS = ["[UNK]", "[PAD]", "a", "dog", "and", "the", "cat"]


def static(folder: Path, table: np.ndarray, *, name: str = "embedding.weight", limit: int | None = None) -> Path:
    """A folder as sentence-transformers saves it, whose tokenizer has a template that must not be used."""
    truncation = {"max_length": limit, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = {"id": 1, "content": "[PAD]", **token}
    around = {"id": "[PAD]", "ids": [1], "tokens": ["[PAD]"]}
    first = {"SpecialToken": {"id": "[PAD]", "type_id": 0}}
    tokenizer = {
        "version": "1.0",
        "truncation": truncation if limit else None,
        "padding": None,
        "added_tokens": [special],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[PAD]": around},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }
    modules = [
        {"idx": 0, "name": "0", "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    (folder / "0_StaticEmbedding").mkdir(parents=True)
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "0_StaticEmbedding" / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    write(folder / "0_StaticEmbedding" / "model.safetensors", {name: table}, None)
    return folder
