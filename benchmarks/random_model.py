"""Checkpoints of real shapes with random weights, for machines that no real weights reach.

`python benchmarks/random_model.py minilm FOLDER`
"""

import json
import re
import sys
from pathlib import Path

import workloads

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))
from models import families, ternary, variants  # noqa: E402

VOCABULARY = 30_522
SHAPES = {
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "bert-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "bert-large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "mpnet-base": {"vocab_size": 30_527, "max_position_embeddings": 514},
    "e5-base": {"vocab_size": 250_002, "max_position_embeddings": 514},
    "modernbert-base": {
        "vocab_size": 50_368,
        "max_position_embeddings": 8192,
        "num_hidden_layers": 22,
        "intermediate_size": 1152,
        "local_attention": 128,
    },
    "qwen3-0.6b": {
        "vocab_size": 151_669,
        "max_position_embeddings": 32_768,
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
    },
}
SHAPES["bitnet-0.6b"] = SHAPES["qwen3-0.6b"]  # and norms of its own for each product
# The tests' checkpoint that is enlarged.
FAMILIES = {
    "mpnet-base": "mpnet-matrix",
    "e5-base": "xlm-roberta",
    "modernbert-base": "modernbert",
    "qwen3-0.6b": "qwen3-matrix",
    "bitnet-0.6b": "qwen3-matrix",
}
LIMIT = 256


def spread(pieces: list[str], special: int, rows: int) -> dict[str, int]:
    """Ids for the pieces and the workloads' words over the whole embedding table, after so many special ones."""
    pieces = list(dict.fromkeys(pieces))
    step = (rows - special - 1) // len(pieces)
    numbers = [*range(special), *range(special, rows, step)]
    return dict(zip(pieces, numbers, strict=False))


def word_pieces(tokenizer: dict, special: int, rows: int) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    pieces = [piece for piece in vocabulary if piece != "<mask>"]
    numbers = spread(pieces + sorted(set(workloads.WORDS)), special, rows)
    tokenizer["model"]["vocab"] = numbers | {"<mask>": rows - 1} if "<mask>" in vocabulary else numbers


def unigram_pieces(tokenizer: dict, special: int, rows: int) -> None:
    """Each of the workloads' words is likelier than its parts together; the rows between have pieces of no text."""
    scores = dict(tokenizer["model"]["vocab"]) | {f"▁{word}": -1.0 for word in workloads.WORDS}
    mask = scores.pop("<mask>")
    vocabulary = [[f"\ue000{number}", -100.0] for number in range(rows)]
    for piece, number in spread(list(scores), special, rows).items():
        vocabulary[number] = [piece, scores[piece]]
    vocabulary[-1] = ["<mask>", mask]
    tokenizer["model"]["vocab"] = vocabulary


def enlarge(shape: str) -> dict:
    """A row of the tests' families.json in the sizes of the shape."""
    row = families.table()[FAMILIES[shape]]
    config, sizes = row["files"]["config.json"], SHAPES["bert-base"] | SHAPES[shape]
    larger = {
        times * config[key]: times * size
        for times in (3, 2, 1)  # products that are stored as one; a size of its own goes first
        for key, size in sizes.items()
        if key != "num_hidden_layers"
    }
    if "head_dim" in sizes:  # heads x their width need not be the hidden size
        heads = "num_attention_heads", "num_key_value_heads"
        larger |= {config[key] * config["head_dim"]: sizes[key] * sizes["head_dim"] for key in heads}
    tensors, stored = {}, config["num_hidden_layers"]
    for name, dimensions in row["tensors"].items():
        layer = re.search(r"\blayers?\.(\d+)\.", name)
        # The layers beyond those of the row are as its last.
        more = range(stored, sizes["num_hidden_layers"]) if layer and int(layer[1]) == stored - 1 else ()
        for number in [layer and int(layer[1]), *more]:
            renamed = name if layer is None else name[: layer.start(1)] + str(number) + name[layer.end(1) :]
            tensors[renamed] = [larger.get(size, size) for size in dimensions]
    changes = {"embedding_dimension": sizes["hidden_size"], "word_embedding_dimension": sizes["hidden_size"]}
    changes |= sizes | {"max_seq_length": LIMIT, "model_max_length": LIMIT}
    files = {
        name: {key: changes.get(key, value) for key, value in content.items()} if isinstance(content, dict) else content
        for name, content in row["files"].items()
    }
    files["config.json"].pop("layer_types", None)  # one per layer
    if shape == "bitnet-0.6b":
        tensors |= ternary.norms_of_products(tensors)
    return row | {"files": files, "tensors": tensors}


def write_relative(shape: str, folder: Path) -> Path:
    families.write(enlarge(shape), folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    if tokenizer["model"]["type"] == "BPE":  # each of the workloads' words would need its merges
        tokenizer = json.loads((variants.BASE / path.name).read_text(encoding="utf-8"))
        own = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": LIMIT}
        own |= {f"{role}_token": f"[{role.upper()}]" for role in ("cls", "mask", "pad", "sep", "unk")}
        (folder / "tokenizer_config.json").write_text(json.dumps(own), encoding="utf-8")
    fill = word_pieces if tokenizer["model"]["type"] == "WordPiece" else unigram_pieces
    rows = SHAPES[shape]["vocab_size"]
    special = 1 + max(token["id"] for token in tokenizer["added_tokens"] if token["content"] != "<mask>")
    fill(tokenizer, special, rows)
    for token in tokenizer["added_tokens"]:
        token["id"] = rows - 1 if token["content"] == "<mask>" else token["id"]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


def write(shape: str, folder: Path) -> Path:
    if shape in FAMILIES:
        return write_relative(shape, folder)
    config = json.loads((variants.BASE / "config.json").read_text()) | SHAPES[shape]
    config |= {"vocab_size": VOCABULARY, "max_position_embeddings": 512}
    checkpoint = variants.Checkpoint(
        config,
        variants.random_bert(config, seed=7),
        transformer={"max_seq_length": LIMIT, "do_lower_case": False},
        modules=[variants.pooling("mean", width=config["hidden_size"])],
    )
    checkpoint.write(folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    word_pieces(tokenizer, 5, VOCABULARY)
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


if __name__ == "__main__":
    print(write(sys.argv[1], Path(sys.argv[2])))
