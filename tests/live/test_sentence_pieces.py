"""Folders with a file of sentencepiece's instead of tokenizer.json: token ids beside those of transformers."""

import json
import shutil

import pytest
from fixtures.train_tokenizers import MERGED, train_sentence_pieces
from models.variants import sized
from models.varied_texts import edges, varied
from transformers import AutoTokenizer

from grilly import _core

TEXTS = [*edges(), *varied(1000)]
LONGEST = 8_000
ROWS = 900
BERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
DEBERTA = {f"{role}_id": number for number, role in enumerate(["pad", "bos", "eos", "unk"])}
DEBERTA |= {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
GEMMA = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "bos_piece": "<bos>", "eos_piece": "<eos>"}
GEMMA |= {"user_defined_symbols": ["<mask>", "<start_of_turn>", "\n", "\n\n", "<b>"], "add_dummy_prefix": False}
# The class, the name of its file, and how the pieces are learned.
CLASSES = {
    "XLMRoberta": ("sentencepiece.bpe", {}),
    "Camembert": ("sentencepiece.bpe", {"normalization_rule_name": "nmt_nfkc_cf"}),
    "Barthez": ("sentencepiece.bpe", {}),
    "Albert": ("spiece", BERT),
    "BigBird": ("spiece", {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "control_symbols": ["[SEP]", "[CLS]"]}),
    "DebertaV2": ("spm", DEBERTA),
    "T5": ("spiece", {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}),
    "Llama": ("tokenizer", MERGED),
    "Gemma": ("tokenizer", MERGED | GEMMA),
}
# The settings of a file that no class interprets.
ALONE = {
    "unigram": {},
    "unigram, bytes": {"byte_fallback": True, "character_coverage": 0.99, "vocab_size": 700},
    "pairs": {"model_type": "bpe"},
    "pairs, bytes": MERGED,
    "pairs, squeezed": MERGED | {"remove_extra_whitespaces": True, "normalization_rule_name": "nfkc"},
    "pairs, unprefixed": MERGED | {"add_dummy_prefix": False},
    "pairs, whole pieces": MERGED | {"user_defined_symbols": ["<sep>", "the LORD", "[x]", "\n\n", "a+b"]},
    "pairs, control": MERGED | {"control_symbols": ["<a>", "<b>"], "bos_id": -1, "eos_piece": "<end>"},
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    small = sized(1, vocab_size=ROWS, max_position_embeddings=LONGEST, num_hidden_layers=1)
    small.modules = small.transformer = None
    small.write(folder)
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    return folder


def configure(path, **values):
    (path / "tokenizer_config.json").write_text(json.dumps(values))


def same_ids(path, texts=TEXTS):
    theirs = AutoTokenizer.from_pretrained(path)
    ours = _core.EmbeddingModel.load(path, {"device": "cpu", "max_seq_length": LONGEST})
    for text, own, other in zip(texts, ours.tokenize(texts), theirs(texts)["input_ids"], strict=True):
        assert own == other, text
    assert ours.padding() == (theirs.pad_token_id, theirs.padding_side)
    return theirs


@pytest.mark.parametrize("name", CLASSES)
def test_the_file_of_a_class(checkpoint, tmp_path, name):
    path = shutil.copytree(checkpoint, tmp_path / "model")
    file, special = CLASSES[name]
    train_sentence_pieces(path / file, 600, **special)
    named = {"tokenizer_class": f"{name}Tokenizer"}
    configure(path, **named)
    assert type(same_ids(path)).__name__ == f"{name}Tokenizer"
    tokens = {
        "unk_token": "<unk>",
        "pad_token": "<other>",
        "mask_token": "the",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    for more in (
        {"add_prefix_space": False, "legacy": True, "extra_ids": 3, "do_lower_case": True, "keep_accents": True},
        {"additional_special_tokens": ["<new>"]},
        {"extra_special_tokens": []},
        {"added_tokens_decoder": {"640": {"content": "<new>", "special": True}, "5": {"content": "of"}}},
        {"add_bos_token": True, "add_eos_token": True},
        tokens,
    ):
        configure(path, **named, **more)
        same_ids(path, TEXTS[::4])
    configure(path, **named)
    (path / "added_tokens.json").write_text(json.dumps({"<new>": 640, "Éclair": 641}))
    (path / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": ["<new>"]}))
    same_ids(path, TEXTS[::4])


@pytest.mark.parametrize("case", ALONE)
def test_a_file_that_no_class_interprets(checkpoint, tmp_path, case):
    path = shutil.copytree(checkpoint, tmp_path / "model")
    special = dict(ALONE[case])
    train_sentence_pieces(path / "tokenizer", special.pop("vocab_size", 600), **special)
    named = {"tokenizer_class": "PreTrainedTokenizerFast"}
    configure(path, **named)
    assert type(same_ids(path)).__name__ == "TokenizersBackend"
    renamed = {"4": {"content": "<four>", "special": True}, "9": {"content": "the", "normalized": True}}
    for more in (
        {"legacy": False},
        {"legacy": None, "add_bos_token": True, "add_eos_token": True},
        {"added_tokens_decoder": renamed | {"700": {"content": "<new> ", "lstrip": True}}},
        {"pad_token": "<s>", "padding_side": "left", "add_eos_token": True},
    ):
        configure(path, **named, **more)
        same_ids(path, TEXTS[::4])
