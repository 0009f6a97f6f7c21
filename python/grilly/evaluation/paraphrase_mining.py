"""Texts of which some are known to say the same, mined for pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from grilly.closed import closed
from grilly.evaluation.evaluator import Measured
from grilly.mining import paraphrase_mining

__all__ = ["ParaphraseMiningEvaluator"]

Pairs = set[frozenset[str]]


@closed()
class ParaphraseMiningEvaluator(Measured):
    """How well the pairs with the highest similarity are those that are known to say the same.

    Metrics: `average_precision`, and the best F1 of "the score is at least the threshold", with its `precision`,
    `recall` and `threshold`.

    Args:
        sentences_map: Name of a text -> the text.
        duplicates_list: Pairs of names of texts that say the same.
        duplicates_dict: The same as name -> name -> True.
        add_transitive_closure: Whether texts say the same that are linked by pairs.
        query_chunk_size: As in `grilly.util.paraphrase_mining`, like the next three.
        corpus_chunk_size: See there.
        max_pairs: See there.
        top_k: See there.
        show_progress_bar: As in `encode`, like `batch_size` and `truncate_dim`.
        batch_size: As in `encode`.
        name: Goes in front of the metrics' names, and into the file's name.
        write_csv: Whether a call with an `output_path` appends to its file.
        truncate_dim: Dimensions kept of each row.

    Source: `sentence_transformers.evaluation.ParaphraseMiningEvaluator`, version 6.2.

    Example:
        >>> from grilly.evaluation import ParaphraseMiningEvaluator
        >>> texts = {"a": "It rains.", "b": "Rain falls.", "c": "A cat."}
        >>> model.evaluate(ParaphraseMiningEvaluator(texts, [("a", "b")]))["average_precision"]
        1.0
    """

    file_begins = "paraphrase_mining_evaluation"

    def __init__(
        self,
        sentences_map: Mapping[str, str],
        duplicates_list: Iterable[Any] | None = None,
        duplicates_dict: Mapping[str, Mapping[str, bool]] | None = None,
        add_transitive_closure: bool = False,
        query_chunk_size: int = 5000,
        corpus_chunk_size: int = 100000,
        max_pairs: int = 500000,
        top_k: int = 100,
        show_progress_bar: bool | None = False,
        batch_size: int = 16,
        name: str = "",
        write_csv: bool = True,
        truncate_dim: int | None = None,
    ) -> None:
        super().__init__(name, batch_size, show_progress_bar, write_csv)
        self.ids, self.sentences = list(sentences_map), list(sentences_map.values())
        pairs = {frozenset(pair) for pair in duplicates_list or () if sentences_map.keys() >= {*pair}}
        pairs |= {
            frozenset((a, b)) for a, others in (duplicates_dict or {}).items() for b, same in others.items() if same
        }
        if add_transitive_closure:
            pairs = linked(pairs)
        self._duplicates = {pair for pair in pairs if pair <= sentences_map.keys()}
        self.total_num_duplicates = len(self._duplicates)
        self.query_chunk_size, self.corpus_chunk_size = query_chunk_size, corpus_chunk_size
        self.max_pairs, self.top_k, self.truncate_dim = max_pairs, top_k, truncate_dim
        self.primary_metric = "average_precision"

    def _columns(self) -> list[str]:
        return ["precision", "recall", "f1", "threshold", "average_precision"]

    def _measure(self, model: Any, output_path: str | None) -> tuple[dict[str, Any], list[Any]]:
        pairs = paraphrase_mining(
            model, self.sentences, bool(self.show_progress_bar), self.batch_size, self.query_chunk_size,
            self.corpus_chunk_size, self.max_pairs, self.top_k, truncate_dim=self.truncate_dim,
        )  # fmt: skip
        metrics = dict.fromkeys(["average_precision", "f1", "precision", "recall", "threshold"], 0.0)
        correct = before = 0
        for place, (score, i, j) in enumerate(pairs):
            correct += frozenset((self.ids[int(i)], self.ids[int(j)])) in self._duplicates
            after = pairs[min(place + 1, len(pairs) - 1)][0]
            if correct == before or (after == score and place + 1 < len(pairs)):
                continue
            precision, recall = correct / (place + 1), correct / self.total_num_duplicates
            metrics["average_precision"] += precision * (correct - before) / self.total_num_duplicates
            if (f1 := 2 * precision * recall / (precision + recall)) > metrics["f1"]:
                metrics |= {"f1": f1, "precision": precision, "recall": recall, "threshold": (score + after) / 2}
            before = correct
        return metrics, [metrics[column] for column in self._columns()]


def linked(pairs: Pairs) -> Pairs:
    """All pairs of names that are linked by pairs.

    Example:
        >>> from grilly.evaluation.paraphrase_mining import linked
        >>> len(linked({frozenset("ab"), frozenset("bc"), frozenset("de")}))
        4
    """
    neighbours: dict[str, set[str]] = {}
    for pair in pairs:
        for each in pair:
            neighbours.setdefault(each, set()).update(pair)
    found: Pairs = set()
    seen: set[str] = set()
    for start in neighbours:
        group, waiting = {start}, deque([start])
        while waiting and start not in seen:
            new = neighbours[waiting.popleft()] - group
            group |= new
            waiting.extend(new)
        if start not in seen:
            seen |= group
            found |= {frozenset((a, b)) for a in group for b in group if a != b}
    return found | pairs
