"""Every family and class of models in numerics="everywhere": their checkpoints, and what they answer of 20 texts.

`python -m everywhere.classes DEVICE [NAME ...]`, in tests/, prints the lines of hashes.txt that a device gives, of all
rows or of those whose names begin with one of these, and what is refused. It fails where a line is another.
"""

import gzip
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from models import families, heads, routers, ternary
from models.static import WORDS, static

import grilly
from grilly import scores as activations
from grilly import testing, tiny_checkpoints
from grilly.errors import UnsupportedError

from . import hashes
from .comparison import NUMERICS

FIXTURES = families.FIXTURES
TEXTS = json.loads((FIXTURES / "texts.json").read_text(encoding="utf-8"))
#: Twenty texts, some of them longer than a block of attention.
CHOSEN = [0, 26, 30, 188, 196, *range(5, 155, 10)]
FAMILIES = sorted(json.loads(gzip.decompress(tiny_checkpoints.TABLE.read_bytes()))["families"])

Answer = Callable[[object, Sequence[int]], list[np.ndarray]]


@dataclass(frozen=True)
class Row:
    """A checkpoint, the class that reads it, and its answer to texts, one array or more for each."""

    build: Callable[[Path], Path]
    of: type
    answer: Answer


def embeddings(model, places: Sequence[int], **options) -> list[np.ndarray]:
    return list(model.encode([TEXTS[place] for place in places], normalize_embeddings=False, **options))


def tokens(model, places: Sequence[int], **options) -> list[np.ndarray]:
    return embeddings(model, places, output_value="token_embeddings", **options)


def states(model, places: Sequence[int], **options) -> list[np.ndarray]:
    return model.decode_states([TEXTS[i] for i in places], [TEXTS[i + 1] for i in places], **options)


def scores(model, places: Sequence[int], **options) -> list[np.ndarray]:
    """Logits, and what the model's own activation makes of them."""
    pairs = [(TEXTS[i], TEXTS[i + 1]) for i in places]
    raw = model.predict(pairs, activation_fn=activations.identity, **options)
    return [np.stack([np.ravel(a), np.ravel(b)]) for a, b in zip(raw, model.predict(pairs, **options), strict=True)]


def words(model, places: Sequence[int], **options) -> list[np.ndarray]:
    return list(model.encode([TEXTS[i] for i in places], convert_to_sparse_tensor=False, **options))


def tiny(name: str, place: Path) -> Path:
    return testing.tiny_checkpoint(name, place / f"tiny-{name}")


def table() -> dict[str, Row]:
    """By name: `family:` and `tokens:` of `testing.tiny_checkpoint`, then what the fixtures have beside them."""
    sentences = grilly.VulkanSentenceTransformer
    found: dict[str, Row] = {}
    for name in FAMILIES:
        found[f"family:{name}"] = Row(partial(tiny, name), sentences, embeddings)
        found[f"tokens:{name}"] = Row(partial(tiny, name), sentences, tokens)
    for name, row in families.table().items():
        build = partial(families.build, name)
        found[f"fixture:{name}"] = Row(build, sentences, embeddings)
        if families.decodes(name):
            found[f"states:{name}"] = Row(build, sentences, states)
        for task in row.get("tasks", []):
            found[f"task:{name}:{task}"] = Row(build, sentences, partial(embeddings, task=task))
    for name, row in routers.table().items():
        for task in row["tasks"]:
            build = partial(routers.build, name)
            found[f"router:{name}:{task}"] = Row(build, sentences, partial(embeddings, task=task))
    for name in ternary.ROWS:
        found[f"ternary:{name}"] = Row(partial(ternary.build, name), sentences, embeddings)
    for kind, of, answer in (("scores", grilly.CrossEncoder, scores), ("words", grilly.SparseEncoder, words)):
        for name in heads.table()[kind]:
            found[f"{kind}:{name}"] = Row(partial(heads.build, kind, name), of, answer)
    numbers = np.random.RandomState(5).standard_normal((len(WORDS), 20)).astype(np.float32)
    found["static"] = Row(lambda place: static(place / "static", numbers), sentences, embeddings)
    return found


def opened(row: Row, folder: Path, device: str, **options):
    """The model, in float32 whatever its checkpoint is stored in.

    Raises:
        UnsupportedError: The mode refuses it.
    """
    options |= {"model_kwargs": {"dtype": "float32"}, "numerics": "everywhere"}
    model = row.of(str(folder), device=device, **options)
    assert model.backend == device.partition(":")[0] and model.numerics == NUMERICS
    return model


def hash_of(arrays: Iterable[np.ndarray]) -> str:
    """SHA-256 of all their numbers, one array after another."""
    return hashes.of(np.concatenate([np.ravel(array) for array in arrays]))


def line(name: str, digest: str) -> str:
    return f"{NUMERICS} {name} {len(CHOSEN)} {digest}"


def check_ways(row: Row, model, expected: list[np.ndarray], few: int = 5) -> None:
    """The same bits in another order and in batches of 3, and some texts alone."""
    order = random.Random(3).sample(range(len(CHOSEN)), len(CHOSEN))
    shuffled = row.answer(model, [CHOSEN[i] for i in order], batch_size=3)
    assert hash_of(shuffled) == hash_of(expected[i] for i in order), "in another order"
    alone = [row.answer(model, [CHOSEN[i]])[0] for i in range(few)]
    assert hash_of(alone) == hash_of(expected[:few]), "alone"


def main(device: str, *names: str) -> int:
    """How many rows have another hash than the table's."""
    other = 0
    with tempfile.TemporaryDirectory() as place:
        for number, (name, row) in enumerate(table().items()):
            if names and not name.startswith(names):
                continue
            try:
                with opened(row, row.build(Path(place) / str(number)), device) as model:
                    found = line(name, hash_of(row.answer(model, CHOSEN)))
            except UnsupportedError as error:
                print(f"# {name} is refused: {error}", flush=True)
                continue
            print(found, flush=True)
            other += found not in hashes.lines()
    return other


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) and 1)
