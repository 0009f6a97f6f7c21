"""Cross-encoders beside sentence-transformers, and what a common beginning saves; transformers makes the models.

`python benchmarks/reranking.py pairs [--device cpu] [--pairs 1000]`: pairs of 50 and of 200 tokens, a model of MiniLM's
shape with random weights, beside the fastest of sentence-transformers' batch sizes and types, scores compared first.

`python benchmarks/reranking.py beginning [--device cpu]`: Qwen3-Reranker-0.6B's shape, 200 documents of 50 tokens for
one query of 100, beside as many pairs whose queries differ, of which nothing is shared.

A ratio is that of medians; above 1 this package, or the common beginning, is faster.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import random_model
import workloads
from measure import medians, turns

from grilly import CrossEncoder


def pairs_of(count: int, query: int, document: int, seed: int) -> list[tuple[str, str]]:
    return list(
        zip(
            workloads.texts(count, query, query, seed),
            workloads.texts(count, document, document, seed + 1),
            strict=True,
        )
    )


def with_head(folder: Path) -> Path:
    """MiniLM's shape with a head for one score."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(0)
    plain = random_model.write("minilm", folder / "plain")
    made = BertForSequenceClassification.from_pretrained(plain, num_labels=1)
    made.save_pretrained(folder / "scores")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        if (plain / name).exists():
            shutil.copy(plain / name, folder / "scores" / name)
    return folder / "scores"


def decoder(folder: Path) -> Path:
    """Qwen3-Reranker-0.6B's shape."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    plain = random_model.write("qwen3-0.6b", folder / "plain")
    sizes = random_model.SHAPES["qwen3-0.6b"]
    config = Qwen3Config(**sizes, tie_word_embeddings=True, pad_token_id=0, bos_token_id=None, eos_token_id=None)
    Qwen3ForCausalLM(config).half().save_pretrained(folder / "words")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(plain / name, folder / "words" / name)
    return folder / "words"


def pairs(given: argparse.Namespace, folder: Path) -> None:
    import torch
    from sentence_transformers import CrossEncoder as Reference

    cpu = given.device == "cpu"
    path = str(with_head(folder))
    types = {"float32": torch.float32} if cpu else {"float32": torch.float32, "float16": torch.float16}
    models: dict[str, Any] = {
        name: Reference(path, device="cpu" if cpu else "cuda", model_kwargs={"torch_dtype": of})
        for name, of in types.items()
    }
    with CrossEncoder(path, device=given.device, dtype="float32" if cpu else "float16") as ours:
        for query, document in ((10, 37), (20, 177)):
            texts = pairs_of(given.pairs, query, document, seed=5)
            expected = models["float32"].predict(texts, batch_size=64)
            difference = float(np.abs(ours.predict(texts) - expected).max())
            assert difference < (1e-4 if cpu else 1e-2), difference
            rivals = {
                f"{name}, batches of {size}": partial(model.predict, texts, batch_size=size, show_progress_bar=False)
                for name, model in models.items()
                for size in ((32, 128) if cpu else (128, 512))
            }
            seconds = medians(turns({"ours": partial(ours.predict, texts), **rivals}, given.rounds))
            best = min(rivals, key=seconds.__getitem__)
            print(
                f"{ours.device_name}: {given.pairs} pairs of {query + document + 3} tokens: ours "
                f"{1e3 * seconds['ours']:.1f} ms, sentence-transformers ({best}) {1e3 * seconds[best]:.1f} ms, "
                f"ratio {seconds[best] / seconds['ours']:.2f}, differing at most {difference:.1e}"
            )


def beginning(given: argparse.Namespace, folder: Path) -> None:
    apart = pairs_of(200, 98, 48, seed=7)
    together = [(apart[0][0], document) for _, document in apart]
    options = {"true_token": "time", "false_token": "year", "max_length": 512}
    path, dtype = str(decoder(folder)), "float32" if given.device == "cpu" else "float16"
    with CrossEncoder(path, device=given.device, dtype=dtype, **options) as model:
        alone = np.concatenate([model.predict(together[:3][place : place + 1]) for place in range(3)])
        assert np.array_equal(model.predict(together)[:3], alone), "other bits"
        seconds = medians(
            turns(
                {"one query": partial(model.predict, together), "others": partial(model.predict, apart)}, given.rounds
            )
        )
        print(
            f"{model.device_name}: 200 documents of 50 tokens after a common beginning of 100: "
            f"{1e3 * seconds['one query']:.1f} ms, without one {1e3 * seconds['others']:.1f} ms, "
            f"ratio {seconds['others'] / seconds['one query']:.2f}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("part", choices=("pairs", "beginning"))
    options.add_argument("--device", default="vulkan")
    options.add_argument("--pairs", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=9)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"pairs": pairs, "beginning": beginning}[given.part](given, Path(folder))


if __name__ == "__main__":
    main()
