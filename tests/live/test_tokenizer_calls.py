"""`model.tokenizer` beside transformers' tokenizer of the same folder: every method, with what callers pass to it."""

import json

import numpy as np
import pytest
from models import families, token_calls
from models.varied_texts import edges, varied
from transformers import AutoTokenizer

from grilly import SentenceTransformer

MARKS = ["[CLS] a [SEP] b", "<s>a</s> <mask>b", "a <|endoftext|> b", "[MASK]the<pad>", "It 's late , is n't it ?"]
TEXTS = [
    *(text for text in edges() if len(text) < 200),
    *varied(25, seed=5),
    *MARKS,
    "one two three four five six seven eight nine ten " * 3,
]
SHORT = ["The harbour froze.", "", "Lemons 🍋 are sour, aren't they?", "ice"]
CALLS = [
    {},
    {"add_special_tokens": False},
    {"truncation": True},
    {"truncation": True, "max_length": 9},
    {"max_length": 9},
    {"truncation": "do_not_truncate", "max_length": 2**32},
    {"truncation": "only_first", "max_length": 12, "padding": "max_length"},
    {"padding": True},
    {"padding": "longest", "pad_to_multiple_of": 8, "padding_side": "left"},
    {"padding": "max_length", "max_length": 24, "truncation": True, "return_tensors": "np"},
    {"padding": True, "truncation": True, "max_length": 16, "pad_to_multiple_of": 8, "return_tensors": "pt"},
    {"truncation": True, "max_length": 8, "stride": 1, "return_overflowing_tokens": True},
    {
        "truncation": True,
        "max_length": 8,
        "return_overflowing_tokens": True,
        "padding": True,
        "add_special_tokens": False,
    },
    {"return_token_type_ids": True, "return_attention_mask": False},
    {"split_special_tokens": True},
]
EXTRA = {"return_offsets_mapping": True, "return_special_tokens_mask": True, "return_length": True}


@pytest.fixture(scope="module", params=token_calls.NAMES)
def both(request, tmp_path_factory):
    folder = families.build(token_calls.NAMES[request.param], tmp_path_factory.mktemp("tokenizers"))
    reference = families.build_for_reference(token_calls.NAMES[request.param], tmp_path_factory.mktemp("theirs"))
    with SentenceTransformer(folder, device="cpu") as model:
        theirs = AutoTokenizer.from_pretrained(reference)
        theirs.model_max_length = model.max_seq_length
        yield model.tokenizer, theirs


def plain(value):
    value = value.tolist() if hasattr(value, "tolist") else value
    return list(map(plain, value)) if isinstance(value, list) else value


def same(own, other):
    assert list(own) == list(other)
    for name in other:
        assert type(own[name]) is type(other[name]), name
        assert plain(own[name]) == plain(other[name]), name


def same_methods(own, other):
    """What both say of tokens, words and characters."""
    for row, encoding in enumerate(other.encodings):
        assert own.tokens(row) == encoding.tokens and own.word_ids(row) == encoding.word_ids
        assert own.sequence_ids(row) == encoding.sequence_ids
        assert own[row].ids == encoding.ids and own[row].offsets == encoding.offsets
        for token in range(len(encoding.ids)):
            assert own.token_to_chars(row, token) == other.token_to_chars(row, token)
            if encoding.token_to_sequence(token) is not None:
                assert own.token_to_sequence(row, token) == other.token_to_sequence(row, token)
                assert own.token_to_word(row, token) == other.token_to_word(row, token)
        for word in {word for word in encoding.word_ids if word is not None}:
            assert own.word_to_tokens(row, word) == other.word_to_tokens(row, word)
        for place in range(20):
            assert own.char_to_token(row, place) == other.char_to_token(row, place)


@pytest.mark.parametrize("options", CALLS, ids=str)
def test_calls(both, options):
    own, theirs = both
    same(own(TEXTS, **options, **EXTRA), theirs(TEXTS, **options, **EXTRA))
    for text in TEXTS[::9]:
        same(own(text, **options, **EXTRA), theirs(text, **options, **EXTRA))
        found, expected = own.encode(text, **options), theirs.encode(text, **options)
        assert type(found) is type(expected) and plain(found) == plain(expected)


@pytest.mark.parametrize(
    "options", [options for options in CALLS if options.get("truncation") != "only_first"], ids=str
)
def test_pairs(both, options):
    own, theirs = both
    others = [*TEXTS[7:], *TEXTS[:7]]
    same(own(TEXTS, others, **options, **EXTRA), theirs(TEXTS, others, **options, **EXTRA))
    pairs = list(zip(TEXTS, others, strict=True))
    same(own(pairs, **options), theirs(pairs, **options))
    same(own(TEXTS[3], others[4], **options, **EXTRA), theirs(TEXTS[3], others[4], **options, **EXTRA))
    same(own(TEXTS[3], "", **options), theirs(TEXTS[3], "", **options))
    for which in ("only_first", "only_second"):
        same(
            own("the " * 30, "a " * 30, truncation=which, max_length=50),
            theirs("the " * 30, "a " * 30, truncation=which, max_length=50),
        )


def test_words(both):
    own, theirs = both
    words = [["The", "harbour", "froze", "."], ["ice"], ["Lemons", "🍋"]]
    for options in ({}, {"truncation": True, "max_length": 5, "return_overflowing_tokens": True}):
        same_words = own(words, is_split_into_words=True, **options, **EXTRA)
        expected = theirs(words, is_split_into_words=True, **options, **EXTRA)
        same(same_words, expected)
        same_methods(same_words, expected)
    same(own(words[0], is_split_into_words=True), theirs(words[0], is_split_into_words=True))
    same(own(words[0], words[2], is_split_into_words=True), theirs(words[0], words[2], is_split_into_words=True))


def test_methods_of_results(both):
    own, theirs = both
    for given in ((SHORT,), (SHORT, SHORT[::-1])):
        for options in (
            {},
            {"padding": True},
            {"truncation": True, "max_length": 6, "return_overflowing_tokens": True},
        ):
            same_methods(own(*given, **options), theirs(*given, **options))
    assert own(SHORT, SHORT).n_sequences == 2 and own(SHORT).input_ids == own(SHORT)["input_ids"]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("clean", [None, False, True])
def test_decoding(both, skip, clean):
    own, theirs = both
    rows = theirs(TEXTS, truncation=True, max_length=40)["input_ids"]
    options = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": clean}
    assert own.batch_decode(rows, **options) == theirs.batch_decode(rows, **options)
    assert own.decode(rows, **options) == theirs.decode(rows, **options)
    for ids in (rows[5], tuple(rows[6]), np.array(rows[7]), 7, [], theirs(SHORT[0])):
        assert own.decode(ids, **options) == theirs.decode(ids, **options)
    assert own.decode([3, 10**6], skip_special_tokens=skip) == theirs.decode([3, 10**6], skip_special_tokens=skip)
    pieces = [theirs.convert_ids_to_tokens(row, skip_special_tokens=skip) for row in rows]
    assert [own.convert_ids_to_tokens(row, skip_special_tokens=skip) for row in rows] == pieces
    assert [own.convert_tokens_to_string(row) for row in pieces] == [
        theirs.convert_tokens_to_string(row) for row in pieces
    ]


def test_tokens(both):
    own, theirs = both
    for text in TEXTS:
        assert own.tokenize(text) == theirs.tokenize(text)
    assert own.tokenize("a b", pair="c", add_special_tokens=True) == theirs.tokenize(
        "a b", "c", add_special_tokens=True
    )
    tokens = [*theirs.get_vocab(), "no such token"]
    assert own.convert_tokens_to_ids(tokens) == theirs.convert_tokens_to_ids(tokens)
    assert own.convert_tokens_to_ids("no such token") == theirs.convert_tokens_to_ids("no such token")
    assert own.convert_ids_to_tokens(5) == theirs.convert_ids_to_tokens(5)
    assert own.convert_ids_to_tokens([5, 10**6]) == theirs.convert_ids_to_tokens([5, 10**6])


def test_attributes(both):
    own, theirs = both
    names = (
        "vocab_size all_special_ids all_special_tokens special_tokens_map extra_special_tokens extra_special_tokens_ids"
    )
    names += " model_max_length padding_side truncation_side is_fast vocab pad_token_type_id max_len_single_sentence"
    names += " max_len_sentences_pair clean_up_tokenization_spaces split_special_tokens added_tokens_encoder"
    for role in ("pad", "cls", "sep", "mask", "unk", "bos", "eos"):
        names += f" {role}_token {role}_token_id"
    for name in names.split():
        assert getattr(own, name) == getattr(theirs, name), name
    assert set(own.model_input_names) == set(theirs.model_input_names)
    assert len(own) == len(theirs) and own.get_vocab() == theirs.get_vocab()
    assert own.get_added_vocab() == theirs.get_added_vocab()
    for pair in (False, True):
        assert own.num_special_tokens_to_add(pair) == theirs.num_special_tokens_to_add(pair)
    ids = theirs(SHORT[0])["input_ids"]
    asked = {"already_has_special_tokens": True}
    assert own.get_special_tokens_mask(ids, **asked) == theirs.get_special_tokens_mask(ids, **asked)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": "max_length", "max_length": 20},
        {"pad_to_multiple_of": 8, "padding_side": "left", "return_tensors": "np"},
        {"return_attention_mask": False, "return_tensors": "pt"},
        {"padding": False},
    ],
    ids=str,
)
def test_padding(both, options):
    own, theirs = both
    rows = theirs(SHORT, return_special_tokens_mask=True)
    if options.get("return_attention_mask") is False:
        del rows["attention_mask"]
    same(own.pad(dict(rows), **options), theirs.pad(dict(rows), **options))
    if options.get("return_tensors") == "pt":
        return
    listed = [theirs(text) for text in SHORT]
    same(own.pad(listed, **options), theirs.pad(listed, **options))
    same(own.pad(dict(listed[0]), **options), theirs.pad(dict(listed[0]), **options))
    arrays = [{name: np.array(row) for name, row in one.items()} for one in listed]
    same(own.pad(arrays, **options), theirs.pad(arrays, **options))


def test_what_may_be_set(both, tmp_path):
    own, theirs = both
    before = own.model_max_length
    other = next(token for token in ("[MASK]", "<mask>", "the", "t") if token in theirs.get_vocab())
    for name, value in (("pad_token", other), ("truncation_side", "left"), ("clean_up_tokenization_spaces", True)):
        was = getattr(own, name)
        setattr(own, name, value)
        setattr(theirs, name, value)
        assert getattr(own, name) == getattr(theirs, name)
        options = {"padding": True, "truncation": True, "max_length": 9}
        same(own(TEXTS, **options), theirs(TEXTS, **options))
        rows = theirs(TEXTS, truncation=True)["input_ids"]
        assert own.batch_decode(rows) == theirs.batch_decode(rows)
        assert own.all_special_ids == theirs.all_special_ids
        setattr(own, name, was)
        setattr(theirs, name, was)
    own.model_max_length = theirs.model_max_length = 11
    same(own(TEXTS, truncation=True), theirs(TEXTS, truncation=True))
    own.model_max_length = theirs.model_max_length = before
    own.pad_token_id = theirs.pad_token_id = 5
    assert (own.pad_token, own.pad_token_id) == (theirs.pad_token, theirs.pad_token_id)


def test_files_that_say_more(tmp_path):
    """Settings of tokenizer_config.json that only callers of the tokenizer see."""
    folder = families.build("electra", tmp_path)
    path = folder / "tokenizer_config.json"
    said = {"clean_up_tokenization_spaces": True, "image_token": "the", "extra_special_tokens": ["[X]", "[Y]"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | said))
    with SentenceTransformer(folder, device="cpu") as model:
        own, theirs = model.tokenizer, AutoTokenizer.from_pretrained(folder)
        theirs.model_max_length = model.max_seq_length
        test_attributes((own, theirs))
        assert (own.image_token, own.image_token_id) == (theirs.image_token, theirs.image_token_id)
        test_decoding((own, theirs), True, None)
