"""The same models for grilly and for the reference, and texts."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")  # of Chroma
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

import pytest  # noqa: E402
import sentence_transformers  # noqa: E402
from models import heads  # noqa: E402

import grilly  # noqa: E402
from integrations.beside import DOCUMENTS, QUERY  # noqa: E402


def pytest_configure(config):
    """langchain-tests has coroutines, for pytest-asyncio."""
    config.option.asyncio_mode = "auto"


@pytest.fixture(scope="session")
def minilm(real_model_path):
    with grilly.SentenceTransformer(real_model_path, device="cpu", dtype="float32") as model:
        yield model


@pytest.fixture(scope="session")
def theirs(real_model_path):
    """sentence-transformers' model of the same folder."""
    return sentence_transformers.SentenceTransformer(str(real_model_path), device="cpu")


def folder(task, name):
    @pytest.fixture(scope="session")
    def made(tmp_path_factory):
        return heads.build(task, name, tmp_path_factory.mktemp(task))

    return made


ranker_folder = folder("scores", "bert")
splade_folder = folder("words", "bert")
colbert_folder = folder("vectors", "bert")


@pytest.fixture(scope="session")
def ranker(ranker_folder):
    with grilly.CrossEncoder(ranker_folder, device="cpu") as model:
        yield model


@pytest.fixture(scope="session")
def splade(splade_folder):
    with grilly.SparseEncoder(splade_folder, device="cpu") as model:
        yield model


@pytest.fixture(scope="session")
def colbert(colbert_folder):
    with grilly.MultiVectorEncoder(colbert_folder, device="cpu") as model:
        yield model


@pytest.fixture(scope="session")
def rows(theirs):
    """The reference's rows of `DOCUMENTS`, in their order."""
    return theirs.encode(DOCUMENTS)


@pytest.fixture(scope="session")
def order(ranker_folder):
    """Places of `DOCUMENTS` by the reference's scores with `QUERY`, and these, the best first."""
    model = sentence_transformers.CrossEncoder(str(ranker_folder), device="cpu")
    hits = model.rank(QUERY, DOCUMENTS)
    return [hit["corpus_id"] for hit in hits], [float(hit["score"]) for hit in hits]
