"""Every key of tokenizer_config.json that transformers' loading code and classes read, and what it does here.

The table is complete: what the code reads is found in its source, and by the signatures of the classes.
"""

import inspect
import json
import re
import shutil

import pytest
import transformers
from fixtures.train_tokenizers import train
from models.variants import sized
from models.varied_texts import edges, varied
from transformers import AutoTokenizer, tokenization_utils_base, tokenization_utils_tokenizers

from grilly import _core
from grilly.errors import GrillyError

TEXTS = [*edges(), *varied(100, seed=5), "a<new>b <new> the", "it's n't 3.14 e\u0301"]
LONGEST = 2_000
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
TOKEN = {"__type": "AddedToken", "content": "<new>", "lstrip": True, "rstrip": False, "special": True}
# Values that are tried of keys that change ids here as there, or are refused here.
HONOURED = {
    **dict.fromkeys(ROLES, ["the", TOKEN, "<other>"]),
    "add_bos_token": [True],
    "add_eos_token": [True],
    "add_prefix_space": [True, False],
    "added_tokens_decoder": [{"640": {"content": "<new>", "special": True}, "7": {"content": "in", "lstrip": True}}],
    "additional_special_tokens": [["<new>", TOKEN], []],
    "do_lower_case": [True, False],
    "extra_ids": [7],
    "extra_special_tokens": [["<new>"], {"image_token": "<new>"}],
    "fix_mistral_regex": [True],
    "keep_accents": [True],
    "legacy": [True, False, None],
    "model_input_names": [["input_ids", "attention_mask", "token_type_ids"]],
    "model_specific_special_tokens": [{"image_token": "<new>"}],
    "padding_side": ["left", "right"],
    "split_by_punct": [True],
    "split_special_tokens": [True],
    "strip_accents": [True, False],
    "tokenize_chinese_chars": [False],
    "tokenizer_class": ["BertTokenizerFast"],
    "truncation_side": ["left"],
    "unk_id": [3],
}
# Those that are refused; the last is honoured for code that is known.
REFUSED = {
    "fast_tokenizer_files": [["tokenizer.4.0.0.json", "tokenizer.json"]],
    "auto_map": [{"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]}],
}
# Those of which the limit of a text is another part's.
OF_LIMITS = {"model_max_length": [300], "max_len": [300]}
# Those without effect on ids, with a value other than the default.
WITHOUT_EFFECT = {
    "backend": ["custom"],
    "chat_control_tokens": [["<new>"]],
    "chat_template": ["{{ messages }}"],
    "clean_up_tokenization_spaces": [True],
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": [True],
    "errors": ["ignore"],
    "files_loaded": [["tokenizer.json"]],
    "grounded_generation_template": ["{{ messages }}"],
    "is_local": [False],
    "local_files_only": [True],
    "max_length": [5],
    "merges_file": ["other.txt"],
    "name_or_path": ["org/other"],
    "pad_to_multiple_of": [8],
    "pad_token_type_id": [1],
    "response_schema": [{}],
    "response_template": ["the"],
    "special_tokens_map_file": ["other.json"],
    "stride": [2],
    "tokenizer_file": ["other.json"],
    "tool_use_template": ["{{ messages }}"],
    "trim_offsets": [False],
    "truncation_strategy": ["only_first"],
    "use_default_system_prompt": [True],
    "use_fast": [False],
    "verbose": [True],
    "vocab_file": ["other.txt"],
}
# Arguments of calls that no file holds, values that the code passes to itself, and `processor_class`, which names a
# processor for more than texts. `return_token_type_ids` is CodeGen's.
INNER = set(
    "_commit_hash _from_auto _from_pipeline _json_padding _json_truncation _spm_precompiled_charsmap cache_dir "
    "code_revision config force_download gguf_file init_inputs merges mistral_format post_processor processor_class "
    "proxies return_token_type_ids revision subfolder token tokenizer tokenizer_object tokenizer_padding "
    "tokenizer_truncation tokenizer_type trust_remote_code vocab args kwargs self".split()
)
CLASSES = (
    "Albert BigBird Barthez Bert Blenderbot Camembert CodeGen Cohere Deberta DebertaV2 DistilBert Gemma GPT2 GPTNeoX "
    "Herbert Llama MPNet Qwen2 Qwen3_5 Roberta T5 XLMRoberta"
).split()
READ = re.compile(
    r'(?:kwargs|init_kwargs|local_kwargs|tokenizer_config)(?:\.(?:pop|get|setdefault)\(\s*|\[)"(\w+)"'
    r'|"(\w+)" (?:not )?in (?:init_kwargs|local_kwargs|kwargs|tokenizer_config)\b'
)
FAMILIES = ["bert", "gpt2", "qwen2", "modernbert", "t5", "deberta-v2", "llama", "gemma2", "big_bird", "gpt_neox"]


def sources():
    base, tokenizers = tokenization_utils_base.PreTrainedTokenizerBase, tokenization_utils_tokenizers.TokenizersBackend
    yield from (base.__init__, base.from_pretrained, base._from_pretrained, tokenizers.__init__)
    yield from (tokenizers.convert_to_native_format, tokenizers._convert_from_sentencepiece)
    yield from (tokenizers._convert_from_tiktoken, tokenizers._patch_mistral_regex, AutoTokenizer.from_pretrained)


def test_the_table_is_complete():
    constructors = [getattr(transformers, f"{name}Tokenizer").__init__ for name in CLASSES]
    found = {
        key
        for source in [*sources(), *constructors]
        for match in READ.findall(inspect.getsource(source))
        for key in match
    }
    found |= {key for constructor in constructors for key in inspect.signature(constructor).parameters}
    described = HONOURED.keys() | REFUSED.keys() | OF_LIMITS.keys() | WITHOUT_EFFECT.keys() | INNER
    assert found - {""} - described == set()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folders = {}
    for family in FAMILIES:
        folders[family] = tmp_path_factory.mktemp(family) / "model"
        small = sized(1, vocab_size=700, max_position_embeddings=LONGEST, num_hidden_layers=1)
        small.modules = small.transformer = None
        small.write(folders[family])
        train(family, folders[family])
    return folders


def tried(path, key, value):
    """The ids of both with a key set, or None where a tokenizer is refused."""
    config = json.loads((path / "tokenizer_config.json").read_text())
    (path / "tokenizer_config.json").write_text(json.dumps(config | {key: value}))
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
        theirs = tokenizer(TEXTS, truncation=True, max_length=LONGEST)["input_ids"], tokenizer.padding_side
    except Exception:
        theirs = None
    try:
        model = _core.EmbeddingModel.load(path, {"device": "cpu", "max_seq_length": LONGEST})
        ours = model.tokenize(TEXTS), model.padding()[1]
    except GrillyError:
        ours = None
    return ours, theirs


@pytest.mark.parametrize("key", HONOURED | WITHOUT_EFFECT)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_key_does_what_it_does_there(trained, tmp_path, family, key):
    for number, value in enumerate((HONOURED | WITHOUT_EFFECT)[key]):
        path = shutil.copytree(trained[family], tmp_path / str(number))
        ours, theirs = tried(path, key, value)
        # What cannot be loaded there may be loaded here.
        assert theirs is None or ours == theirs, value


@pytest.mark.parametrize("key", REFUSED)
def test_a_key_is_refused(trained, tmp_path, key):
    for number, value in enumerate(REFUSED[key]):
        assert tried(shutil.copytree(trained["bert"], tmp_path / str(number)), key, value)[0] is None
