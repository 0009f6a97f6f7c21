"""Tiny checkpoints of the architectures beside BERT, written by NumPy in the libraries' own format.

`fixtures/families.json` holds what transformers and sentence-transformers wrote for each: every JSON file, and the name
and shape of every tensor. The numbers are those of `grilly.testing.tiny_checkpoint`.
`fixtures/tokenizers` holds each tokenizer.json as it was written, without the map of characters that two of them share.
"""

import base64
import itertools
import json
import runpy
from pathlib import Path

import numpy as np

from . import safetensors_file

FIXTURES = Path(__file__).parent.parent / "fixtures"
TABLE = FIXTURES / "families.json"
TOKENIZERS = FIXTURES / "tokenizers"
CHARACTER_MAP = TOKENIZERS / "nmt_nfkc.bin"  # sentencepiece's, 240 KB
MAP_PLACE = "the bytes of nmt_nfkc.bin in base64"
# Of this tree, whichever build is installed: hashes of older ones are compared.
draw = runpy.run_path(str(FIXTURES.parents[1] / "python" / "grilly" / "drawn.py"))["draw"]


def table() -> dict[str, dict]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def batch_size(name: str) -> int | None:
    """Texts of a batch of the reference's, where it lets a text's numbers depend on the others of its batch.

    In float64 Gemma 2's padding tokens beyond the window are NaN, and so are then the texts that they follow.
    MobileBERT's last word has the padding token after it for a neighbour; ConvBERT's convolutions read the padding
    behind a text.
    """
    config = table()[name]["files"]["config.json"]
    by_length = (config.get("rope_parameters") or {}).get("rope_type") == "longrope"
    return 1 if by_length or config["model_type"] in ("convbert", "gemma2", "mobilebert") else None


def whole_type(model, folder: Path, dtype):
    """The reference's model with all tensors in a type: of this family it reads some in float32, and then fails."""
    model_type = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    return model.to(dtype) if model_type == "deberta" else model


def options(name: str, dtype) -> dict:
    """What the reference is loaded with: its products of experts have no other form in float64."""
    own = {"experts_implementation": "eager"} if "routes" in table()[name] else {}
    return {"dtype": dtype} | own


def decodes(name: str) -> bool:
    """Whether the checkpoint holds a decoder."""
    return any(tensor.startswith("decoder.block.") for tensor in table()[name]["tensors"])


def routes(used: int, top_k: int) -> list[tuple[int, ...]]:
    """The experts of words, by id modulo their number."""
    return list(itertools.combinations(range(used), top_k))


def route(tensors: dict[str, np.ndarray], experts: int, used: int, top_k: int) -> None:
    """Makes the scores of a word's experts so much larger than those of others that rounding changes no route.

    The hidden state has a column for each expert, which is large for its words: nothing adds to these columns, and the
    routers, or the units of their cells, read them. Between numbers at random near ties are so many that some would be
    routed otherwise in 16 bits.
    """
    own, chosen = slice(0, experts), routes(used, top_k)
    liquid = any("router.cell" in name for name in tensors)
    for name, array in tensors.items():
        if any(table in name for table in ("word_embeddings", "embed_tokens")):
            array[:, own] = -2
            for word, columns in enumerate(array):
                columns[list(chosen[word % len(chosen)])] = 2
        elif name.endswith("cell.input.weight"):
            array *= 0.15
            array[:, own] = np.eye(len(array), experts)
        elif name.endswith(("cell.rate", "cell.target")):
            array[:] = (0.3 if name.endswith("rate") else 1) + abs(array)
        elif name.endswith(("mlp.gate.weight", "moe.gate.weight")):
            array *= 0.15
            array[:, own] = np.eye(experts)
        elif name.endswith("router.layer.weight"):
            array *= 0.15
            array[:, own] = (6 if liquid else 0.5) * np.eye(experts)
        elif "norm" in name or "emb_ln" in name:
            array[own] = 1.7 if name.endswith("weight") else 0
        elif "token_type_embeddings" in name or name.endswith("experts.mlp.w2"):
            array[:, own] = 0
        elif name.rpartition(".")[0].endswith(("out_proj", "o_proj", "fc2", "down_proj", "w2", "experts")):
            array[own] = 0


def write_tokenizer(name: str, folder: Path) -> None:
    """Writes the tokenizer.json of a family."""
    text = (TOKENIZERS / f"{name}.json").read_text(encoding="utf-8")
    if MAP_PLACE in text:
        text = text.replace(MAP_PLACE, base64.b64encode(CHARACTER_MAP.read_bytes()).decode())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")


def write(fixture: dict, folder: Path) -> Path:
    """Writes one row of the table as a model folder."""
    for part, tokenizer in fixture.get("tokenizers", {"": fixture.get("tokenizer")}).items():
        write_tokenizer(tokenizer, folder / part)
    for name, content in fixture["files"].items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
    if own := fixture.get("own_module"):
        first, *others = fixture["files"]["modules.json"]
        (folder / "modules.json").write_text(json.dumps([first | own, *others], indent=2), encoding="utf-8")
    root = {"": fixture["tensors"]} if "tensors" in fixture else {}
    for part, shapes in (root | fixture.get("parts", {})).items():
        tensors = {name: draw(f"{part}{name}", shape) for name, shape in shapes.items()}
        if "routes" in fixture:
            route(tensors, **fixture["routes"])
        safetensors_file.write(folder / part / "model.safetensors", tensors, fixture["stored"])
    return folder


def build(name: str, folder: Path) -> Path:
    """Writes the checkpoint `name` into `folder/name` and returns that path."""
    return write(table()[name], folder / name)


def build_for_reference(name: str, folder: Path) -> Path:
    """Writes `folder/name` for transformers: with its own configuration where it cannot read that of the fixture."""
    fixture = table()[name]
    config = fixture.get("reference_config", fixture["files"]["config.json"])
    return write(fixture | {"files": fixture["files"] | {"config.json": config}, "own_module": None}, folder / name)
