"""The blocks of code in the documentation that sentence-transformers' package carries, and a run of all of them.

Its README and docstrings have them; the pages and examples of its repository are in no distribution. Run as a program
it runs each block in this process, with stand-ins for models and data sets, and writes what each left in its variables:

    python tests/reference_blocks.py sentence_transformers|grilly FOLDER_OF_MODELS RESULTS.json
"""

import ast
import importlib.metadata
import importlib.util
import json
import random
import re
import sys
import textwrap
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "sentence_transformers"
#: A heading of reStructuredText under which code is indented, or a fence.
OPENS = re.compile(r"^\s*(?:.*::|\.\. code-block:: python)\s*$")
#: What these words are in is training, or wants images, a service, or another package's files of a model.
LEFT_OUT = {
    "training": r"losses|[Tt]rainer|InputExample|[Ss]ampler|\.fit\(|resolve_ids|train_",
    "images and sound": r"\.jpg|\.png|\.mp3|\.wav|Image\b|CLIP",
    "onnx and openvino": r"onnx|openvino",
    "a service": r"elasticsearch|opensearch|qdrant|seismic",
    "a hub": r"NanoBEIREvaluator|push_to_hub|model_card|ModelCard",
    "parts of a model that do not run": r"merge\(|Router|StaticEmbedding|unpad_inputs|attn_implementation",
}
MODELS = ("SentenceTransformer", "CrossEncoder", "SparseEncoder", "MultiVectorEncoder")
NAMED = re.compile(rf"\b({'|'.join(MODELS)})\(\s*[\"'][^\"']+[\"']")


def blocks() -> dict[str, str]:
    """Block by the name of its place."""
    found = dict(of_readme())
    folder = Path(importlib.util.find_spec(PACKAGE).origin).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                place = f"{path.relative_to(folder).with_suffix('')}:{node.name}"
                found |= {f"{place}:{number}": code for number, code in enumerate(of_docstring(text))}
    return found


def reason(name: str, code: str) -> str | None:
    """Why a block is not run, if it is not."""
    return next((word for word, pattern in LEFT_OUT.items() if re.search(pattern, f"{name}\n{code}")), None)


def of_readme() -> Iterator[tuple[str, str]]:
    """Fences; those below one heading belong together."""
    heading, parts = "", []
    text = importlib.metadata.metadata("sentence-transformers").get_payload()
    for code, line in re.findall(r"^```\w*\n(.*?)^```$|^(#+ [^\n]*)$", text, re.MULTILINE | re.DOTALL):
        if line:
            if parts:
                yield f"README:{heading}", "\n".join(parts)
            heading, parts = line.strip("# "), []
        elif parses(code):
            parts.append(code)
    if parts:
        yield f"README:{heading}", "\n".join(parts)


def of_docstring(text: str) -> Iterator[str]:
    """Indented blocks and lines of the prompt."""
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        line = lines[place]
        taken: list[str] = []
        if OPENS.match(line):
            depth = len(line) - len(line.lstrip())
            for each in lines[place + 1 :]:
                if each.strip() and len(each) - len(each.lstrip()) <= depth:
                    break
                taken.append(each)
            code = textwrap.dedent("\n".join(taken)).strip()
        else:
            for each in lines[place:]:
                if not each.strip() or not (taken or each.lstrip().startswith(">>>")):
                    break
                taken.append(each)
            told = (re.match(r"\s*(?:>>>|\.\.\.) ?(.*)", each) for each in taken)
            code = "\n".join(match[1] for match in told if match)
        if parses(code) and (PACKAGE in code or "model" in code):
            yield code
        place += 1 + len(taken)


def parses(code: str) -> bool:
    """Whether it is Python, and not a line of text or a part of a call."""
    try:
        return any(not isinstance(each, ast.Expr) or isinstance(each.value, ast.Call) for each in ast.parse(code).body)
    except SyntaxError:
        return False


class Table:
    """A data set's rows: what blocks ask of one."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns
        self.column_names = list(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        return {name: values[key] for name, values in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[place] for place in range(len(self)))

    def select(self, places: Any) -> "Table":
        kept = [place for place in places if place < len(self)]
        return Table({name: [values[place] for place in kept] for name, values in self.columns.items()})

    def shuffle(self, **options: Any) -> "Table":
        return self

    def filter(self, function: Any) -> "Table":
        return self.select([place for place, row in enumerate(self) if function(row)])

    def map(self, function: Any, **options: Any) -> "Table":
        rows = [row | function(row) for row in self]
        return Table({name: [row[name] for row in rows] for name in rows[0]})

    @classmethod
    def from_dict(cls, columns: dict[str, list[Any]]) -> "Table":
        return cls(columns)


WHO = ["A cat", "A kitten", "The dog", "A train", "The chef", "Our neighbour"]
DOES = ["eats", "looks at", "passes", "paints", "buys"]
WHAT = ["the bread", "a fence", "the station", "some soup", "rye bread", "a grey house", "fresh fruit"]
COUNT = 60


def load_dataset(name: str, *parts: str, split: str = "", **options: Any) -> Table:
    """A stand-in for each data set that blocks load, with its columns."""
    texts = [f"{WHO[k % 6]} {DOES[k % 5]} {WHAT[k % 7]}." for k in range(COUNT)]
    others = [f"{WHO[(k + 1 + k % 3) % 6]} {DOES[k % 5]} {WHAT[(k + k % 2) % 7]}." for k in range(COUNT)]
    ids = [str(k) for k in range(COUNT)]
    part = " ".join(str(each) for each in (*parts, split))
    columns: dict[str, list[Any]]
    if "stsb" in name:
        columns = {"sentence1": texts, "sentence2": others, "score": [(k % 6) / 5 for k in range(COUNT)]}
    elif "mining" in name:
        same = {"qid1": ids[:20], "qid2": ids[30:50]}
        columns = same if "duplicates" in parts else {"qid": ids, "question": texts}
    elif "quora" in name:
        columns = {"sentence1": texts, "sentence2": others, "label": [k % 2 for k in range(COUNT)]}
    elif "all-nli" in name and "pair-class" in part:
        columns = {"premise": texts, "hypothesis": others, "label": [k % 3 for k in range(COUNT)]}
    elif "all-nli" in name:
        columns = {"anchor": texts, "positive": others, "negative": texts[::-1]}
    elif "ms_marco" in name:
        found = {"is_selected": [1, 0, 0], "passage_text": []}
        passages = [
            found | {"passage_text": [others[k], texts[(k + 7) % COUNT], texts[(k + 11) % COUNT]]} for k in range(COUNT)
        ]
        columns = {"query": texts, "query_id": ids, "passages": passages}
    elif "parallel" in name:
        columns = {"english": texts, "non_english": others}
    elif "qrels" in part or "default" in parts or name.endswith("qrels"):
        columns = {"query-id": ids[:20], "corpus-id": ids[5:25], "score": [1] * 20}
    elif "queries" in part or "corpus" in part:
        columns = {"_id": ids[:20] if "queries" in part else ids, "text": texts[:20] if "queries" in part else texts}
        columns |= {"title": [""] * len(columns["_id"])}
    elif "natural-questions" in name or "gooaq" in name:
        columns = {"query": texts, "question": texts, "answer": others}
    else:
        raise LookupError(f"no stand-in for the data set {name} {part}")
    return Table(columns)


def plain(value: Any, depth: int = 0) -> Any:
    """A variable in lists, dicts, numbers and texts; None for what is none of these."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type | types.ModuleType | types.FunctionType):
        return None
    if isinstance(value, dict) and depth < 6:
        return {str(key): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple) and depth < 6:
        return [plain(each, depth + 1) for each in value]
    if hasattr(value, "toarray"):
        return value.toarray().tolist()
    if hasattr(value, "is_sparse") and value.is_sparse:
        return value.to_dense().tolist()
    if hasattr(value, "detach"):
        return value.detach().cpu().float().tolist()
    return value.tolist() if hasattr(value, "tolist") else None


def stand_in(models: Path, named: re.Match[str]) -> Path:
    """The folder for the name of a model: one of its class, with three labels for one of entailment."""
    return models / (f"{named[1]}-nli" if "nli" in named[0] and named[1] == "CrossEncoder" else named[1])


def run(models: Path) -> dict[str, Any]:
    """What each block left in its variables, or the error that it ended with."""
    importlib.import_module(PACKAGE)  # which imports more of the real one, where that is installed
    data = types.ModuleType("datasets")
    data.load_dataset, data.Dataset, data.DatasetDict = load_dataset, Table, dict  # type: ignore[attr-defined]
    data.__spec__ = importlib.util.spec_from_loader("datasets", None)
    sys.modules["datasets"] = data
    results: dict[str, Any] = {}
    for name, code in blocks().items():
        if reason(name, code):
            continue
        text = NAMED.sub(lambda match: f"{match[1]}({str(stand_in(models, match))!r}", code)
        text = text.replace("30_000", "30")  # rows of a corpus
        variables: dict[str, Any] = {"__name__": "block"}
        random.seed(0)
        try:
            exec(compile(text, name, "exec"), variables)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            results[name] = {"error": f"{type(error).__name__}: {error}"[:300], "at": f"{last.name}:{last.lineno}"}
        else:
            kept = {key: plain(value) for key, value in variables.items() if not key.startswith("_")}
            results[name] = {"variables": {key: value for key, value in kept.items() if value is not None}}
    return results


if __name__ == "__main__":
    package, folder, target = sys.argv[1:]
    if package == "grilly":
        BLOCKS = blocks()  # read before the name is taken
        blocks = lambda: BLOCKS  # noqa: E731
        from grilly.compat.sentence_transformers import take

        take()
    Path(target).write_text(json.dumps(run(Path(folder))), encoding="utf-8")
