"""Tokenizers of each family with arguments that agree with tokenizer.json and that do not, and the texts for them."""

import shutil
from pathlib import Path

from . import families
from .variants import sized, write_json
from .varied_texts import edges, varied

GOLDEN = families.FIXTURES / "tokens.npz"
TEXTS = [*edges()[::4], *varied(100, seed=3)]
MOST = 64  # tokens of a text
MASK = {"content": "<mask>", "lstrip": True, "rstrip": True, "normalized": False, "single_word": False, "special": True}
# The file of sentencepiece's that a class reads.
PIECES = dict.fromkeys(["XLMRobertaTokenizer", "CamembertTokenizer"], "sentencepiece.bpe.model")
PIECES |= dict.fromkeys(["AlbertTokenizer", "BigBirdTokenizer", "T5Tokenizer"], "spiece.model")
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
    "gpt_neox": ("gpt2", {"tokenizer_class": "GPTNeoXTokenizer", "add_eos_token": True}),
    "gpt2, cohere": ("gpt2", {"tokenizer_class": "CohereTokenizer"}),
    "gpt2, later": ("gpt2", {"tokenizer_class": "Qwen3_5Tokenizer"}),
    "gpt2, deberta": ("gpt2", {"tokenizer_class": "DebertaTokenizer"}),
    "llama": ("llama", {"tokenizer_class": "LlamaTokenizer"}),
    "llama, legacy": ("llama", {"tokenizer_class": "LlamaTokenizerFast", "legacy": True}),
    "llama, not spaced": ("llama", {"tokenizer_class": "Phi3Tokenizer", "add_prefix_space": False}),
    "gemma": ("llama", {"tokenizer_class": "GemmaTokenizer"}),
    "big_bird": ("xlm-roberta", {"tokenizer_class": "BigBirdTokenizer"}),
    "herbert": ("llama", {"tokenizer_class": "HerbertTokenizer", "cls_token": "<s>", "sep_token": "</s>"}),
    "barthez": ("camembert", {"tokenizer_class": "BarthezTokenizer"}),
    "dpr": ("electra", {"tokenizer_class": "DPRQuestionEncoderTokenizer", "do_lower_case": False}),
    "convbert": ("electra", {"tokenizer_class": "ConvBertTokenizer", "do_lower_case": False, "cls_token": "the"}),
    "xlm-roberta, pieces": ("scored", {"tokenizer_class": "XLMRobertaTokenizer"}),
    "camembert, pieces": ("scored", {"tokenizer_class": "CamembertTokenizer"}),
    "albert, pieces": ("scored", {"tokenizer_class": "AlbertTokenizer"}),
    "big_bird, pieces": ("scored", {"tokenizer_class": "BigBirdTokenizer"}),
    "t5, pieces": ("scored", {"tokenizer_class": "T5Tokenizer", "extra_ids": 4}),
    "pieces": ("scored", {"tokenizer_class": "PreTrainedTokenizerFast", "add_eos_token": True}),
    "llama, pieces": ("merged", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}),
    "gemma, pieces": ("merged", {"tokenizer_class": "GemmaTokenizer"}),
    "merged pieces": ("merged", {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": {"650": MASK}}),
    "merged pieces, first": ("merged", {"tokenizer_class": "PreTrainedTokenizerFast", "legacy": False}),
    "camembert": ("camembert", {"tokenizer_class": "CamembertTokenizer"}),
    "camembert, left": ("camembert", {"tokenizer_class": "CamembertTokenizerFast", "truncation_side": "left"}),
}


def build(case: str, folder: Path) -> Path:
    """A small BERT with the tokenizer of a case; more rows than pieces, for tokens that the arguments add."""
    tokenizer, config = CASES[case]
    checkpoint = sized(1, vocab_size=700, max_position_embeddings=MOST, num_hidden_layers=1)
    checkpoint.modules = checkpoint.transformer = None
    checkpoint.write(folder)
    if (stored := families.TOKENIZERS / f"{tokenizer}.model").exists():
        for name in ("tokenizer.json", "vocab.txt"):
            (folder / name).unlink(missing_ok=True)
        shutil.copy(stored, folder / PIECES.get(config["tokenizer_class"], "tokenizer.model"))
    else:
        families.write_tokenizer(tokenizer, folder)
    write_json(folder / "tokenizer_config.json", config)
    return folder
