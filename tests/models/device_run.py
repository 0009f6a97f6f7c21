"""Loads a small model, encodes on the device that the environment chooses, and writes what happened to a file.

`python -m models.device_run MODEL_FOLDER TEXTS.json OUTPUT.npz`, from the tests' folder: a process of its own, so that
counts of instances and devices are whole, and so that a driver's settings hold.
"""

import json
import random
import sys

import numpy as np

import grilly
import grilly.testing


def main(folder: str, texts_path: str, output: str) -> None:
    with open(texts_path, encoding="utf-8") as file:
        texts = json.load(file)
    model = grilly.VulkanSentenceTransformer(folder, device="vulkan")
    some = texts[:: max(1, len(texts) // 20)]
    model.encode(some[:1])
    before = grilly.stats()
    embeddings = model.encode(texts)
    after = grilly.stats()

    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    shuffled = np.empty_like(embeddings)
    shuffled[order] = model.encode([texts[index] for index in order], batch_size=7)
    np.savez(
        output,
        embeddings=embeddings,
        again=model.encode(texts),
        shuffled=shuffled,
        some=embeddings[:: max(1, len(texts) // 20)],
        alone=np.stack([model.encode(text) for text in some]),
        tokens=np.array([len(model.tokenizer.encode(text)) for text in texts]),
        record=np.array(
            json.dumps(
                {
                    "backend": model.backend,
                    "before": before,
                    "after": after,
                    "total": grilly.stats(),
                    "info": grilly.info(),
                    "messages": grilly.testing.validation_messages(),
                },
                default=str,
            )
        ),
    )
    model.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
