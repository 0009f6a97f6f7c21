"""Texts of folders with a chat template are the messages of a user, as sentence-transformers 6.2 encodes them."""

import json

import numpy as np
import pytest
from models import chat

from grilly import SentenceTransformer
from grilly.errors import InvalidArgumentError, ModelFormatError, UnsupportedError

TEXTS = ["A dog and a cat.", "", "  the rain  \n", "one two three " * 60]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The decoder without a template, whose tokenizer puts nothing around a text."""
    with SentenceTransformer(chat.build(tmp_path_factory.mktemp("plain"), None), device="cpu") as model:
        assert model._core.messages() is None
        yield model


def load(folder, template, more=None, **arguments):
    return SentenceTransformer(chat.build(folder, template, more=more), device="cpu", **arguments)


SIMPLE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}so{% endif %}"


def test_a_text_is_a_message(plain, tmp_path):
    with load(tmp_path, SIMPLE) as model:
        assert model._core.messages() == "flat" and model.preprocess(["a"])["modality"] == "message"
        rendered = [f"<user>{text}\n" for text in TEXTS[:3]]
        assert np.array_equal(model.encode(TEXTS[:3]), plain.encode(rendered))
        prompted = [f"<system>Find: \n{text}" for text in rendered]
        assert np.array_equal(model.encode(TEXTS[:3], prompt="Find: "), plain.encode(prompted))
        features = model.preprocess(["a"], prompt="Find: ")
        assert features["input_ids"].tolist() == [plain.tokenizer.encode("<system>Find: \n<user>a\n")]
        assert "prompt_length" not in features
        # The tokenizer itself has no messages.
        assert model.tokenizer.encode("a") == plain.tokenizer.encode("a")


def test_what_follows_a_text_is_kept_of_a_long_one(plain, tmp_path):
    with load(tmp_path, SIMPLE + "the end", max_seq_length=20) as model:
        ids = model.preprocess([TEXTS[3]])["input_ids"][0].tolist()
    whole = plain.tokenizer.encode(f"<user>{TEXTS[3]}")
    end = plain.tokenizer.encode("\nthe end")
    assert len(ids) == 20 and ids[: 20 - len(end)] == whole[: 20 - len(end)] and ids[20 - len(end) :] == end


@pytest.mark.parametrize(
    "more, expected",
    [
        ({}, "<user>a\n"),
        ({"processing_kwargs": {"chat_template": {"add_generation_prompt": True}}}, "<user>a\nso"),
        ({"processing_kwargs": {"chat_template": {"chat_template": "{{ messages[0].content }}!"}}}, "a!"),
    ],
)
def test_settings_of_messages(plain, tmp_path, more, expected):
    with load(tmp_path, SIMPLE, more=more) as model:
        ids = model.preprocess(["a"])["input_ids"][0].tolist()
        assert ids == plain.tokenizer.encode(expected)


def test_a_limit_of_messages(plain, tmp_path):
    """Given to the template or to the tokenizer's call; the last token is the template's."""
    for place, name in enumerate(("chat_template", "text")):
        with load(tmp_path / str(place), SIMPLE, more={"processing_kwargs": {name: {"max_length": 2}}}) as model:
            first, *_, last = plain.tokenizer.encode("<user>a\n")
            assert model.preprocess(["a"])["input_ids"].tolist() == [[first, last]]


def test_where_templates_stand(plain, tmp_path):
    """A file counts before the setting, an argument before both; of several the one called default counts."""
    folder = chat.build(tmp_path, SIMPLE)
    (folder / "chat_template.jinja").write_text("file {{ messages[0].content }}")
    with SentenceTransformer(folder, device="cpu") as model:
        assert np.array_equal(model.encode("a"), plain.encode("file a"))
    given = {"processor_kwargs": {"chat_template": "given {{ messages[0].content }}"}}
    with SentenceTransformer(folder, device="cpu", **given) as model:
        assert np.array_equal(model.encode("a"), plain.encode("given a"))
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "other.jinja").write_text("other")
    with SentenceTransformer(folder, device="cpu") as model:
        assert model._core.messages() == "structured"  # several: the reference looks into none of them


def test_a_saved_folder_keeps_its_messages(tmp_path):
    with load(tmp_path / "made", SIMPLE) as model:
        model.save_pretrained(tmp_path / "saved")
        settings = json.loads((tmp_path / "saved" / "sentence_bert_config.json").read_text())
        assert settings["modality_config"]["message"]["format"] == "flat"
        with SentenceTransformer(tmp_path / "saved", device="cpu") as again:
            assert np.array_equal(again.encode(TEXTS), model.encode(TEXTS))


def test_what_a_template_refuses(tmp_path):
    with load(tmp_path / "a", chat.TEMPLATES["turns"]) as model:
        with pytest.raises(InvalidArgumentError, match="System role not supported"):
            model.encode("a", prompt="Find: ")
    with pytest.raises(UnsupportedError, match="the chat template"):
        load(tmp_path / "b", "{% for %}")
    with pytest.raises(UnsupportedError, match="no chat template"):
        load(tmp_path / "c", None, more={})
    with pytest.raises(UnsupportedError, match=r"several chat templates \['a'\]|\"a\""):
        load(tmp_path / "d", {"a": ""})
    with pytest.raises(UnsupportedError, match="continue_final_message"):
        load(tmp_path / "e", SIMPLE, more={"processing_kwargs": {"chat_template": {"continue_final_message": True}}})
    with pytest.raises((UnsupportedError, ModelFormatError), match="format"):
        load(tmp_path / "f", SIMPLE, more={"message": {"format": "rows"}})


def test_pairs_need_their_roles(plain, tmp_path):
    with load(tmp_path / "a", chat.TEMPLATES["roles"]) as model:
        assert np.array_equal(model.encode([("a", "b")])[0], plain.encode("query: a\ndocument: b\n"))
        assert np.array_equal(model.encode_query("a"), plain.encode("user: a\nfor query"))
    with (
        load(tmp_path / "b", chat.TEMPLATES["marks"]) as model,
        pytest.raises(UnsupportedError, match="leaves out a text"),
    ):
        model.encode([("a", "b")])


def test_texts_in_dicts_and_pairs(tiny_model, tmp_path):
    """As in sentence-transformers: `{"text": ...}` is its text, a pair has the tokenizer's template of two."""
    with SentenceTransformer(tiny_model, device="cpu") as model:
        assert np.array_equal(model.encode([{"text": "a dog"}, "a cat"]), model.encode(["a dog", "a cat"]))
        assert model.encode({"text": "a dog"}).shape == (32,)
        mixed = model.encode([("a dog", "the cat"), "a cat", ["on", "one"]])
        assert np.array_equal(mixed[1], model.encode("a cat")) and mixed.shape == (3, 32)
        with pytest.raises(InvalidArgumentError, match=r"texts\[1\] has 3 texts"):
            model.encode(["a", ("a", "b", "c")])
        with pytest.raises(TypeError, match=r"texts\[0\] is a dict of \['image'\]"):
            model.encode([{"image": "x"}])
        with pytest.raises(InvalidArgumentError, match="is a pair"):
            model.encode([("a", "b")], output_value="token_embeddings")
