"""Evaluators beside sentence-transformers': metrics, their names and order, primary metric, files and their columns."""

import inspect
import itertools
import json
import random

import pytest
import sentence_transformers
from evaluated import UNIT, compare, near
from models import heads
from sentence_transformers.base import evaluation as of_all
from sentence_transformers.cross_encoder import evaluation as of_pairs
from sentence_transformers.multi_vector_encoder import evaluation as of_vectors
from sentence_transformers.sentence_transformer import evaluation as of_rows
from sentence_transformers.sparse_encoder import evaluation as of_words

import grilly
from grilly import evaluation

#: Scores of the small models with random weights, which are not divided by norms, are up to some hundred.
RELATIVE = 3e-6


@pytest.fixture(scope="module")
def texts():
    """Distinct sentences of few words, some of them alike: of equal ones rounding would rank either first."""
    parts = (
        ["A cat", "A kitten", "The dog", "A train", "The chef", "Our neighbour"],
        ["eats", "chews on", "looks at", "passes", "paints"],
        ["the bread", "a fence", "the station", "some soup", "rye bread", "a grey house"],
    )
    return random.Random(7).sample([f"{who} {does} {what}." for who, does, what in itertools.product(*parts)], 90)


@pytest.fixture(scope="module")
def dense(real_model_path):
    with grilly.SentenceTransformer(str(real_model_path), device="cpu") as ours:
        yield ours, sentence_transformers.SentenceTransformer(str(real_model_path), device="cpu")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folders = heads.build_both("words", "bert", tmp_path_factory.mktemp("words"))
    with grilly.SparseEncoder(folders[0], device="cpu") as ours:
        yield ours, sentence_transformers.SparseEncoder(str(folders[1]), device="cpu")


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    folders = heads.build_both("vectors", "bert", tmp_path_factory.mktemp("vectors"))
    with grilly.MultiVectorEncoder(folders[0], device="cpu") as ours:
        yield ours, sentence_transformers.MultiVectorEncoder(str(folders[1]), device="cpu")


@pytest.fixture(scope="module", params=["bert", "bert-labels"])
def ranker(request, tmp_path_factory):
    folders = heads.build_both("scores", request.param, tmp_path_factory.mktemp("scores"))
    with grilly.CrossEncoder(folders[0], device="cpu") as ours:
        yield ours, sentence_transformers.CrossEncoder(str(folders[1]), device="cpu")


def of_pairs_of_texts(texts):
    return texts[:60], texts[30:90]


def labels(texts):
    return [int(a.split()[-1] == b.split()[-1]) for a, b in zip(*of_pairs_of_texts(texts))]


def scores(texts):
    return [len({*a.split()} & {*b.split()}) / 5 for a, b in zip(*of_pairs_of_texts(texts))]


def searched(texts):
    """Queries, corpus, and the documents that share a query's last word."""
    queries = {f"q{place}": text for place, text in enumerate(texts[:15])}
    corpus = {f"d{(place * 37) % 75}": text for place, text in enumerate(texts[15:])}
    last = {query: text.split()[-1] for query, text in queries.items()}
    return {
        "queries": queries,
        "corpus": corpus,
        "relevant_docs": {q: {d for d, text in corpus.items() if text.split()[-1] == last[q]} for q in queries}
        | {"q3": set()},
    }


def samples(texts):
    return [
        {
            "query": query,
            "positive": [text for text in dict.fromkeys(texts[15:]) if text.split()[-1] == query.split()[-1]][:4],
            "negative": [text for text in dict.fromkeys(texts[15:]) if text.split()[-1] != query.split()[-1]][:11],
        }
        for query in texts[:15]
    ] + [{"query": "no answers", "positive": [], "negative": ["one"]}]


def triples(texts):
    return {"anchors": texts[:30], "positives": texts[30:60], "negatives": texts[60:90]}


ALL = ["cosine", "dot", "euclidean", "manhattan"]
NAMED = {"name": "dev", "batch_size": 7}


def pairs_of(texts, **options):
    return dict(zip(("sentences1", "sentences2"), of_pairs_of_texts(texts))) | options


def scored(texts, **options):
    return pairs_of(texts, scores=scores(texts)) | options


#: Class of rows -> arguments made of the texts.
CASES = [
    ("BinaryClassificationEvaluator", lambda t: pairs_of(t, labels=labels(t))),
    ("BinaryClassificationEvaluator", lambda t: pairs_of(t, labels=labels(t), similarity_fn_names=ALL, **NAMED)),
    ("EmbeddingSimilarityEvaluator", lambda t: pairs_of(t, scores=scores(t))),
    ("EmbeddingSimilarityEvaluator", lambda t: pairs_of(t, scores=scores(t), similarity_fn_names=ALL, **NAMED)),
    ("EmbeddingSimilarityEvaluator", lambda t: pairs_of(t, scores=scores(t), main_similarity="dot", name="dev")),
    ("InformationRetrievalEvaluator", searched),
    ("InformationRetrievalEvaluator", lambda t: searched(t) | NAMED | {"corpus_chunk_size": 13, "map_at_k": [5, 20]}),
    ("RerankingEvaluator", lambda t: {"samples": samples(t)}),
    ("RerankingEvaluator", lambda t: {"samples": samples(t), "at_k": 3, "use_batched_encoding": False, "name": "dev"}),
    ("TranslationEvaluator", lambda t: {"source_sentences": t[:40], "target_sentences": t[40:80]}),
    ("TripletEvaluator", triples),
    ("TripletEvaluator", lambda t: triples(t) | NAMED | {"similarity_fn_names": ALL, "margin": 0.05}),
]
OF_ROWS = [
    *CASES,
    ("EmbeddingSimilarityEvaluator", lambda t: scored(t, precision="binary", main_similarity="dot")),
    ("EmbeddingSimilarityEvaluator", lambda t: scored(t, precision="uint8", truncate_dim=64, name="dev")),
    ("ParaphraseMiningEvaluator", lambda t: mined(t)),
    ("ParaphraseMiningEvaluator", lambda t: mined(t) | NAMED | {"add_transitive_closure": True, "top_k": 5}),
]  # fmt: skip
OF_VECTORS = [
    ("InformationRetrievalEvaluator", searched),
    ("RerankingEvaluator", lambda t: {"samples": samples(t)}),
    ("TripletEvaluator", triples),
]


def mined(texts):
    distinct = list(dict.fromkeys(texts))
    known = {f"t{place}": text for place, text in enumerate(distinct)}
    same = [(a, b) for a in known for b in known if a < b and known[a].split()[1:] == known[b].split()[1:]]
    return {"sentences_map": known, "duplicates_list": same}


@pytest.mark.parametrize("name, arguments", OF_ROWS)
def test_of_rows(dense, texts, tmp_path, name, arguments):
    given = arguments(texts)
    ours, theirs = (getattr(module, name)(**given) for module in (evaluation, of_rows))
    models = dense
    if "precision" in given:  # a number between two levels goes to either, so that both get the same rows
        models, theirs.store_metrics_in_model_card_data = (dense[0], dense[0]), lambda *arguments: None
    compare(ours, theirs, models, tmp_path)


@pytest.mark.parametrize("name, arguments", CASES)
def test_of_sparse_rows(words, texts, tmp_path, name, arguments):
    given = arguments(texts)
    ours, theirs = (getattr(module, f"Sparse{name}")(**given) for module in (evaluation, of_words))
    compare(ours, theirs, words, tmp_path, RELATIVE)


@pytest.mark.parametrize("most", [None, 8])
def test_the_distance_of_sparse_rows(words, texts, tmp_path, most):
    given = {"source_sentences": texts[:20], "target_sentences": texts[20:40], "max_active_dims": most, "name": "dev"}
    ours, theirs = (
        module.SparseMSEEvaluator(teacher_model=model, **given) for module, model in zip((evaluation, of_words), words)
    )
    compare(ours, theirs, words, tmp_path, RELATIVE)


@pytest.mark.parametrize("name, arguments", OF_VECTORS)
def test_of_vectors_of_tokens(late, texts, tmp_path, name, arguments):
    given = arguments(texts)
    ours, theirs = (getattr(module, f"MultiVector{name}")(**given) for module in (evaluation, of_vectors))
    compare(ours, theirs, late, tmp_path, RELATIVE)


def test_the_distance_of_rows(dense, texts, tmp_path):
    given = {"source_sentences": texts[:20], "target_sentences": texts[20:40], "name": "dev"}
    ours, theirs = (
        module.MSEEvaluator(teacher_model=model, **given) for module, model in zip((evaluation, of_rows), dense)
    )
    compare(ours, theirs, dense, tmp_path)


def test_of_scored_pairs(ranker, texts, tmp_path):
    pairs = list(zip(*of_pairs_of_texts(texts)))
    classes = labels(texts) if ranker[0].num_labels == 1 else [place % ranker[0].num_labels for place in range(60)]
    given = [("CrossEncoderClassificationEvaluator", {"sentence_pairs": pairs, "labels": classes, "name": "dev"})]
    if ranker[0].num_labels == 1:
        ranked = samples(texts)
        for each in ranked:
            wrong = each.pop("negative")
            each["documents"] = wrong[:2] + each["positive"][:2] + wrong[2:]
        given += [
            ("CrossEncoderCorrelationEvaluator", {"sentence_pairs": pairs, "scores": scores(texts)}),
            ("CrossEncoderRerankingEvaluator", {"samples": samples(texts), "at_k": 4}),
            ("CrossEncoderRerankingEvaluator", {"samples": ranked, "name": "all"}),
            ("CrossEncoderRerankingEvaluator", {"samples": ranked, "always_rerank_positives": False}),
        ]
    for place, (name, arguments) in enumerate(given):
        ours, theirs = (getattr(module, name)(**arguments) for module in (evaluation, of_pairs))
        compare(ours, theirs, ranker, tmp_path / str(place), RELATIVE)


def test_the_fusion_of_two_searches(texts, tmp_path):
    dense, sparse = [], []
    for place, query in enumerate(texts[:12]):
        known = list(dict.fromkeys(texts[15 + place : 60]))
        right = [text for text in known if text.split()[-1] == query.split()[-1]]
        base = {"query_id": f"q{place}", "query": query, "positive": right[:3]}
        dense.append(base | {"documents": known[:9]})
        sparse.append(base | {"documents": known[14:3:-1]})
    results = []
    for side, module in (("ours", evaluation), ("theirs", of_words)):
        made = module.ReciprocalRankFusionEvaluator(dense, sparse, at_k=5, name="dev", write_predictions=True)
        results.append((made(str(tmp_path / side)), made.primary_metric, made.csv_headers))
    assert results[0][1:] == results[1][1:] and list(results[0][0]) == list(results[1][0])
    assert all(near(results[0][0][key], value, 1e-12) for key, value in results[1][0].items())
    ours, theirs = (
        {path.name: path.read_text() for path in (tmp_path / side).iterdir()} for side in ("ours", "theirs")
    )
    assert ours.keys() == theirs.keys()
    name = next(name for name in ours if name.endswith("jsonl"))
    assert [json.loads(line) for line in ours[name].splitlines()] == [
        json.loads(line) for line in theirs[name].splitlines()
    ]


def test_several_in_turn_and_written_hits(dense, texts, tmp_path):
    found = []
    for side, model, module, base in zip(("ours", "theirs"), dense, (evaluation, of_rows), (evaluation, of_all)):
        search = module.InformationRetrievalEvaluator(**searched(texts), write_predictions=True, name="dev")
        both = base.SequentialEvaluator([search, module.TripletEvaluator(**triples(texts))])
        found.append(model.evaluate(both, str(tmp_path / side)))
        assert both.primary_metric == "sequential_score"
    assert list(found[0]) == list(found[1])
    assert all(near(found[0][key], found[1][key], UNIT) for key in found[0])
    name = "Information-Retrieval_evaluation_dev_predictions_cosine.jsonl"
    left, right = (
        [json.loads(line) for line in (tmp_path / side / name).read_text().splitlines()] for side in ("ours", "theirs")
    )
    for ours, theirs in zip(left, right, strict=True):
        assert ours.keys() == theirs.keys() and ours["query_id"] == theirs["query_id"]
        assert all(near(a["score"], b["score"], UNIT) for a, b in zip(ours["results"], theirs["results"], strict=True))


@pytest.mark.parametrize("name", [name for name in evaluation.__all__ if name != "InputExample"])
def test_arguments_have_their_names_order_and_defaults(name):
    modules = (of_rows, of_pairs, of_words, of_vectors, of_all)
    theirs = next(getattr(module, name) for module in modules if hasattr(module, name))
    if name.startswith("CE") or name == "MultiVectorTripletEvaluator":
        return  # older names, and one whose arguments are its base's

    def shown(kind):
        defaults = [(each.name, each.default, each.kind) for each in inspect.signature(kind).parameters.values()]
        return [
            (name, list(value) if isinstance(value, tuple) else getattr(value, "__name__", value))
            for name, value, kind in defaults
            if kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        ]

    ours, expected = shown(getattr(evaluation, name)), shown(theirs)
    if name == "SequentialEvaluator":
        ours, expected = ([each[0] for each in both] for both in (ours, expected))
    assert ours == expected
