"""A folder as Stanford's ColBERT saves one: the projection in the checkpoint, its settings in `artifact.metadata`."""

import json
from pathlib import Path

from . import heads, safetensors_file

#: Those of its settings that say what a text becomes, and some of training, as it writes them.
METADATA = {
    "query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_token": "[Q]", "doc_token": "[D]", "dim": 24,
    "doc_maxlen": 20, "query_maxlen": 12, "mask_punctuation": True, "attend_to_mask_tokens": False,
    "interaction": "colbert", "similarity": "cosine", "bsize": 32, "lr": 3e-6, "save_every": None, "ncells": None,
    "meta": {"hostname": "x", "version": "colbert-v0.4"},
}  # fmt: skip


def build(folder: Path, name: str = "bert", **settings) -> Path:
    """Writes the checkpoint of a MultiVectorEncoder so, with other settings; None leaves the file out."""
    heads.build("vectors", name, folder)
    place = folder / name
    tensors = safetensors_file.read(place / "model.safetensors")
    prefix = json.loads((place / "config.json").read_text())["model_type"]
    stored = {f"{prefix}.{key}": tensor for key, tensor in tensors.items()}
    projection = safetensors_file.read(place / "1_Dense" / "model.safetensors")
    safetensors_file.write(place / "model.safetensors", {"linear.weight": projection["linear.weight"], **stored})
    for file in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (place / file).unlink()
    for module in list(place.glob("[1-9]_*")):
        for file in list(module.iterdir()):
            file.unlink()
        module.rmdir()
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    # The markers are words of BERT's vocabulary that no text has.
    tokenizer = json.loads((place / "tokenizer.json").read_text(encoding="utf-8"))
    words = tokenizer["model"]["vocab"]
    last = sorted(words, key=words.__getitem__)[-2:]
    for word, marker in zip(last, ("[unused0]", "[unused1]"), strict=True):
        words[marker] = words.pop(word)
    (place / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (place / "artifact.metadata").write_text(json.dumps(METADATA | settings, indent=4))
    return place
