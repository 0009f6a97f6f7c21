"""Runs the scripts and pages of a clone of sentence-transformers' repository, under its package or under grilly.

    python tests/live/reference_scripts.py sentence_transformers|grilly CLONE MODELS.json RESULTS [PART_OF_A_NAME]

A page is its blocks of Python in order in one process, with those before as context; what each block printed and left
in its variables goes to RESULTS/package/name.pickle. Nothing is copied from the clone.
"""

import ast
import contextlib
import io
import json
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import reference_stand_ins

#: Why a block is not counted, by what is in it or in its name; the first that is found.
LEFT_OUT = {
    "images, audio or video": (
        r"image-search|multimodal|\.jpe?g|\.png|\.mp[34]|\.wav|\bImage\b|load_image|CLIP|clip-|vidore.|VL-|-VL|unsplash"
    ),
    "onnx, openvino": r"onnx|openvino|OpenVINO|\bORT[A-Z]\w+",
    "training": (
        r"losses|Trainer|TrainingArguments|\bmodel\.fit\(|old_fit|create_splits|InputExample\(|[Ll]oss\(|peft|PEFT|[Ss]ampler|"
        r"DenoisingAutoEncoder|get_peft|LoraConfig|train_dataset|add_adapter|train_loss"
    ),
    "a service or a hub": (
        r"[Ee]lasticsearch|[Oo]pen[Ss]earch|[Qq]drant|[Ss]eismic|push_to_hub|\bvespa\b|requests\.|text-embeddings-inference"
    ),
    "another library's models": r"T5ForConditional|EasyNMT|nlpaug|unsloth|FastSentence|FastModel|AutoModel\w*\.|mteb\.",
}
#: Why others are not counted that run as context of those after them.
NOTHING, LOADS = (
    "uses nothing of sentence-transformers",
    "does none of it: encodes, searches, ranks, clusters, evaluates",
)
#: What a block does that is counted.
DOES = re.compile(
    r"encode|\.predict\(|\.rank\(|search|similarity|mining|community_detection|quantize_embeddings|Evaluator|evaluate|"
    r"maxsim|cos_sim|dot_score|colbert_|\bpool\(|\.decode\("
)
#: Arguments of scripts that take some; the first "MODEL" is a name.
ARGUMENTS = {
    "eval_msmarco.py": ["MODEL"],
    "eval_askubuntu.py": ["MODEL"],
    "eval_cross_encoder_trec_dl.py": ["MODEL"],
    "matryoshka_eval_stsb.py": ["plot.png", "--model_names", "MODEL"],
    "evaluation_translation_matching.py": ["MODEL", "sentence-transformers/parallel-sentences-talks", "en-de"],
}
#: Text of scripts -> what runs in its place, under both packages: no other device than the CPU, one process of a pool,
#: texts in place of an ellipsis, a clock of their own, sizes for 60 sentences, and for models of 384 columns
#: and of 64 positions.
CHANGED = {
    r"""(["'])cuda(?::\d)?\1""": '"cpu"',
    r"\.cuda\(\)": ".cpu()",
    r", \.\.\.\]": "] * 20",
    r"texts = \[\.\.\.\]": 'texts = ["A cat.", "A dog and a cat."]',
    r"start_multi_process_pool\(\)": 'start_multi_process_pool(["cpu"])',
    r"((?:ann_num|n)_clusters) = \d+": r"\g<1> = 4",
    r"""(\bmax_length"?[:=] ?)(?:256|512)""": r"\g<1>48",
    r"use_ann_search = True": "use_ann_search = False",
    r"range\(100000\)": "range(200)",
    r"k=1000\)": "k=40)",
    r"(Binary\w+\(|ndim=)1024": r"\g<1>384",
    r"embedding_size = \d+": "embedding_size = 384",
    r"pca_dimensions = \d+": "pca_dimensions = 16",
    r"^import time$": "time = __import__('reference_stand_ins').Clock()",
}
#: Opens a block of reStructuredText: the directive, which a cell of a list may begin with, or a line that ends in "::".
INDENTED = re.compile(r"^(\s*(?:[*-] +)*)(?:\.\. code-block:: (?:python|py)|(?!\s*\.\.).*::)\s*$")
SECONDS = 150


def pages(clone: Path) -> dict[str, list[str]]:
    """Name of a file -> its blocks."""
    found = {}
    for path in sorted([*clone.glob("docs/**/*"), *clone.glob("examples/**/*")]):
        if path.suffix in (".py", ".md", ".rst", ".ipynb") and path.name != "conf.py":
            text = path.read_text(encoding="utf-8")
            blocks = [text] if path.suffix == ".py" else list(of_page(path.suffix, text))
            if any(map(parses, blocks)):
                found[str(path.relative_to(clone))] = blocks
    return found


def of_page(kind: str, text: str) -> Iterator[str]:
    """The blocks of Python of a page or notebook."""
    if kind == ".ipynb":
        for cell in json.loads(text)["cells"]:
            if cell["cell_type"] == "code":
                yield re.sub(r"^\s*[!%].*$", "", "".join(cell["source"]), flags=re.MULTILINE)
        return
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        fence = re.match(r"^(\s*)```(?:python|py)\s*$", lines[place])
        indented = INDENTED.match(lines[place])
        depth = len(indented[1]) if indented else 0
        place += 1
        taken: list[str] = []
        while fence and place < len(lines) and not re.match(r"^\s*```\s*$", lines[place]):
            taken.append(lines[place])
            place += 1
        while indented and place < len(lines):
            line = lines[place]
            if line.strip() and len(line) - len(line.lstrip()) <= depth:
                break
            taken.append("" if re.match(r"^\s*:[\w-]+:", line) else line)
            place += 1
        code = textwrap.dedent("\n".join(taken)).strip("\n")
        if fence or (indented and ("code-block" in indented[0] or parses(code))):
            yield code


def parses(code: str) -> bool:
    try:
        return bool(ast.parse(code).body)
    except SyntaxError:
        return False


def reason(name: str, blocks: list[str], number: int) -> str | None:
    """Why a block is not counted, or None."""
    code = blocks[number]
    if not parses(code):
        return "no Python that can be parsed"
    for why, pattern in LEFT_OUT.items():
        if re.search(pattern, f"{name}\n{code}"):
            return why
    if not any("sentence_transformers" in each for each in blocks[: number + 1]):
        return NOTHING
    return None if DOES.search(re.sub("^ *(?:from|import) .*", "", code, flags=re.MULTILINE)) else LOADS


def simple(value: Any, depth: int = 0) -> Any:
    """Values that can be compared: numbers, texts, arrays and what holds them; None for the rest."""
    import numpy as np

    kind = type(value)
    if isinstance(value, str):
        return str(getattr(value, "value", value))  # without the class of an enumeration
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if kind.__module__.startswith("torch") and hasattr(value, "detach"):
        dense = value.detach().to_dense() if value.is_sparse or value.layout is not None else value
        return dense.float().numpy() if dense.is_floating_point() else dense.numpy()
    if isinstance(value, np.ndarray):
        return np.asarray(value) if value.dtype != object else [simple(each, depth + 1) for each in value]
    if hasattr(value, "toarray") and not isinstance(value, type):
        return np.asarray(value.toarray())
    if depth < 5:
        if isinstance(value, list | tuple):
            return [simple(each, depth + 1) for each in value[:200]]
        if isinstance(value, set | frozenset):
            return sorted(map(str, value))
        if isinstance(value, dict):
            return {str(key): simple(each, depth + 1) for key, each in list(value.items())[:200]}
    return None


def kept(code: str) -> str:
    """The code with the values of its statements that are calls put into variables."""
    tree = ast.parse(code)
    for place, node in enumerate(tree.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Attribute | ast.Subscript):
            target = ast.Name(f"value_{place}", ast.Store())
            tree.body[place] = ast.copy_location(ast.Assign([target], node.value), node)
    return compile(ast.fix_missing_locations(tree), "<block>", "exec", dont_inherit=True)


def run_page(name: str, blocks: list[str], clone: Path) -> list[dict[str, Any]]:
    """What each block gave: `output`, `variables`, `error`."""
    module = types.ModuleType("__main__")
    module.__file__ = str(clone / name)
    space = vars(module)
    sys.path.insert(0, str((clone / name).parent))
    sys.path.insert(0, os.getcwd())  # files that a page shows
    sys.argv = [name, *ARGUMENTS.get(Path(name).name, [])]
    space |= reference_stand_ins.given(name)
    results = []
    for number, code in enumerate(blocks):
        if reason(name, blocks, number) not in (None, NOTHING, LOADS):
            results.append({"error": "left out", "output": "", "variables": {}})
            continue
        for text, instead in CHANGED.items():
            code = re.sub(text, instead, code, flags=re.MULTILINE)
        if shown := re.match(r"# (\w+\.py)\n", code):
            Path(shown[1]).write_text(code, encoding="utf-8")
        before = {key: id(value) for key, value in space.items()}
        output, error = io.StringIO(), None
        signal.alarm(SECONDS)
        try:
            with contextlib.redirect_stdout(output):
                exec(kept(code), space)
        except EOFError as stop:
            error = None if "no more queries" in str(stop) else f"EOFError: {stop}"
        except SystemExit as stop:
            error = f"SystemExit: {stop}" if stop.code else None
        except BaseException as problem:
            error = "".join(traceback.format_exception_only(problem)).strip()
            line = [each.lineno for each in traceback.extract_tb(problem.__traceback__) if each.filename == "<block>"]
            error += f" [line {line[-1] if line else '?'}]"
        signal.alarm(0)
        changed = {
            key: value
            for key, value in list(space.items())
            if not key.startswith("_") and before.get(key) != id(value) and not isinstance(value, type)
        }
        variables = {}
        for key, value in changed.items():
            with contextlib.suppress(Exception):
                variables[key] = simple(value)
        results.append({"error": error, "output": output.getvalue(), "variables": variables})
    return results


def take_package(package: str, folders: dict[str, str]) -> None:
    """Imports what the processes of all pages need."""
    if package == "grilly":
        from grilly.compat.sentence_transformers import take

        take()  # also where the original is installed, which install_as_sentence_transformers refuses
    import datasets  # noqa: F401
    import faiss  # noqa: F401
    import sentence_transformers
    import sklearn.cluster  # noqa: F401
    import torch  # noqa: F401

    if package != "grilly":  # the threads of grilly would not be in the processes of the pages
        for name, folder in folders.items():
            getattr(sentence_transformers, name.split()[0])(folder, device="cpu")


def ended(signum: int, frame: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main(package: str, clone: Path, models: Path, results: Path, part: str = "") -> None:
    folders = json.loads(models.read_text())
    take_package(package, folders)
    target = results / package
    target.mkdir(parents=True, exist_ok=True)
    found = pages(clone)
    for name, blocks in sorted(found.items(), key=lambda each: len(each[1])):
        path = target / f"{name.replace('/', '+')}.pickle"
        wanted = any(reason(name, blocks, number) is None for number in range(len(blocks)))
        ran = package == "sentence_transformers" or (results / "sentence_transformers" / path.name).exists()
        if not wanted or path.exists() or not ran or part not in name:
            continue
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGALRM, ended)
                os.chdir(tempfile.mkdtemp(dir=results))
                reference_stand_ins.put(folders)
                path.write_bytes(pickle.dumps(run_page(name, blocks, clone)))
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        deadline = started + SECONDS * 3
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # a pool's processes
        print(f"{time.monotonic() - started:6.1f} s  {name}", flush=True)
    for folder in results.glob("tmp*"):
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1], *(Path(each).resolve() for each in sys.argv[2:5]), *sys.argv[5:])
