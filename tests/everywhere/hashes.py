"""hashes.txt: what each version of the mode answers, as the SHA-256 of embeddings in little-endian float32.

Embeddings are as the checkpoint's modules give them. Lines are the version, the checkpoint, how many of its texts, and
the hash. A line of a published version never changes.
`python -m everywhere.hashes`, in tests/ with the real weights installed, prints the lines of the independent model and,
as the CPU computes them, of integers; `python -m everywhere.classes cpu` those of classes.py, families and classes.
"""

import hashlib
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("hashes.txt")
#: Variants of tests/models, with the texts of fixtures/variants.npz.
CHECKPOINTS = ("base", "odd_sizes", "head_64", "hidden_gelu_new", "dense_two", "bfloat16", "every_module")
#: Of integers: variants in int8, with ternary matrices and with signs, and a checkpoint of packed ternary ones. Which
#: columns of the first are balanced follows from texts, so that these hashes are the CPU's.
INTEGERS = ("base-int8", "head_64-int8", "base-w1.58a8", "base-1bit", "bitnet-matrix-float32")
FEW_INTEGERS = ("base-int8", "base-1bit")
#: all-MiniLM-L6-v2, with the texts of fixtures/texts.json: all, and the first few.
REAL, FEW = "all-MiniLM-L6-v2", 5


def of(embeddings: np.ndarray) -> str:
    assert embeddings.dtype == np.float32
    return hashlib.sha256(np.ascontiguousarray(embeddings, "<f4").tobytes()).hexdigest()


def of_model(model, ids: Iterable) -> str:
    """That of the independent model, from token ids of each text."""
    return of(np.stack([model.embed(row) for row in ids]))


def lines() -> list[str]:
    return [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]


def integer_model(name: str, device: str, place: Path):
    """One of INTEGERS, in the mode."""
    from models import ternary, variant_list, variants  # noqa: F401

    from grilly import VulkanSentenceTransformer, quant

    checkpoint, _, kind = name.rpartition("-")
    folder = (ternary if checkpoint.startswith("bitnet") else variants).build(checkpoint, place / name)
    dtype = kind if kind in ("int8", "float32") else "float32"
    model = VulkanSentenceTransformer(str(folder), device=device, dtype=dtype, numerics="everywhere")
    return model if dtype == kind else quant.convert(model, kind)


def stored(version: str, name: str, count: int) -> str:
    """The hash of a line.

    Raises:
        LookupError: No line has these words.
    """
    for line in lines():
        words = line.split()
        if words[:3] == [version, name, str(count)]:
            return words[3]
    raise LookupError(f"{TABLE.name}: no hash of {name} of {count} texts in {version}")


def main() -> None:
    from models import variant_list, variants  # noqa: F401
    from models.golden import per_text

    from .bert import Model
    from .comparison import NUMERICS

    golden, real = (np.load(TESTS / "fixtures" / f"{name}.npz") for name in ("variants", "minilm"))
    with tempfile.TemporaryDirectory() as folder:
        for name in CHECKPOINTS:
            ids = per_text(golden[f"{name}/plain/ids"])
            print(NUMERICS, name, len(ids), of_model(Model(variants.build(name, Path(folder))), ids))
        texts = [str(text) for text in golden["texts"]]
        for name in INTEGERS:
            with integer_model(name, "cpu", Path(folder)) as integers:
                rows = integers.encode(texts, normalize_embeddings=False)
            print(NUMERICS, name, len(rows), of(rows))
    model, ids = Model(Path(sys.argv[1])), per_text(real["ids"])
    for some in (ids[:FEW], ids):
        print(NUMERICS, REAL, len(some), of_model(model, some))


if __name__ == "__main__":
    main()
