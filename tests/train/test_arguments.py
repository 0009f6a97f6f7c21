"""Arguments of training that do not fit: errors of this package that name them."""

import pytest

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.program import Graph
from grilly.train import Trainer
from train.test_training import BYTES


def test_texts_tokens_and_counts_that_do_not_fit_are_named(tmp_path):
    trainer = Trainer(BYTES, device="cpu", batch_size=2)
    graph = Graph()
    y = graph.call("activation", graph.input("x", ("T",)), kind="relu")
    counts = r" is {}, expected a number from 0 to 2\^63 - 1"
    for call, error, problem in [
        (lambda: Trainer(BYTES, "a\udc80", tmp_path, device="cpu"), InvalidArgumentError, "a lone surrogate .* at 1;"),
        (lambda: trainer.encode("\ud800"), InvalidArgumentError, "the text holds a lone surrogate"),
        (lambda: trainer.step([[1, 2, 3], [1]]), InvalidArgumentError, "tokens has rows of unequal lengths"),
        (lambda: trainer.evaluate([[1], [1, 2]]), InvalidArgumentError, "tokens has rows of unequal lengths"),
        (lambda: trainer.step([[2**70, 1], [1, 1]]), InvalidArgumentError, "tokens has "),
        (lambda: trainer.generate([1], -1), InvalidArgumentError, "count" + counts.format("-1")),
        (lambda: trainer.generate([1], 2**64), InvalidArgumentError, "count" + counts.format(2**64)),
        (lambda: trainer.generate([1], 1.5), InvalidTypeError, "count is of type float, expected int"),
        (lambda: Trainer.resume("a", tmp_path, steps=-3), InvalidArgumentError, "steps" + counts.format("-3")),
        (
            lambda: graph.program([y], "cpu", {"T": 2**64}),
            InvalidArgumentError,
            r"counts\['T'\]" + counts.format(2**64),
        ),
    ]:
        with pytest.raises(error, match=problem):
            call()
    assert trainer.generate([1], 0) == []
