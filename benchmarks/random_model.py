"""Checkpoints of real shapes with random weights, for machines that no real weights reach.

`python benchmarks/random_model.py minilm FOLDER`
"""

import json
import sys
from pathlib import Path

import workloads

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))
from models import variants  # noqa: E402

VOCABULARY = 30_522
SHAPES = {
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "bert-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "bert-large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}


def vocabulary(tokenizer: dict) -> dict[str, int]:
    """The tiny tokenizer's pieces and the workloads' words, spread over the whole embedding table."""
    pieces = list(tokenizer["model"]["vocab"]) + sorted(set(workloads.WORDS))
    pieces = list(dict.fromkeys(pieces))
    step = (VOCABULARY - 6) // len(pieces)
    return {piece: number if number < 5 else 5 + (number - 5) * step for number, piece in enumerate(pieces)}


def write(shape: str, folder: Path) -> Path:
    config = json.loads((variants.BASE / "config.json").read_text()) | SHAPES[shape]
    config |= {"vocab_size": VOCABULARY, "max_position_embeddings": 512}
    checkpoint = variants.Checkpoint(
        config,
        variants.random_bert(config, seed=7),
        transformer={"max_seq_length": 256, "do_lower_case": False},
        modules=[variants.pooling("mean", width=config["hidden_size"])],
    )
    checkpoint.write(folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"] = vocabulary(tokenizer)
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


if __name__ == "__main__":
    print(write(sys.argv[1], Path(sys.argv[2])))
