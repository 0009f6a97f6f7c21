"""Damaged model folders of every family and class: `python tests/fuzz/folders.py`.

Each is refused by an error of grilly or gives finite numbers: those of the whole folder where nothing was changed that
counts, on Vulkan (`--device vulkan`) those of the CPU, and of a text alone those that it has in a batch.
"""

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import damage  # isort: skip
from fuzz.driver import Fault, main, pick  # isort: skip
from models import (  # isort: skip  # noqa: F401
    families,
    heads,
    hybrid,
    routers,
    safetensors_file,
    stanford,
    ternary,
    torch_file,
    variant_list,
)
from models.static import WORDS, static  # isort: skip
from models.variants import VARIANTS, build  # isort: skip

TEXTS = ["a dog and the time of a year", "way", "", "The house, one man: O'Brien's x = y2"]
PAIRS = [("a dog", "the time of a year"), ("", "way"), ("one man", "")]
TYPES = ["float16", "bfloat16", "int8"]


def builders():
    """What writes each model into a folder and returns its path, and the class that reads it."""

    def table(folder):
        return static(folder / "static", np.random.RandomState(5).standard_normal((len(WORDS), 20)).astype(np.float32))

    made = {name: ("sentences", partial(families.build, name)) for name in families.table()}
    made |= {f"variant {name}": ("sentences", partial(build, name)) for name in VARIANTS}
    made |= {f"ternary {name}": ("sentences", partial(ternary.build, name)) for name in ternary.ROWS}
    made |= {f"router {name}": ("sentences", partial(routers.build, name)) for name in routers.table()}
    for kind in ("scores", "words", "vectors"):
        made |= {f"{kind} {name}": (kind, partial(heads.build, kind, name)) for name in heads.table()[kind]}
    made |= {f"stanford {name}": ("vectors", partial(stanford.build, name=name)) for name in ("bert", "distilbert")}

    def quantised(folder):
        made = static(folder / "quantised", np.zeros((1, 1), np.float32))
        random, count = np.random.RandomState(6), len(WORDS)
        table = {"embeddings": random.standard_normal((3, 20)), "weights": random.uniform(size=count)}
        table["mapping"] = random.randint(0, 3, count)
        safetensors_file.write(made / "0_StaticEmbedding" / "model.safetensors", table)
        return made

    made |= {"static": ("sentences", table), "static quantised": ("sentences", quantised)}
    return made | {"hybrid": ("hybrid", lambda folder: hybrid.build(folder / "hybrid"))}


def sharded(folder):
    """Several files of tensors in place of one, with their index."""
    path = folder / "model.safetensors"
    if path.exists():
        safetensors_file.write_sharded(folder, safetensors_file.read(path), 3)
        path.unlink()


#: What may be done to a folder before: the files of tensors in another format.
FORMS = {
    "": lambda folder: None,
    " torch": torch_file.convert,
    " torch, sharded": partial(torch_file.convert, shards=3),
    " sharded": sharded,
}


class Models:
    """The folders of models, each written when it is first drawn."""

    def __init__(self, folder, device):
        self.folder, self.device, self.builders, self.made = folder, device, builders(), {}
        self.names = list(self.builders)

    def draw(self, chance):
        """A model: its class, its files by name, and its folder."""
        name, form = pick(chance, self.names), self.form(chance)
        if (name, form) not in self.made:
            kind, write_model = self.builders[name]
            # Of another process, if that one could finish it.
            place = self.folder / f"{name}{form}".replace(" ", "_")
            if not (place / "done").exists():
                shutil.rmtree(place, ignore_errors=True)
                FORMS[form](write_model(place))
                (place / "done").touch()
            (root,) = (path for path in place.iterdir() if path.is_dir())
            paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
            files = {str(path.relative_to(root)): path.read_bytes() for path in paths}
            self.made[name, form] = Model(kind, root, files)
        return self.made[name, form]

    def form(self, chance):
        return "" if chance.random() < 0.7 else pick(chance, list(FORMS))


class Model:
    def __init__(self, kind, root, files):
        self.kind, self.root, self.files, self.expected = kind, root, files, {}

    def numbers(self, device, dtype):
        """Those of the whole folder."""
        if (device, dtype) not in self.expected:
            self.expected[device, dtype], _ = rows(self.kind, self.root, device, dtype)
        return self.expected[device, dtype]


def corpus(folder, given):
    return Models(folder, given.device)


def rows(kind, folder, device, dtype, alone=False):
    """A model's results for all texts; with a check that a text has them alone."""
    from grilly import CrossEncoder, HybridEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder

    classes = {"sentences": SentenceTransformer, "scores": CrossEncoder, "words": SparseEncoder}
    made = (classes | {"vectors": MultiVectorEncoder, "hybrid": HybridEncoder})[kind]
    options = {} if dtype is None else {"model_kwargs": {"dtype": dtype}}
    with made(str(folder), device=device, **options) as model:
        more = {"convert_to_sparse_tensor": False} if kind == "words" else {}
        texts, call = (PAIRS, model.predict) if kind == "scores" else (TEXTS, partial(model.encode, **more))
        call = partial(summed, model) if kind == "vectors" else call
        call = partial(joined, model) if kind == "hybrid" else call
        found = call(texts)
        if not np.isfinite(found).all():
            raise Fault(f"not finite: {found}")
        if alone and not np.array_equal(np.stack([call(text) for text in texts]), found):
            raise Fault("a text alone has other numbers than in the batch")
        return found, model.dtype


def summed(model, texts):
    """The sums of a text's vectors as a query and as a document, in a row."""
    if isinstance(texts, str):
        return summed(model, [texts])[0]
    sides = zip(model.encode_query(texts), model.encode_document(texts), strict=True)
    return np.stack([np.concatenate([rows.sum(axis=0) for rows in pair]) for pair in sides])


def joined(model, texts):
    """All of a text's results in a row: its vector, the sum of its weights, and that of its tokens' vectors."""
    if isinstance(texts, str):
        return joined(model, [texts])[0]
    found = model.encode(texts)
    sums = np.array([[sum(weights.values())] for weights in found["lexical_weights"]])
    return np.concatenate([found["dense_vecs"], sums, [rows.sum(axis=0) for rows in found["colbert_vecs"]]], axis=1)


# --------------------------------------------------------------------------------------------------------------- damage

#: Files whose presence changes nothing.
STRAY = ["notes.txt", "README.md", "onnx/model.onnx", ".gitattributes", "training_args.bin", "a/config.json", "é.json"]
#: Damage to a file of tensors, and what may come of it.
TENSORS = [
    (damage.of_header, "numbers"),
    (damage.of_header, "numbers"),
    (damage.of_numbers, "numbers"),
    (damage.of_bytes, "numbers"),
    (damage.without_tensor, "same or refused"),
    (damage.cut, "same or refused"),
    (damage.same_tensors, "same"),
]


def damaged(model, models, chance):
    """The files after one change, and what may come of it: `any`, `numbers` (of tensors), `same or refused`, `same`."""
    files = dict(model.files)
    weights = [name for name in files if name.endswith((".safetensors", ".bin", ".pt"))]
    others = [name for name in files if name not in weights and not name.endswith("done")]
    kind = chance.random()
    if kind < 0.45:
        name = pick(chance, others)
        change = damage.of_json if name.endswith((".json", ".metadata")) else damage.of_bytes
        files[name] = change(files[name], chance)
        return files, f"{change.__name__} {name}", "any"
    if kind < 0.7:
        name = pick(chance, weights)
        if name.endswith((".bin", ".pt")):
            files[name] = damage.of_archive(files[name], chance)
            return files, f"of_archive {name}", "numbers"
        change, may = pick(chance, TENSORS)
        files[name] = change(files[name], chance)
        return files, f"{change.__name__} {name}", may
    if kind < 0.8:
        name = pick(chance, list(files))
        if chance.random() < 0.5:
            del files[name]
        else:
            files[name] = b""
        return files, f"without {name}", "same or refused" if name in weights else "any"
    if kind < 0.88:
        first, second = pick(chance, list(files)), pick(chance, list(files))
        files[first], files[second] = files[second], files[first]
        return files, f"{first} and {second} exchanged", "numbers"
    if kind < 0.92:
        other = models.draw(chance).files
        name = pick(chance, [name for name in other if name in files] or [pick(chance, list(other))])
        files[name] = other[name]
        return files, f"{name} of another model", "numbers"
    if kind < 0.96:
        name = pick(chance, STRAY)
        files[name] = chance.bytes(int(chance.integers(300)))
        return files, f"{name} beside it", "same"
    jsons = [name for name in files if name.endswith(".json")]
    name = pick(chance, jsons)
    files[name] = damage.same_json(files[name], chance)
    return files, f"{name} in other letters", "same"


def write(files, model, folder):
    """A folder with these files; those that are as they were are links."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if model.files.get(name) is content:
            os.link(model.root / name, path)
        else:
            path.write_bytes(content)


#: How much two devices may differ, in units of the largest number, by the type of the model.
CLOSE = {"float32": 2e-3, "float16": 0.05, "bfloat16": 0.2, "int8": 0.1}


def beside_cpu(model, folder, dtype, may, found, stored, refused):
    """Compares with the CPU, unless another number of a tensor may decide between a number and infinity."""
    from grilly.errors import GrillyError

    try:
        (expected, _), error = rows(model.kind, folder, "cpu", dtype), None
    except GrillyError as caught:
        expected, error = None, caught
    if may == "numbers":
        return
    if type(error) is not type(refused):
        raise Fault(f"{refused!r}, on the CPU {error!r}")
    if error is None:
        if found.shape != expected.shape:
            raise Fault(f"is {found.shape}, on the CPU {expected.shape}")
        difference, most = np.abs(found - expected), np.abs(expected).max()
        if model.kind == "words" and stored != "float32":
            # Which of the least words are kept is for the rounding to decide.
            difference = difference[(found != 0) & (expected != 0)]
        if difference.max(initial=0) > CLOSE[stored] * most:
            raise Fault(f"differs from the CPU by {difference.max()} of {most}")


def judged(models, model, files, what, may, chance):
    """What came out of a folder with other files; raises Fault where it may not."""
    from grilly.errors import GrillyError

    dtype = None if chance.random() < 0.8 else pick(chance, TYPES)
    folder, alone = models.folder / "case", chance.random() < 0.25
    write(files, model, folder)
    whole = model.numbers(models.device, dtype)
    found = stored = refused = None
    try:
        try:
            found, stored = rows(model.kind, folder, models.device, dtype, alone)
        except GrillyError as error:
            refused = error
        same = found is not None and np.array_equal(found, whole)
        if may == "same" and refused is not None:
            raise Fault(f"refused: {refused!r}")
        if may in ("same", "same or refused") and refused is None and not same:
            raise Fault("other numbers")
        if models.device != "cpu":
            beside_cpu(model, folder, dtype, may, found, stored, refused)
    except Fault as fault:
        raise Fault(f"{model.root.parent.name} {dtype}: {what}: {fault}") from None
    return type(refused).__name__ if refused is not None else "same" if same else "other"


def case(models, chance):
    """One damaged folder."""
    model = models.draw(chance)
    return judged(models, model, *damaged(model, models, chance), chance)


if __name__ == "__main__":
    sys.exit(main(corpus, case))
