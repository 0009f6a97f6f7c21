"""Loads a model, encodes on the device that the environment chooses, and writes what happened to a file.

`python -m models.device_run MODEL_FOLDER TEXTS.json OUTPUT.npz [--bits]`, from the tests' folder: a process of its own,
so that counts of instances and devices are whole, and so that a driver's settings hold.
"""

import json
import random
import sys
from pathlib import Path

import dispatched
import numpy as np

import grilly
import grilly.testing
from models.golden import padded


def main(folder: str, texts_path: str, output: str, *options: str) -> None:
    with open(texts_path, encoding="utf-8") as file:
        texts = json.load(file)
    model = grilly.VulkanSentenceTransformer(folder, device="vulkan")
    model.encode(texts[:1])
    before = grilly.stats()
    embeddings = model.encode(texts)
    after = grilly.stats()
    bits = other_ways(model, texts, embeddings) if "--bits" in options else {}
    record = {
        "backend": model.backend,
        "before": before,
        "after": after,
        "total": grilly.stats(),
        "info": grilly.info(),
        "validation_layer": "VkLayer_khronos_validation" in Path("/proc/self/maps").read_text(),
        "messages": grilly.testing.validation_messages(),
        "bits": bits,
    }
    ids = padded(model.tokenizer.encode(text, truncation=True) for text in texts)
    np.savez(output, embeddings=embeddings, ids=ids, record=np.array(json.dumps(record, default=str)))
    model.close()
    dispatched.save_process()


def other_ways(model: grilly.VulkanSentenceTransformer, texts: list[str], embeddings: np.ndarray) -> dict[str, bool]:
    """Whether the same texts give the same bits once more, in another order and batch size, and alone."""
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    some = order[:20]
    return {
        "again": model.encode(texts).tobytes() == embeddings.tobytes(),
        "shuffled": model.encode([texts[index] for index in order], batch_size=7).tobytes()
        == embeddings[order].tobytes(),
        "alone": np.stack([model.encode(texts[index]) for index in some]).tobytes() == embeddings[some].tobytes(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
