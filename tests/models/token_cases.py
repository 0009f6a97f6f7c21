"""Tokenizers of each family with arguments that agree with tokenizer.json and that do not, and the texts for them."""

from pathlib import Path

from . import families
from .variants import sized, write_json
from .varied_texts import edges, varied

GOLDEN = families.FIXTURES / "tokens.npz"
TEXTS = [*edges()[::4], *varied(100, seed=3)]
MOST = 64  # tokens of a text
MASK = {"content": "<mask>", "lstrip": True, "rstrip": True, "normalized": False, "single_word": False, "special": True}
# The tokenizer of the fixtures, and tokenizer_config.json.
CASES = {
    "distilbert": ("distilbert", {"tokenizer_class": "DistilBertTokenizer"}),
    "distilbert, cased": ("distilbert", {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": False}),
    "electra": ("electra", {"tokenizer_class": "ElectraTokenizer"}),
    "electra, accents": ("electra", {"tokenizer_class": "ElectraTokenizerFast", "strip_accents": False}),
    "electra, Chinese words": ("electra", {"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": False}),
    "mpnet": ("mpnet", {"tokenizer_class": "MPNetTokenizer"}),
    "mpnet, other tokens": ("mpnet", {"tokenizer_class": "MPNetTokenizer", "cls_token": "the", "mask_token": "[MASK]"}),
    "mpnet, file": ("mpnet", {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}),
    "roberta": ("roberta", {"tokenizer_class": "RobertaTokenizer"}),
    "roberta, spaced": ("roberta", {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}),
    "roberta, mask": ("roberta", {"tokenizer_class": "RobertaTokenizer", "added_tokens_decoder": {"599": MASK}}),
    "gpt2": ("gpt2", {"tokenizer_class": "GPT2Tokenizer"}),
    "gpt2, around": ("gpt2", {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "add_prefix_space": True}),
    "xlm-roberta": ("xlm-roberta", {"tokenizer_class": "XLMRobertaTokenizer"}),
    "xlm-roberta, not spaced": ("xlm-roberta", {"tokenizer_class": "XLMRobertaTokenizer", "add_prefix_space": False}),
    "xlm-roberta, words": ("xlm-roberta", {"tokenizer_class": "BertTokenizer", "unk_token": "<unk>"}),
    "camembert": ("camembert", {"tokenizer_class": "CamembertTokenizer"}),
    "camembert, left": ("camembert", {"tokenizer_class": "CamembertTokenizerFast", "truncation_side": "left"}),
}


def build(case: str, folder: Path) -> Path:
    """A small BERT with the tokenizer of a case; more rows than pieces, for tokens that the arguments add."""
    tokenizer, config = CASES[case]
    checkpoint = sized(1, vocab_size=700, max_position_embeddings=MOST, num_hidden_layers=1)
    checkpoint.modules = checkpoint.transformer = None
    checkpoint.write(folder)
    families.write_tokenizer(tokenizer, folder)
    write_json(folder / "tokenizer_config.json", config)
    return folder
