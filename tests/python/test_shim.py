"""sentence-transformers' name for this package: what imports find, in a process of its own."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import grilly
from grilly.compat.sentence_transformers import homes, tree

ROOT = Path(__file__).resolve().parents[2]
SHIM = ROOT / "scripts" / "shim"


def run(code, *folders):
    """What a script prints in a new interpreter."""
    path = os.pathsep.join(
        [*map(str, folders), str(Path(grilly.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


INSTALLED = "import grilly; grilly.install_as_sentence_transformers(); grilly.install_as_sentence_transformers()\n"


@pytest.mark.parametrize("folders, first", [((), INSTALLED), ((SHIM,), ""), ((SHIM,), INSTALLED)])
def test_the_lines_that_scripts_begin_with(folders, first):
    lines = """
    import importlib, pickle, sys, warnings
    import sentence_transformers
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses, models, util
    from sentence_transformers import InputExample, LoggingHandler, evaluation
    from sentence_transformers.SentenceTransformer import SentenceTransformer as older
    from sentence_transformers.cross_encoder.CrossEncoder import CrossEncoder
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.quantization import quantize_embeddings, semantic_search_faiss
    from sentence_transformers.readers import InputExample as same
    from sentence_transformers.similarity_functions import SimilarityFunction
    from sentence_transformers.sparse_encoder.evaluation import SparseNanoBEIREvaluator
    from sentence_transformers.training_args import BatchSamplers
    from sentence_transformers.util.retrieval import semantic_search
    import sentence_transformers.util.quantization as quantization
    import grilly, grilly.util
    assert older is SentenceTransformer is sentence_transformers.SentenceTransformer is grilly.SentenceTransformer
    assert CrossEncoder is grilly.CrossEncoder and same is InputExample and util.cos_sim is grilly.util.cos_sim
    assert quantization.quantize_embeddings is quantize_embeddings and util.semantic_search is semantic_search
    assert "sentence_transformers" in str(SentenceTransformer) and pickle.loads(pickle.dumps(older)) is older
    assert sys.modules["sentence_transformers"].__version__ == "6.2.0"
    assert importlib.util.find_spec("sentence_transformers.models") is not None
    class Trainer(SentenceTransformerTrainer): pass
    assert not hasattr(losses, "NoLoss") and "TripletLoss" in dir(losses)
    assert "torch" not in sys.modules
    print("all")
    """
    assert run(first + textwrap.dedent(lines), *folders) == ["all"]


REFUSED = {
    "losses.TripletLoss(model=None)": "UnsupportedError: sentence_transformers.*TripletLoss is left out .*: train",
    "class Own(losses.TripletLoss): pass\nOwn(1)": "UnsupportedError: .*TripletLoss is left out",
    "SentenceTransformerTrainer.train": "UnsupportedNameError: .*SentenceTransformerTrainer is left out",
    "from sentence_transformers import CosineSimilarity": "UnsupportedImportError: sentence_transformers has no Cosine",
    "from sentence_transformers.util import cos_simm": "UnsupportedImportError: .*nearest name is 'cos_sim'",
    "import sentence_transformers.nothing": "UnsupportedImportError: sentence_transformers has no nothing",
    "from sentence_transformers.losses import Loss": "UnsupportedImportError: .*losses has no Loss",
    "evaluation.LabelAccuracyEvaluator()": "UnsupportedError: .*encode both sides",
    "sentence_transformers.export_optimized_onnx_model(1)": "UnsupportedError: .*float16",
    "util.all_gather(1)": "UnsupportedError: .*train with",
    "models.Dense(384, 128)": "UnsupportedError: a new Dense is not made: its weights would be random.*load",
    "models.Router({})": "UnsupportedError: a new Router is not made",
    "models.CLIPModel()": "UnsupportedError: .*images",
}


def test_what_is_left_out_says_what_to_do():
    code = f"""
    import sentence_transformers
    from sentence_transformers import SentenceTransformerTrainer, evaluation, losses, models, util
    for code in {list(REFUSED)!r}:
        try:
            exec(code)
        except Exception as error:
            print(type(error).__name__ + ": " + str(error))
        else:
            print("nothing is raised")
    """
    for line, expected in zip(run(INSTALLED + textwrap.dedent(code)), REFUSED.values(), strict=True):
        assert re.match(expected, line), line


def test_the_original_is_not_replaced(tmp_path):
    (tmp_path / "sentence_transformers").mkdir()
    (tmp_path / "sentence_transformers" / "__init__.py").write_text("original = True\n")
    code = """
    import grilly
    for line in ("", "import sentence_transformers\\n"):
        exec(line)
        try:
            grilly.install_as_sentence_transformers()
        except ValueError as error:
            print(error)
    import sentence_transformers
    print(sentence_transformers.original)
    """
    said = run(code, tmp_path)
    assert len(said) == 3 and said[2] == "True" and all("uninstall it" in line for line in said[:2])


def test_a_folder_of_that_name_without_python_is_no_package(tmp_path):
    (tmp_path / "sentence_transformers").mkdir()
    assert run(INSTALLED + "import sentence_transformers.util; print(1)", tmp_path) == ["1"]


def test_every_home_has_its_names():
    listed = {name for names in tree.TABLE.values() for name in names}
    for name, module in homes.HOMES.items():
        assert name in listed and hasattr(__import__(module, fromlist=[name]), name), name


def test_the_wheel_has_the_version_of_the_table():
    assert f'version = "{tree.VERSION}+grilly"' in (SHIM / "pyproject.toml").read_text()


def test_libraries_ask_for_the_class():
    """By isinstance, and by a word in the name of the class, also of a model that grilly's own name made."""
    code = """
    import grilly
    model = grilly.SentenceTransformer.__new__(grilly.SentenceTransformer)
    from grilly.compat.sentence_transformers import install_as_sentence_transformers
    install_as_sentence_transformers()
    import sentence_transformers
    print(isinstance(model, sentence_transformers.SentenceTransformer), "sentence_transformers" in str(type(model)))
    """
    assert run(code) == ["True True"]
