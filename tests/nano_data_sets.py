"""A stand-in for the package datasets: NanoBEIR's subsets in small, of made-up sentences."""

import itertools
import random
import types
from importlib.machinery import ModuleSpec

WHO = ["A cat", "A kitten", "The dog", "A train", "The chef", "Our neighbour", "My aunt", "A sailor"]
DOES = ["eats", "chews on", "looks at", "passes", "paints", "sells"]
WHAT = ["the bread", "a fence", "the station", "some soup", "rye bread", "a grey house", "the boat"]


class Rows(list):
    """What of `datasets.Dataset` evaluators use: rows, columns by name, and `map`."""

    @property
    def column_names(self):
        return list(self[0])

    def __getitem__(self, place):
        return [row[place] for row in self] if isinstance(place, str) else super().__getitem__(place)

    def map(self, function, fn_kwargs):
        return Rows({**row, **function(row, **fn_kwargs)} for row in self)


def load_dataset(path, subset, split):
    """Of each split other sentences: a query's relevant documents have its last word."""
    draw = random.Random(split)
    texts = draw.sample([f"{who} {does} {what}." for who, does, what in itertools.product(WHO, DOES, WHAT)], 60)
    count = 5 + len(split) % 4
    queries = {f"q{place}": text for place, text in enumerate(texts[:count])}
    corpus = {f"d{place}": text for place, text in enumerate(texts[count:])}
    same = {
        query: [name for name, other in corpus.items() if other.split()[-1] == text.split()[-1]]
        for query, text in queries.items()
    }
    if subset in ("queries", "corpus"):
        named = queries if subset == "queries" else corpus | {"blank": ""}
        return Rows({"_id": name, "text": text} for name, text in named.items())
    if subset == "qrels":
        first = next(iter(same))
        rows = [{"query-id": query, "corpus-id": name} for query in same if query != first for name in same[query]]
        return Rows([{"query-id": first, "corpus-id": same[first]}, *rows])
    if subset == "bm25":
        return Rows({"query-id": query, "corpus-ids": draw.sample(list(corpus), 30)} for query in queries)
    raise ValueError(f"no subset {subset}")


def module():
    """The module `datasets`."""
    made = types.ModuleType("datasets")
    made.__spec__, made.load_dataset = ModuleSpec("datasets", None), load_dataset
    return made
