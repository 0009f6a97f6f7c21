"""Time that grows with the layers, not with their square."""

import time

import numpy as np

from grilly.program import Graph
from grilly.train import Trainer, TransformerConfig


def grows_linearly(work, few: int) -> None:
    """Four times the layers take far less than sixteen times the time of this process; the first call makes threads."""
    work(few)
    seconds = []
    for layers in (few, 4 * few):
        start = time.process_time()
        work(layers)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 9 * seconds[0] + 0.1, seconds


def test_a_model_in_training():
    grows_linearly(lambda layers: Trainer(TransformerConfig(256, 4, layers, 1, 4, 4), device="cpu", batch_size=1), 150)


def test_checkpoints_of_gradients():
    config = {"device": "cpu", "batch_size": 1, "gradient_checkpointing": True}
    grows_linearly(lambda layers: Trainer(TransformerConfig(256, 4, layers, 1, 4, 4), **config), 100)


def test_a_chain_with_its_gradients():
    def work(length: int) -> None:
        graph = Graph()
        x = y = graph.state("x", np.ones((2, 4), np.float32))
        for _ in range(length):
            y = graph.call("activation", y, kind="silu")
        graph.program([y, *graph.gradients(y, graph.filled(1.0, (2, 4)), [x])], "cpu")

    grows_linearly(work, 2000)
