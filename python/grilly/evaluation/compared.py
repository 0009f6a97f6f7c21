"""What evaluators have in common that compare rows one with one."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from grilly.evaluation.evaluator import Measured
from grilly.inputs import need_one_of
from grilly.util import FUNCTIONS, SimilarityFunction

__all__ = ["DISTANCES", "Compared"]

NAMES = ("cosine", "dot", "euclidean", "manhattan")
#: Those that are minus a distance.
DISTANCES = ("euclidean", "manhattan")


class Compared(Measured):
    """An evaluator that compares by one similarity or several: those given, or the model's."""

    similarity_names: ClassVar[tuple[str, ...]] = NAMES

    def _choose(self, names: Any, main: Any = None) -> None:
        self._main = None if main is None else SimilarityFunction(main).value
        self.similarity_fn_names = list(names or ([self._main] if self._main else []))
        for name in self.similarity_fn_names:
            need_one_of(name, self.similarity_names, "similarity_fn_names")

    def _similarities(self, model: Any) -> list[str]:
        self.similarity_fn_names = self.similarity_fn_names or [model.similarity_fn_name]
        return self.similarity_fn_names

    def _scores(self, name: str, a: Any, b: Any) -> npt.NDArray[Any]:
        return np.asarray(FUNCTIONS[name][1](a, b))

    @classmethod
    def from_input_examples(cls, examples: list[Any], **options: Any) -> Any:
        """The evaluator of the texts of `InputExample`s, with their labels last if it takes any.

        Example:
            >>> from grilly.evaluation import EmbeddingSimilarityEvaluator, InputExample
            >>> examples = [InputExample(texts=["A cat.", "A dog."], label=0.5)]
            >>> EmbeddingSimilarityEvaluator.from_input_examples(examples).scores
            [0.5]
        """
        columns: Any = map(list, zip(*(cls._example(each) for each in examples), strict=True))
        return cls(*columns, **options)

    @classmethod
    def _example(cls, example: Any) -> list[Any]:
        return [*example.texts[:2], example.label]
