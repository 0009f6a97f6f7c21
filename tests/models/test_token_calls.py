"""Calls of `model.tokenizer` against stored results of transformers' tokenizers, and from many threads."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from grilly import SentenceTransformer
from grilly.errors import UnsupportedError

from . import families, token_calls

STORED = json.loads(token_calls.TABLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """The tokenizers by name."""
    models = {}
    for tokenizer, name in token_calls.NAMES.items():
        models[tokenizer] = SentenceTransformer(families.build(name, tmp_path_factory.mktemp("calls")), device="cpu")
    yield {name: model.tokenizer for name, model in models.items()}
    for model in models.values():
        model.close()


@pytest.mark.parametrize("name", token_calls.NAMES)
def test_the_results_are_those_of_the_reference(tokenizers, name):
    found, expected = token_calls.results(tokenizers[name]), STORED[name]
    calls = [*token_calls.CALLS, *token_calls.ATTRIBUTES]
    for call, own, other in zip(calls, found, expected, strict=True):
        assert own == other, call


def test_eight_threads(tokenizers):
    texts = [f"the cat {number} " * (number % 7) for number in range(200)]

    def work(number):
        name = ("electra", "roberta")[number % 2]
        return name, [
            tokenizers[name](texts, truncation=True, max_length=5 + number),
            tokenizers[name].decode(range(50)),
        ]

    expected = {number: work(number) for number in range(16)}
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, list(range(16)) * 4)) == list(expected.values()) * 4


@pytest.fixture
def tokenizer(tokenizers):
    return tokenizers["electra"]


def test_the_calls_of_text_splitters(tokenizer):
    """What splitters by tokens do: the ids of the whole text, windows of them, and the texts of these."""
    text = "the children of the king went into the house " * 30
    ids = tokenizer.encode(text, max_length=2**32, truncation="do_not_truncate")[1:-1]
    assert len(ids) > 4 * tokenizer.model_max_length
    parts = [tokenizer.decode(ids[start : start + 30]) for start in range(0, len(ids), 30)]
    assert " ".join(parts) == text.strip()
    assert tokenizer.encode(text, add_special_tokens=False) == ids
    assert tokenizer.encode(text, truncation=True)[:-1] == [
        tokenizer.cls_token_id,
        *ids[: tokenizer.model_max_length - 2],
    ]


def test_the_calls_of_late_chunking(tokenizer):
    text = "The harbour froze. 🍋 Lemons are sour. Ice."
    encoded = tokenizer(text, return_tensors="np", return_offsets_mapping=True)
    assert encoded["input_ids"].shape == encoded["attention_mask"].shape == (1, len(encoded.tokens()))
    ends = [
        int(end) for (_, end), token in zip(encoded["offset_mapping"][0], encoded.tokens(), strict=True) if token == "."
    ]
    assert [text[:end].count(".") for end in ends] == [1, 2, 3] and text[ends[0] :].startswith(" 🍋 L")


def test_errors(tokenizer, tokenizers):
    for options, kind, message in [
        ({"padding": "longer"}, ValueError, "padding is 'longer', expected True, False or one of longest"),
        ({"truncation": "last"}, ValueError, "truncation is 'last'.*longest_first"),
        ({"max_length": 1}, ValueError, "max_length is 1, but 2 special tokens"),
        ({"max_length": 5, "stride": 4}, ValueError, "stride is 4, expected less than 4"),
        ({"text_pair": ["a " * 9] * 2, "max_length": 8, "stride": 2}, ValueError, "stride is 2, expected less than 2"),
        ({"max_length": -1}, ValueError, "max_length is -1"),
        ({"max_length": "8"}, TypeError, "max_length is of type str"),
        ({"truncation": "only_second", "max_length": 3}, ValueError, "[Ss]econd"),
        ({"padding": True, "truncation": True, "max_length": 9, "pad_to_multiple_of": 8}, ValueError, "multiple"),
        ({"return_tensors": "tf"}, ValueError, "return_tensors is 'tf', expected 'np' or 'pt'"),
        ({"padding": True, "padding_side": "top"}, ValueError, "padding_side is 'top'"),
        ({"text_pair": "a"}, TypeError, "text_pair is a str"),
        ({"text_pair": ["a"]}, ValueError, "2 first and 1 second texts"),
        ({"max_lenght": 8}, TypeError, "max_lenght"),
    ]:
        with pytest.raises(kind, match=message):
            tokenizer(["the cat", "a"], **options)
    assert [len(row) for row in tokenizer(["the cat", "a"], return_tensors="np")["input_ids"]] == [5, 3]
    for text, kind in ((3, TypeError), ([None], TypeError), ("\ud800", ValueError), ([("a", "b"), "c"], TypeError)):
        with pytest.raises(kind):
            tokenizer(text)
    for ids, kind in (
        (-1, ValueError),
        ([1, -100], ValueError),
        (["a"], TypeError),
        (None, TypeError),
        (1.5, TypeError),
    ):
        with pytest.raises(kind, match="token_ids"):
            tokenizer.decode(ids)
    with pytest.raises(ValueError, match="text is None"):
        tokenizer()
    for name in ("add_tokens", "apply_chat_template", "encode_plus", "save_pretrained"):
        with pytest.raises(NotImplementedError, match=f"Tokenizer.{name} is left out: "):
            getattr(tokenizer, name)
    with pytest.raises(AttributeError, match="no_such_name"):
        tokenizer.no_such_name  # noqa: B018


def test_padding_without_a_padding_token(tmp_path):
    folder = families.build("qwen2", tmp_path)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": None}))
    with SentenceTransformer(folder, device="cpu") as model:
        tokenizer = model.tokenizer
        assert tokenizer.pad_token is None and tokenizer.pad_token_id is None
        for call in (lambda: tokenizer(["a", "a b"], padding=True), lambda: model.preprocess(["a", "a b c d"])):
            with pytest.raises(UnsupportedError, match="tokenizer.pad_token = .*tokenizer.eos_token"):
                call()
        tokenizer.pad_token = tokenizer.eos_token
        assert tokenizer(["a", ""], padding=True)["input_ids"][1] == [tokenizer.eos_token_id]
        tokenizer.padding_side = "left"
        assert model.preprocess(["a", "a b c d"])["attention_mask"][0].tolist()[0] == 0


def test_no_texts_and_results(tokenizer):
    assert tokenizer([]) == {"input_ids": [], "token_type_ids": [], "attention_mask": []}
    assert tokenizer([], return_tensors="np")["input_ids"].shape == (0,)
    found = tokenizer(np.array(["the cat", ""]), text_target=["a", "b"])
    assert found["labels"] == tokenizer(["a", "b"])["input_ids"] and isinstance(found, dict)
    assert found.to("cpu") is found and dict(**found) == found
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert again == found
        with pytest.raises(RuntimeError, match="encode the texts again"):
            again.tokens()
    for wrong in (lambda: found.tokens(2), lambda: found[7], lambda: found.token_to_chars(0, -9)):
        with pytest.raises(IndexError):
            wrong()
    with pytest.raises(AttributeError, match="there are input_ids"):
        found.input_id  # noqa: B018
