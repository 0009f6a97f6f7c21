"""Tasks of MTEB made of verses: the end of a verse by its beginning, found and ranked; neighbours are alike."""

import subprocess
from functools import cache
from pathlib import Path

from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval, AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

SCRIPT = Path(__file__).parents[2] / "scripts" / "text.sh"
BOOKS = ("Ge", "Psa", "Mat", "Prv", "Rev")
SHARED = {
    "description": "Verses", "reference": "https://example.org", "dataset": {"path": "none", "revision": "none"},
    "category": "t2t", "modalities": ["text"], "eval_splits": ["test"], "eval_langs": ["eng-Latn"],
    "date": ("1611-01-01", "1611-12-31"), "domains": ["Religious"], "task_subtypes": [], "license": "not specified",
    "annotations_creators": "derived", "dialect": [], "sample_creation": "found", "bibtex_citation": "",
}  # fmt: skip


@cache
def verses(of_each: int = 60) -> list[str]:
    """The first long verses of five books, without their references."""
    text = Path(subprocess.run([SCRIPT], capture_output=True, text=True, check=True).stdout.strip())
    lines = text.read_text(encoding="utf-8").splitlines()
    rows = [line.partition(" ") for line in lines if len(line.split()) > 16]
    return [
        verse
        for book in BOOKS
        for verse in [verse for place, _, verse in rows if place.rstrip("0123456789:") == book][:of_each]
    ]


def halves() -> dict:
    """Beginnings of every third verse as queries, the ends of all as documents."""
    words = [verse.split() for verse in verses()]
    queries = [{"id": f"q{n}", "text": " ".join(row[:8])} for n, row in enumerate(words) if n % 3 == 0]
    return {
        "queries": Dataset.from_list(queries),
        "corpus": Dataset.from_list([{"id": f"d{n}", "text": " ".join(row[8:])} for n, row in enumerate(words)]),
        "relevant_docs": {query["id"]: {f"d{query['id'][1:]}": 1} for query in queries},
        "top_ranked": None,
    }


class Retrieval(AbsTaskRetrieval):
    metadata = TaskMetadata(name="VersesRetrieval", type="Retrieval", main_score="ndcg_at_10", **SHARED)

    def load_data(self, num_proc=None, **_):
        self.dataset, self.data_loaded = {"default": {"test": halves()}}, True


class Reranking(AbsTaskRetrieval):
    metadata = TaskMetadata(name="VersesReranking", type="Reranking", main_score="map_at_1000", **SHARED)

    def load_data(self, num_proc=None, **_):
        data, count = halves(), len(verses())
        data["top_ranked"] = {
            name: [f"d{(int(name[1:]) + step) % count}" for step in range(0, 30, 3)] for name in data["queries"]["id"]
        }
        self.dataset, self.data_loaded = {"default": {"test": data}}, True


class Similarity(AbsTaskSTS):
    metadata = TaskMetadata(name="VersesSimilarity", type="STS", main_score="cosine_spearman", **SHARED)

    def load_data(self, num_proc=None, **_):
        found = verses()
        pairs = [(one, found[(place * 7 + 1) % len(found)]) for place, one in enumerate(found)]
        columns = {"sentence1": [a for a, _ in pairs], "sentence2": [b for _, b in pairs]}
        shared = [len(set(a.split()) & set(b.split())) / len(set(a.split()) | set(b.split())) for a, b in pairs]
        self.dataset = {"test": Dataset.from_dict({**columns, "score": [5 * part for part in shared]})}
        self.data_loaded = True
