"""`python -m grilly bench`: a model on this machine's CPU beside its GPUs, in each type, after outputs agree."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import grilly
from grilly import VulkanSentenceTransformer
from grilly.commands.table import command
from grilly.errors import DeviceError, GrillyError, UnsupportedError
from grilly.tiny_checkpoints import checkpoint_of_minilm

__all__ = ["compare", "main", "texts_of", "told"]

#: Smallest cosine of a text's rows on two devices; 8-bit integers differ where a number is rounded to another one.
AGREE = {"float32": 0.9999, "float16": 0.999, "int8": 0.99}
#: Words of a text; long ones are a fraction of the short ones in number.
WORDS = {"short": 8, "long": 160}
FRACTION = {"short": 1, "long": 4}
#: Calls that are timed, and after how many seconds none begins.
CALLS, SECONDS = 5, 2.0
VOCABULARY = (
    "the and is it that has in to of on one was at for are its last no with any by before after air bank bees best "
    "bought bread brown cat central church contract dance day dog four grass hello how light limit more passport rust "
    "sea sentence seven signed six ten three through times two wet words world year"
).split()
UNNAMED = "random weights in the sizes of all-MiniLM-L6-v2"


@command("bench")
def main(given: argparse.Namespace) -> int:
    """Prints the speeds, and which device to use; returns 1 where two devices disagree.

    Example:
        >>> from grilly.commands import bench
        >>> bench.main(["no-such-folder/model"])
        1
    """
    if given.model is None:
        with tempfile.TemporaryDirectory() as folder:
            found = compare(str(checkpoint_of_minilm(folder)), given.texts) | {"model": UNNAMED}
    else:
        found = compare(given.model, given.texts)
    print(json.dumps(found, indent=2) if given.json else "\n".join(told(found)))
    return 0 if all(row.get("agrees", "failed" not in row) for row in found["rows"]) else 1


def compare(model: str, texts: int) -> dict[str, Any]:
    """Speeds of a model on the CPU and on every usable GPU, and what `device="auto"` takes.

    Args:
        model: Name or folder.
        texts: Short texts of a call; of long ones it has a quarter.

    Returns:
        A dict with `version`, `model`, `devices` by name, `texts` (their number and tokens, by length), `auto`, and
        `rows`, one per device and type: `texts_per_second` by length, `ratio` to the CPU's in the same type by length,
        `difference` from its rows, `cosine`, and `agrees`; or why there are none, `refused` for a type that the model
        or the device does not support, and `failed`.

    Example:
        >>> from grilly.commands import bench
        >>> from grilly.testing import tiny_checkpoint
        >>> import tempfile
        >>> found = bench.compare(str(tiny_checkpoint("bert", tempfile.mkdtemp())), texts=4)
        >>> found["rows"][0]["device"], found["rows"][0]["dtype"], sorted(found["texts"])
        ('cpu', 'float32', ['long', 'short'])
    """
    facts = grilly.info()
    gpus = {f"vulkan:{row['position']}": row for row in facts["devices"] if row["position"] is not None}
    cpu = facts["cpu"]
    devices = {"cpu": f"{cpu['name']}, {cpu['threads']} threads, {cpu['simd']}"}
    devices |= {name: f"{row['name']}, {row['type']}, {row['driver']}" for name, row in gpus.items()}
    given = {length: texts_of(length, texts) for length in WORDS}
    rows = [row for dtype in AGREE for row in in_type(model, dtype, list(devices), given)]
    with VulkanSentenceTransformer(model, device="auto" if gpus else "cpu") as loaded:
        reason = loaded.device_reason if gpus else facts["choice"]["reason"]
        auto = {"backend": loaded.backend, "name": loaded.device_name, "reason": reason}
        cut: dict[str, Any] = {"truncation": True, "max_length": loaded.max_seq_length}
        tokens = {length: [len(loaded.tokenizer.encode(text, **cut)) for text in own] for length, own in given.items()}
    sizes = {length: {"texts": len(own), "tokens": sum(own) / len(own)} for length, own in tokens.items()}
    return {
        "version": facts["version"], "model": model, "devices": devices, "texts": sizes, "auto": auto, "rows": rows,
    }  # fmt: skip


def in_type(model: str, dtype: str, devices: list[str], given: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """The row of each device, the CPU's first, which the others stand beside."""
    expected, speeds = None, {}
    for device in devices:
        row: dict[str, Any] = {"device": device, "dtype": dtype}
        try:
            with VulkanSentenceTransformer(model, device=device, dtype=dtype) as loaded:
                found = np.concatenate([loaded.encode(texts).astype(np.float32) for texts in given.values()])
                own = {length: rate(loaded, texts) for length, texts in given.items()}
                if loaded.backend != device.partition(":")[0]:
                    raise DeviceError(loaded.device_reason)
        except GrillyError as error:
            if dtype == "float32" and device == "cpu":  # of the model itself
                raise
            yield row | {"refused" if isinstance(error, UnsupportedError) else "failed": str(error)}
            continue
        if device == "cpu":
            expected, speeds = found, own
        elif expected is not None:
            row |= beside(found, expected, AGREE[dtype])
        if row.get("agrees"):
            row["ratio"] = {length: own[length] / speeds[length] for length in own}
        yield row | {"texts_per_second": own}


def beside(found: npt.NDArray[Any], expected: npt.NDArray[Any], least: float) -> dict[str, Any]:
    """The largest difference of unit rows from those of the CPU, and whether they agree."""
    cosine = float((found * expected).sum(axis=1).min())
    return {"difference": float(np.abs(found - expected).max()), "cosine": cosine, "agrees": cosine >= least}


def rate(model: VulkanSentenceTransformer, texts: list[str]) -> float:
    """Texts per second in the fastest of some calls, after one that is not counted."""
    model.encode(texts)
    begin, best = time.perf_counter(), float("inf")
    for _ in range(CALLS):
        start = time.perf_counter()
        model.encode(texts)
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - begin > SECONDS:
            break
    return len(texts) / best


def texts_of(length: str, count: int) -> list[str]:
    """Texts of common words, `"short"` or `"long"`, the same in every run.

    Example:
        >>> from grilly.commands.bench import texts_of
        >>> [len(texts_of(length, 64)) for length in ("short", "long")], len(texts_of("short", 1)[0].split())
        ([64, 16], 8)
    """
    drawn = random.Random(0)
    number = max(1, count // FRACTION[length])
    return [" ".join(drawn.choices(VOCABULARY, k=WORDS[length])) for _ in range(number)]


def told(found: dict[str, Any]) -> list[str]:
    """What `compare` found, as lines of text.

    Example:
        >>> from grilly.commands.bench import told
        >>> auto = {"backend": "cpu", "name": "cpu", "reason": "there is nothing else"}
        >>> sizes = {"short": {"texts": 64, "tokens": 10.0}, "long": {"texts": 16, "tokens": 162.0}}
        >>> row = {"device": "cpu", "dtype": "float32", "texts_per_second": {"short": 900.0, "long": 70.0}}
        >>> found = {"version": "2", "model": "a model", "devices": {"cpu": "a processor"}, "texts": sizes}
        >>> print("\\n".join(told(found | {"auto": auto, "rows": [row]})))
        a model, grilly 2
        cpu       a processor
        <BLANKLINE>
                            short texts         long texts
                              10 tokens         162 tokens
        float32  cpu              900/s               70/s
        <BLANKLINE>
        device="auto" takes cpu: there is nothing else
        Fastest for short texts: cpu in float32; for long texts: cpu in float32.
    """
    lengths = list(found["texts"])
    tokens = [f"{size['tokens']:.0f} tokens" for size in found["texts"].values()]
    heads = [f"{length} texts" for length in lengths], tokens
    lines = [f"{found['model']}, grilly {found['version']}"]
    lines += [f"{name:<9} {about}" for name, about in found["devices"].items()]
    lines += ["", *(f"{'':<18}" + "".join(f"{head:>13}      " for head in line).rstrip() for line in heads)]
    for row in found["rows"]:
        line = f"{row['dtype']:<8} {row['device']:<9}"
        problem = [f"{line} {kind}: {row[kind]}" for kind in ("refused", "failed") if kind in row]
        if problem:
            lines += problem
            continue
        for length in lengths:
            ratio = f" x{row['ratio'][length]:.2f}" if "ratio" in row else ""
            line += f"{row['texts_per_second'][length]:>11,.0f}/s{ratio:<6}"
        if "agrees" in row:
            verdict = "the CPU's rows" if row["agrees"] else f"NOT the CPU's rows: a cosine of {row['cosine']:.4f}"
            line += f"   {verdict}, largest difference {row['difference']:.1e}"
        lines.append(line.rstrip())
    auto = found["auto"]
    name = auto["name"] if auto["backend"] == "vulkan" else "cpu"
    lines += ["", f'device="auto" takes {name}: {auto["reason"]}']
    best = [f"for {length} texts: {fastest(found['rows'], length)}" for length in lengths]
    return [*lines, f"Fastest {'; '.join(best)}."]


def fastest(rows: list[dict[str, Any]], length: str) -> str:
    """Device and type of the highest speed among those that agree."""
    usable = [row for row in rows if "texts_per_second" in row and row.get("agrees", True)]
    if not usable:
        return "none"
    best = max(usable, key=lambda row: row["texts_per_second"][length])
    return f"{best['device']} in {best['dtype']}"
