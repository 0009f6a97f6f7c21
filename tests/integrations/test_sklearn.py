"""scikit-learn: its checks of estimators, copies, pipelines in processes, and how it is shown."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import parametrize_with_checks

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.integrations.sklearn import GrillyEmbedder
from integrations.beside import DOCUMENTS, near

TEXTS = [f"{text} {number}" for number in range(4) for text in DOCUMENTS]
LABELS = [place % 2 for place in range(len(TEXTS))]


@parametrize_with_checks([GrillyEmbedder(device="cpu")])
def test_what_scikit_learn_checks_of_an_estimator(estimator, check):
    check(estimator)


def test_rows_are_the_references(minilm, rows):
    assert near(GrillyEmbedder(minilm).fit_transform(DOCUMENTS), rows)
    for column in (np.array(DOCUMENTS), pd.Series(DOCUMENTS, index=range(5, 11)), tuple(DOCUMENTS)):
        assert near(GrillyEmbedder(minilm).fit_transform(column), rows)


def test_arguments_are_those_of_encode(real_model_path, theirs):
    embedder = GrillyEmbedder(str(real_model_path), device="cpu", normalize_embeddings=True, truncate_dim=16)
    expected = theirs.encode(DOCUMENTS, normalize_embeddings=True, truncate_dim=16)
    assert near(embedder.fit_transform(DOCUMENTS), expected)
    assert embedder.get_params()["truncate_dim"] == 16 and embedder.set_params(truncate_dim=8).truncate_dim == 8
    assert embedder.get_feature_names_out().tolist() == [f"grillyembedder{number}" for number in range(8)]
    frame = embedder.set_output(transform="pandas").transform(DOCUMENTS)
    assert frame.shape == (len(DOCUMENTS), 8) and frame.columns[0] == "grillyembedder0"


@pytest.mark.parametrize("by_name", [True, False])
def test_copies_give_the_same_rows(by_name, real_model_path, minilm):
    made = GrillyEmbedder(str(real_model_path), device="cpu") if by_name else GrillyEmbedder(minilm)
    rows = made.fit_transform(DOCUMENTS)
    copy = clone(made)
    assert not hasattr(copy, "model_") and (copy.fit_transform(DOCUMENTS) == rows).all()
    assert (pickle.loads(pickle.dumps(made)).transform(DOCUMENTS) == rows).all()


@pytest.mark.parametrize("by_name", [True, False])
def test_cross_validation_in_two_processes(by_name, real_model_path, minilm):
    made = GrillyEmbedder(str(real_model_path), device="cpu") if by_name else GrillyEmbedder(minilm)
    steps = make_pipeline(made, LogisticRegression())
    alone = cross_val_score(steps, TEXTS, LABELS, cv=4)
    assert (cross_val_score(steps, TEXTS, LABELS, cv=4, n_jobs=2) == alone).all()
    assert alone.mean() > 0.9


def test_it_is_shown_as_a_box():
    shown = estimator_html_repr(make_pipeline(GrillyEmbedder(), LogisticRegression()))
    assert "<label" in shown and "GrillyEmbedder" in shown


def test_bad_arguments(ranker, minilm):
    with pytest.raises(InvalidTypeError, match="CrossEncoder, expected"):
        GrillyEmbedder(ranker).fit(DOCUMENTS)
    with pytest.raises(InvalidArgumentError, match="dtype: arguments of a constructor, and the model is loaded"):
        GrillyEmbedder(minilm, dtype="float16").fit(DOCUMENTS)
