"""A small model of BGE-M3's form: an XLM-RoBERTa that pools its first token, with products beside its checkpoint."""

from pathlib import Path

import numpy as np

from . import families, torch_file
from .families import draw

COLUMNS = 24
HIDDEN = 36
VECTORS, WEIGHTS = "colbert_linear.pt", "sparse_linear.pt"


def products(columns: int = COLUMNS) -> dict[str, dict[str, np.ndarray]]:
    """The tensors of both files."""
    return {
        file: {
            "weight": draw(f"{file} weight", (rows, HIDDEN)),
            "bias": draw(f"{file} bias", (rows,)),
        }
        for file, rows in ((VECTORS, columns), (WEIGHTS, 1))
    }


def build(folder: Path, columns: int = COLUMNS, dtype: str = "F32", listed: bool = True) -> Path:
    """Writes the folder; without `listed` as FlagEmbedding saves a fine-tuned one, without modules.json."""
    fixture = families.table()["xlm-roberta"]
    files = dict(fixture["files"])
    files["1_Pooling/config.json"] = {"embedding_dimension": HIDDEN, "pooling_mode": "cls", "include_prompt": True}
    # Like the published one, from a version that did not name the class.
    files["config_sentence_transformers.json"] = {"__version__": {"sentence_transformers": "2.2.2"}}
    if not listed:
        files = {name: files[name] for name in ("config.json", "tokenizer_config.json")}
    families.write(fixture | {"files": files}, folder)
    for file, tensors in products(columns).items():
        torch_file.write(folder / file, tensors, dtype)
    return folder


def expected(rows: np.ndarray, ids: list[int], unused: set[int], columns: int = COLUMNS):
    """Dense vector, weights and vectors of a text, in float64, of its last hidden states `(T, H)`."""
    own = {file: {name: array.astype(np.float64) for name, array in t.items()} for file, t in products(columns).items()}
    states = rows.astype(np.float64)
    dense = states[0] / np.linalg.norm(states[0])
    weights = np.maximum(states @ own[WEIGHTS]["weight"][0] + own[WEIGHTS]["bias"][0], 0)
    best: dict[int, float] = {}
    for number, weight in zip(ids, weights, strict=True):
        if number not in unused and weight > 0:
            best[number] = max(weight, best.get(number, 0.0))
    vectors = states[1:] @ own[VECTORS]["weight"].T + own[VECTORS]["bias"]
    return dense, best, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
