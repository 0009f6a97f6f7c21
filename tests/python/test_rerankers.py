"""`CrossEncoder` of decoders: scores of the last token, logits of named tokens, beginnings that pairs share."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from fixtures.listed_heads import ROLES
from models import families, heads
from models.golden import same_bits
from models.spoil import change_json, rewrite

from grilly import CrossEncoder, SentenceTransformer, errors
from grilly.scores import identity

PAIRS = [("a dog", "the cat and a dog"), ("one two three", "four"), ("a dog", "a dog"), ("rain", "")]


@pytest.fixture(scope="module")
def scored(tmp_path_factory) -> Path:
    """A LLaMA with three scores."""
    return heads.build("scores", "llama", tmp_path_factory.mktemp("scored"))


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Path:
    """A Qwen3 with LogitScore and a template of queries and documents."""
    return heads.build("scores", "qwen3-logits", tmp_path_factory.mktemp("listed"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Path:
    """A LLaMA for the next word, without modules.json."""
    folder = families.build("llama", tmp_path_factory.mktemp("bare"))
    change_json(folder / "tokenizer_config.json", chat_template=ROLES)
    return folder


@pytest.fixture
def copy(tmp_path):
    return lambda folder: Path(shutil.copytree(folder, tmp_path / "copy"))


def load(folder: Path, **arguments) -> CrossEncoder:
    return CrossEncoder(folder, device="cpu", **arguments)


def logits(model: CrossEncoder, pairs=PAIRS, **options) -> np.ndarray:
    return model.predict(pairs, activation_fn=identity, **options)


# ------------------------------------------------------------------------------------------- scores of a last token


def test_a_head_that_is_missing_or_of_another_shape(scored, copy):
    folder = copy(scored)
    rewrite(folder, lambda tensors: tensors.update({"score.weight": np.zeros((3, 35), np.float32)}))
    with pytest.raises(errors.WeightsError, match=r"score.weight has shape \[3, 35\], expected \[3, 36\]"):
        load(folder)
    rewrite(folder, lambda tensors: tensors.pop("score.weight"))
    with pytest.raises(errors.WeightsError, match="missing score.weight"):
        load(folder)
    change_json(folder / "config.json", is_causal=False)
    with pytest.raises(errors.UnsupportedError, match="config.json: is_causal false with a head for scores"):
        load(folder)


def test_batches_need_a_padding_token(scored, copy):
    """As in the reference, which scores single pairs without one."""
    with load(scored) as model:
        expected = logits(model)
    folder = copy(scored)
    change_json(folder / "config.json", pad_token_id=None)
    with load(folder) as model:
        with pytest.raises(errors.ModelFormatError, match=r"config.json: pad_token_id is missing.*batch_size to 1"):
            model.predict(PAIRS)
        assert same_bits(logits(model, batch_size=1), expected)
        assert same_bits(logits(model, PAIRS[0]), expected[0])
    with load(folder, config_kwargs={"pad_token_id": 0}) as model:
        assert same_bits(logits(model), expected)
    change_json(folder / "config.json", pad_token_id="0")
    with pytest.raises(errors.ModelFormatError, match="config.json: pad_token_id is"):
        load(folder)


def test_padding_at_the_end_is_not_scored(scored, copy):
    with load(scored) as model:
        ids = model._core.tokenize_pairs(*map(list, zip(*PAIRS, strict=True)))[0]
        expected, padding = logits(model), ids[0][-1]
    folder = copy(scored)
    change_json(folder / "config.json", pad_token_id=padding)
    with load(folder) as model:
        cut = logits(model)
        assert not np.array_equal(cut, expected)
        # Nothing but padding: its first token is scored.
        change_json(folder / "config.json", pad_token_id=ids[0][0])
        assert model._core.tokenize_pairs(["a dog"], ["the cat and a dog"])[0] == ids[:1]
    rows = [row[:-1] for row in ids]
    while any(row[-1] == padding for row in rows):
        rows = [row[:-1] if row[-1] == padding else row for row in rows]
    with load(scored) as model:
        found = model._core.encode_rows((rows, [[0] * len(row) for row in rows]), {"tokens": False})
        assert same_bits(found.texts, cut)


# ------------------------------------------------------------------------------------------- logits of tokens


def test_only_the_logits_of_named_tokens_are_computed(listed):
    with load(listed) as model:
        assert model.num_labels == 1 and model.activation_fn.__name__ == "sigmoid"
        assert [type(module).__name__ for module in model] == ["Transformer", "LogitScore"]
        score = model[1]
        assert (score.true_token_id, score.false_token_id, score.module_input_name) == (40, 41, "causal_logits")
        assert "(logit of token 40[B, 1], logit of token 41[B, 1]) -> [B, 1]" in model.plan
        assert model.plan.count("[600, 36]") == 1, "the table of the embeddings"
        assert model.default_prompt_name == "rank" and model.max_seq_length == 120


def test_tokens_are_named_for_a_folder_that_names_none(bare):
    with pytest.raises(errors.UnsupportedError, match='no token "yes".*true_token and false_token'):
        load(bare)
    with load(bare, true_token="one") as one, load(bare, true_token="Ġthe") as the:
        single = [logits(model).astype(np.float64) for model in (one, the)]
    with load(bare, true_token="one", false_token=" the") as both:
        found = logits(both)
        assert both[1].false_token_id == both.tokenizer.convert_tokens_to_ids("Ġthe")
        assert np.abs(found - (single[0] - single[1])).max() <= 1e-6 * max(map(np.abs, map(np.max, single)))
        assert both.predict(PAIRS).tolist() == pytest.approx((1 / (1 + np.exp(-found.astype(np.float64)))).tolist())
        found = both.rank("a dog", [second for _, second in PAIRS], prompt="Find.")
        assert len(found) == len(PAIRS)


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        ({"true_token": "dog and cat"}, ValueError, r'true_token "dog and cat" is \d+ tokens of this tokenizer'),
        ({"true_token": "one", "false_token": ""}, ValueError, 'false_token "" is 0 tokens'),
        ({"false_token": "one"}, ValueError, "false_token is given without true_token"),
        ({"true_token": 3}, TypeError, "true_token is of type int"),
    ],
)
def test_tokens_that_are_none(bare, arguments, kind, words):
    with pytest.raises(kind, match=words):
        load(bare, **arguments)


def test_tokens_are_not_named_where_the_folder_says_what_is_scored(listed, scored):
    with pytest.raises(errors.InvalidArgumentError, match=r"1_LogitScore/config.json says which tokens are scored"):
        load(listed, true_token="one")
    with pytest.raises(errors.InvalidArgumentError, match="a head for scores of its own"):
        load(scored, true_token="one")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"true_token_id": 600}, "true_token_id is 600, but the vocabulary has 600 tokens"),
        ({"false_token_id": 9999}, "false_token_id is 9999, but"),
        ({"true_token_id": None}, "true_token_id is missing"),
        ({"true_token_id": "yes"}, "true_token_id is"),
        ({"threshold": 1}, "the module has no setting threshold"),
    ],
)
def test_bad_settings_of_the_module(listed, copy, changes, words):
    folder = copy(listed)
    change_json(folder / "1_LogitScore" / "config.json", **changes)
    with pytest.raises(errors.ModelFormatError, match=rf"1_LogitScore/config.json.*{words}"):
        load(folder)


def test_other_folders_that_cannot_be_scored(listed, bare, copy, tmp_path):
    folder = copy(listed)
    rewrite(folder, lambda tensors: tensors.pop("model.embed_tokens.weight"))
    with pytest.raises(errors.WeightsError, match="embed_tokens.weight"):
        load(folder)
    change_json(folder / "config.json", model_type="gpt2", n_embd=36, n_head=3, n_layer=2, n_positions=64)
    with pytest.raises(errors.UnsupportedError, match='"gpt2": heads for logits of the next word are known of gemma2'):
        load(folder)
    with pytest.raises(errors.UnsupportedError, match="CrossEncoder loads it"):
        SentenceTransformer(str(listed), device="cpu")
    arguments = {"processor_kwargs": {"chat_template": "{{ messages[0].content }}"}, "true_token": "one"}
    with load(bare, **arguments) as model, pytest.raises(errors.UnsupportedError, match='roles "query" and "document"'):
        model.predict(PAIRS)


def test_the_end_of_the_template_is_kept_of_a_long_pair(listed):
    with load(listed) as model:
        short, long = (model._core.tokenize_pairs(["a dog"], [text])[0][0] for text in ("cat", "one two " * 200))
    assert len(long) == 120 and long[-3:] == short[-3:] and long[:30] == short[:30]


# ------------------------------------------------------------------------------------------- shared beginnings


@pytest.mark.parametrize("name", ["qwen3", "qwen3-logits", "mistral", "gemma2-logits"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_pairs_with_one_beginning_have_the_same_bits_as_alone(tmp_path, name, dtype):
    """Beginnings shorter and longer than a block of keys, than a window; a text that begins another."""
    folder = heads.build("scores", name, tmp_path)
    with load(folder, dtype=dtype) as model:
        for query in ("a", "a dog and the cat " * 3, "one two three four five six seven " * 6):
            documents = ["the dog", "the dog ran", "", "the", "rain fell on the roof of the house " * 4, "the dog"]
            pairs = [(query, document) for document in documents]
            alone = np.array([logits(model, pair) for pair in pairs])
            assert same_bits(logits(model, pairs), alone)
            assert same_bits(logits(model, pairs, batch_size=4), alone)
            assert same_bits(logits(model, pairs[::-1]), alone[::-1].copy())
