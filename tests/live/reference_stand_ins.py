"""What stands in for models, data sets, downloads and the keyboard where sentence-transformers' own scripts run."""

import contextlib
import gzip
import itertools
import json
import lzma
import random
import re
import sys
from pathlib import Path
from typing import Any

ROWS = 60
SUBJECTS = (
    "the river", "a bicycle", "the violin", "a bakery", "the telescope", "a tax return",
    "the marathon", "a vaccine", "the chess opening", "a solar panel", "the volcano", "a passport",
)  # fmt: skip
QUESTIONS = (
    "How does {} work?", "What is the best way to learn about {}?", "Why is {} important?",
    "Who was the first to describe {}?", "How can I explain how {} works?",
)  # fmt: skip
ANSWERS = (
    "{} works in a way that is easy to see.", "Read a book about {} and practise each day.",
    "Many people depend on {} for their living.", "{} was described first in an old letter.",
    "Begin with a picture of {}, then go on to its parts.",
)  # fmt: skip
#: Columns by a pattern of a data set's name and subset; the first that is found counts.
COLUMNS = {
    r"quora-duplicates pair-class": "sentence1 sentence2 label",
    r"all-nli pair-class": "premise hypothesis label",
    r"stsb|sts17|stsbenchmark|pair-score": "sentence1 sentence2 score",
    r"triplet|hotpotqa": "anchor positive negative query",
    r"quora-duplicates|all-nli|pair": "anchor positive",
    r"natural-questions": "query answer",
    r"gooaq|nq_open": "question answer",
    r"ms_marco": "query passages",
    r"parallel-sentences|tatoeba|opus": "english non_english",
    r"yahoo": "question_title question_content best_answer topic",
    r"askubuntu": "query positives negatives positive negative",
    r"bm25": "query-id corpus-ids",
    r"qrels|mteb/msmarco default": "query-id corpus-id score",
    r"corpus$": "_id title text passage_id passage",
    r"queries$": "_id text query_id query",
    r"xnli|imdb|news": "text label",
}  # fmt: skip
#: Names that a page takes for granted: of the rows of a corpus, or texts.
GIVEN = {"computing": "inputs", "semantic-search/README": "corpus_embeddings query_embeddings",
         "multi_vector_encoder/usage/custom": "queries"}  # fmt: skip
#: Models that have prompts, by a pattern of their names.
PROMPTED = r"mxbai|prompts|nomic|e5-|splade|instruct"
PROMPTS = {"query": "query: ", "document": "document: "}
#: The class whose folder a Transformer of a task loads.
TASKS = {"feature-extraction": None, "fill-mask": "SparseEncoder", "sequence-classification": "CrossEncoder"}
#: What is typed; then the end of the input ends the script.
QUERIES = ("How does a bicycle work?", "Who described the volcano?")


def texts(frames: tuple[str, ...], shift: int = 0) -> list[str]:
    """Made-up sentences, one a row."""
    made = [frame.format(subject) for frame in frames for subject in SUBJECTS]
    return [made[(row + shift) % len(made)] for row in range(ROWS)]


def column(name: str) -> list[Any]:
    """The values of a column, which its name says."""
    places = range(ROWS)
    if name in ("query-id", "query_id"):
        return [f"q{row}" for row in places]
    if name in ("corpus-id", "_id", "passage_id"):
        return [f"q{row}" if name == "_id" else f"d{row}" for row in places]
    if name == "corpus-ids":
        return [[f"q{(row + step) % ROWS}" for step in range(20)] for row in places]
    if name in ("label", "topic"):
        return [row % 2 for row in places]
    if name == "score":
        return [row * 7 % 11 / 10 for row in places]
    if name == "passages":
        right, wrong = texts(ANSWERS), texts(ANSWERS, 7)
        return [{"is_selected": [1, 0], "passage_text": [right[row], wrong[row]]} for row in places]
    if name in ("positives", "negatives"):
        return [[text] for text in texts(ANSWERS, 0 if name == "positives" else 7)]
    if name in ("query", "anchor", "sentence1", "question", "premise", "english", "title", "question_title"):
        return texts(QUESTIONS)
    return texts(ANSWERS, 7 if name == "negative" else 0)


def given(name: str) -> dict[str, Any]:
    """What the page of this name takes for granted."""
    wanted = " ".join(names for pattern, names in GIVEN.items() if pattern in name).split()
    values: dict[str, Any] = {"inputs": texts(ANSWERS), "queries": list(QUERIES)}
    if "corpus_embeddings" in wanted:
        import torch

        rows = torch.randn(ROWS, 384, generator=torch.Generator().manual_seed(0))
        values |= {"corpus_embeddings": rows, "query_embeddings": rows[:3] + 0.1}
    return {each: values[each] for each in wanted}


def load_dataset(path: str, name: str | None = None, *, split: str | None = None, **options: Any) -> Any:
    """A small `datasets.Dataset` with the columns that the scripts ask for."""
    import datasets

    if path in ("json", "csv"):
        return loaded_by_datasets(path, name, split=split, **options)
    place = f"{path} {name or ''}".strip()
    found = next((names for pattern, names in COLUMNS.items() if re.search(pattern, place)), "query answer")
    columns = {each: column(each) for each in found.split()}
    if "corpus-id" in columns:
        columns["score"] = [1 + row % 2 for row in range(ROWS)]
        if re.search("beir|nano", place, re.IGNORECASE):
            columns["corpus-id"] = column("_id")
    made = datasets.Dataset.from_dict(columns)
    if split is None:
        return datasets.DatasetDict({part: made for part in ("train", "dev", "validation", "test")})
    if slices := re.search(r"\[(-?\d*):(-?\d*)\]", split):
        start, stop = (int(each) if each else None for each in slices.groups())
        made = made.select(range(*slice(start, stop).indices(ROWS)))
    return made.to_iterable_dataset() if options.get("streaming") else made


def http_get(url: str, path: str) -> None:
    """Writes a small file of the kind that the address names."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    answers = texts(ANSWERS)
    if url.endswith(".pt"):
        import torch

        torch.save(torch.randn(ROWS, 384, generator=torch.Generator().manual_seed(0)), path)
    elif url.endswith(".json"):
        keys = {"title": texts(QUESTIONS), "abstract": answers, "url": answers, "venue": answers}
        rows = [{key: values[row] for key, values in keys.items()} | {"year": 2016} for row in range(ROWS)]
        target.write_text(json.dumps(rows), encoding="utf-8")
    elif url.endswith(".jsonl.gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            for title, text in zip(texts(QUESTIONS), answers, strict=True):
                paragraph = f"{text} {text} {text}" if "programm" in url else text  # a script leaves short ones out
                file.write(json.dumps({"title": title, "paragraphs": [paragraph], "text": text}) + "\n")
    elif url.endswith(".tsv.gz"):  # candidates: query, passage and their ids
        with gzip.open(path, "wt", encoding="utf-8") as file:
            for row, question in enumerate(texts(QUESTIONS)):
                places = [(row + step) % ROWS for step in range(5)]
                file.write("".join(f"q{row}\td{place}\t{question}\t{answers[place]}\n" for place in places))
    else:
        rows = zip(itertools.count(), texts(QUESTIONS), answers, strict=False)
        target.write_text("".join(f"{row}\t{question}\t{answer}\n" for row, question, answer in rows), encoding="utf-8")


class Clock:
    """`time` for scripts: each call is a second later, so that what they print does not depend on the machine."""

    def __init__(self) -> None:
        self.now = 0

    def time(self) -> int:
        self.now += 1
        return self.now

    perf_counter = monotonic = time

    def sleep(self, seconds: float) -> None:
        pass


def named(kind: type, folders: dict[str, str]) -> None:
    """Makes names of models stand for the folder of the model's class."""
    made = kind.__init__

    def __init__(self, name: Any = None, *arguments: Any, **options: Any) -> None:
        for key in ("model_name_or_path", "model_name"):
            name = options.pop(key, name)
        if isinstance(name, str) and not Path(name).is_dir():
            if kind.__name__ not in ("CrossEncoder", "Transformer") and re.search(PROMPTED, name):
                options.setdefault("prompts", PROMPTS)
            labels = kind.__name__ == "CrossEncoder" and ("nli" in name or (options.get("num_labels") or 1) > 1)
            task = options.get("transformer_task", "feature-extraction")
            name = folders["CrossEncoder labels" if labels else TASKS.get(task) or kind.__name__]
        (options.get("model_kwargs") or {}).pop("attn_implementation", None)
        for key in ("revision", "token"):
            options.pop(key, None)
        made(self, *(() if name is None else (name,)), *arguments, **options)

    kind.__init__ = __init__


def put(folders: dict[str, str]) -> None:
    """Replaces what reaches outside, in this process."""
    import datasets
    import numpy as np
    import sentence_transformers
    from sentence_transformers import util
    from sentence_transformers.base.modules import Transformer

    for name in ("SentenceTransformer", "CrossEncoder", "SparseEncoder", "MultiVectorEncoder"):
        named(getattr(sentence_transformers, name), folders)
    named(Transformer, folders | {"Transformer": folders["SentenceTransformer"]})
    global loaded_by_datasets
    loaded_by_datasets = datasets.load_dataset
    datasets.load_dataset = load_dataset
    with contextlib.suppress(ImportError):
        import nltk

        nltk.download = lambda *names, **options: True
        nltk.sent_tokenize = lambda text, *options: re.findall(r"\S[^.!?]*[.!?]", text)
    for name, frames in (("so", QUESTIONS), ("yi", ANSWERS)):
        Path("data").mkdir(exist_ok=True)
        with lzma.open(f"data/{name}.txt.xz", "wt", encoding="utf-8") as file:
            file.write("\n".join(texts(frames)))
    Path("bucc2018/de-en").mkdir(parents=True, exist_ok=True)
    Path("sentence-transformers").mkdir(exist_ok=True)  # where a script keeps the embeddings of a model of that name
    for end, frames in (("de", QUESTIONS), ("en", ANSWERS)):
        lines = [f"{end}-{row}\t{text}\n" for row, text in enumerate(texts(frames))]
        Path(f"bucc2018/de-en/de-en.training.{end}").write_text("".join(lines), encoding="utf-8")
    gold = "".join(f"de-{row}\ten-{row}\n" for row in range(ROWS))
    Path("bucc2018/de-en/de-en.training.gold").write_text(gold, encoding="utf-8")
    read = datasets.Dataset.__getitem__

    def as_lists(rows: Any, key: Any) -> Any:
        """Columns as lists, as of older versions, which scripts add to each other."""
        return list(read(rows, key)) if isinstance(key, str) else read(rows, key)

    datasets.Dataset.__getitem__ = as_lists
    select = datasets.Dataset.select
    datasets.Dataset.select = lambda self, rows: select(self, [row for row in rows if row < len(self)])
    util.http_get = http_get
    for name, module in list(sys.modules.items()):
        if name.startswith(("sentence_transformers", "grilly")) and "http_get" in vars(module):
            vars(module)["http_get"] = http_get
    answers = iter(QUERIES)

    def ask(prompt: str = "") -> str:
        for answer in answers:
            return answer
        raise EOFError("no more queries")

    __builtins__["input"] = ask
    random.seed(0)
    np.random.seed(0)
