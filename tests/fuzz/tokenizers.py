"""Damaged tokenizers, with odd texts: `python tests/fuzz/tokenizers.py`.

tokenizer.json and its settings, SentencePiece models, vocabularies and merges. Each is refused, or gives ids of its
vocabulary, the same again and for a text alone, with offsets inside the text.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import damage  # isort: skip
from fuzz.driver import Fault, main, pick  # isort: skip
from models import token_cases  # isort: skip
from models.varied_texts import edges, varied  # isort: skip

TEXTS = [*edges(), *varied(200, seed=9)]
#: Tokenizers as files of words and merges in place of tokenizer.json.
WORDS = {"distilbert": "vocab.txt", "electra, accents": "vocab.txt", "roberta": "merges.txt", "gpt2": "merges.txt"}
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt")
OTHERS = {
    "special_tokens_map.json": {"mask_token": "[MASK]", "additional_special_tokens": ["the", "<new>"]},
    "added_tokens.json": {"<new>": 650, "of the": 651},
}


def as_words(folder):
    """Writes the vocabulary of tokenizer.json as older files."""
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (folder / "tokenizer.json").unlink()
    words = sorted(model["vocab"], key=model["vocab"].get)
    if "merges" not in model:
        (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
        return
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = (merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"])
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]), encoding="utf-8")
    (folder / "vocab.txt").unlink(missing_ok=True)


class Tokenizers:
    """Folders of small models, each made when it is first drawn."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}
        self.names = [*token_cases.CASES, *(f"{name} as words" for name in WORDS)]

    def draw(self, chance):
        """A name and the files."""
        name = pick(chance, self.names)
        if name not in self.made:
            place = self.folder / "made"
            shutil.rmtree(place, ignore_errors=True)
            token_cases.build(name.removesuffix(" as words"), place)
            if name.endswith(" as words"):
                as_words(place)
            for other, content in OTHERS.items() if "pieces" not in name else ():
                (place / other).write_text(json.dumps(content), encoding="utf-8")
            self.made[name] = {path.name: path.read_bytes() for path in place.iterdir()}
        return name, self.made[name]


def corpus(folder, given):
    return Tokenizers(folder)


def use(folder, texts):
    """Ids, offsets and decoded texts; raises Fault where they cannot be right."""
    from grilly import SentenceTransformer
    from grilly.errors import GrillyError

    with SentenceTransformer(str(folder), device="cpu") as model:
        tokenizer = model.tokenizer
        rows = tokenizer(texts, return_offsets_mapping=True)
        ids, offsets = rows["input_ids"], rows["offset_mapping"]
        most = max(tokenizer.get_vocab().values(), default=-1)
        for text, row, places in zip(texts, ids, offsets, strict=True):
            if not all(0 <= each <= most for each in row):
                # The ids of a template of the file, which the model has to refuse.
                try:
                    model.encode(text)
                except GrillyError:
                    continue
                raise Fault(f"{text!r}: ids {row} of a vocabulary to {most}")
            if not all(0 <= first <= last <= len(text) for first, last in places):
                raise Fault(f"{text!r}: offsets {places}")
            if tokenizer(text)["input_ids"] != row:
                raise Fault(f"{text!r}: other ids alone")
        decoded = [tokenizer.decode(row) for row in ids]
        tokenizer.batch_decode(ids, skip_special_tokens=True)
        pairs = tokenizer(texts, texts[::-1], truncation=True, max_length=12, padding=True)["input_ids"]
        tokenizer(texts[0], max_length=5, truncation=True, stride=1, return_overflowing_tokens=True)
        tokenizer.tokenize(texts[-1])
        try:
            if not np.isfinite(model.encode(texts[:3])).all():
                raise Fault("not finite")
        except GrillyError:
            pass  # an id beyond the table
        return ids, offsets, decoded, pairs


def case(tokenizers, chance):
    """One damaged tokenizer."""
    name, whole = tokenizers.draw(chance)
    files, folder = dict(whole), tokenizers.folder / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    texts = [pick(chance, TEXTS) for _ in range(4)]
    names = [each for each in files if each not in ("config.json", "model.safetensors")]
    # The tokenizer itself more often than its settings.
    own = [each for each in names if each in VOCABULARIES or each.endswith("model")]
    changed = pick(chance, own if chance.random() < 0.7 else names)
    same = changed.endswith(".json") and chance.random() < 0.1
    if same:
        change = damage.same_json
    else:
        change = damage.of_json if changed.endswith(".json") else damage.of_bytes
        change = damage.of_pieces if changed.endswith("model") else change
    files[changed] = change(files[changed], chance)
    for each, content in files.items():
        (folder / each).write_bytes(content)
    found = use(folder, texts)
    if same:
        for each, content in whole.items():
            (folder / each).write_bytes(content)
        if use(folder, texts) != found:
            raise Fault(f"{name}: {changed} in other letters: other ids")
    return "same" if same else "works"


if __name__ == "__main__":
    sys.exit(main(corpus, case))
