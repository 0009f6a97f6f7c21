"""Token ids beside those of transformers: every family's tokenizer, with files that agree and files that do not.

Runs under `make test-live`. The weights are those of a small BERT throughout: which class a tokenizer has is said by
its files, and only where they say nothing does the kind of model count.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
import transformers
from fixtures.train_tokenizers import FAMILIES, train
from models.variants import sized
from models.varied_texts import edges, varied
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, AutoModel, AutoTokenizer, TokenizersBackend
from transformers.models.auto import tokenization_auto

from grilly import _core
from grilly.errors import ModelFormatError, UnsupportedError

ROOT = Path(__file__).parent.parent.parent

TEXTS = [*edges(), *varied(1000)]
SOME = [*edges(), *varied(200, seed=2)]
LONGEST = 8_000
ROWS = 700  # more than a tokenizer has pieces, so that tokens which the files add have a row
WORDS = ["bert", "distilbert", "electra", "mpnet"]
SENTENCES = ["albert", "deberta-v2", "t5", "xlm-roberta", "camembert"]
CLASSES = [
    "T5",
    "DebertaV2",
    "Albert",
    "Bert",
    "Electra",
    "DistilBert",
    "MPNet",
    "Roberta",
    "GPT2",
    "XLMRoberta",
    "Camembert",
    "BigBird",
    "Llama",
    "Phi3",
    "Gemma",
    "GPTNeoX",
    "CodeGen",
    "Cohere",
    "Qwen2",
    "Qwen3_5",
    "Deberta",
    "Blenderbot",
    "Herbert",
    "Barthez",
    "ConvBert",
    "DPRQuestionEncoder",
    "PreTrained",
    "Bloom",
    "MT5",
    "Unheard",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Each family's tokenizer as transformers saves it, in a folder with the small model."""
    folders = {}
    for family in FAMILIES:
        folders[family] = tmp_path_factory.mktemp(family)
        train(family, folders[family])
        kept = (folders[family] / "tokenizer.json").read_text(), (folders[family] / "tokenizer_config.json").read_text()
        shutil.rmtree(folders[family])
        checkpoint = sized(1, vocab_size=ROWS, max_position_embeddings=LONGEST, num_hidden_layers=1)
        checkpoint.modules = checkpoint.transformer = None
        checkpoint.write(folders[family])
        for name, text in zip(("tokenizer.json", "tokenizer_config.json"), kept, strict=True):
            (folders[family] / name).write_text(text)
    return folders


@pytest.fixture
def folder(trained, tmp_path):
    """A copy of a family's folder to be changed."""

    def copy(family):
        return shutil.copytree(trained[family], tmp_path / family)

    return copy


def change(path, edit=None, **values):
    """Changes a JSON file: keys of its outermost object, or with a function."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content |= values
    path.write_text(json.dumps(edit(content) or content if edit else content))


def configure(path, **values):
    change(path / "tokenizer_config.json", **values)


def without(path, *keys):
    change(path / "tokenizer_config.json", lambda config: {k: v for k, v in config.items() if k not in keys})


def same_tokens(path, texts=SOME, longest=LONGEST):
    """Ids, segments and padding of both, whole and cut to 24 tokens."""
    theirs = AutoTokenizer.from_pretrained(path)
    ours = _core.EmbeddingModel.load(path, {"device": "cpu", "max_seq_length": longest})
    for most in (longest, 24):
        ours.set_max_seq_length(most)
        wanted = theirs(texts, truncation=True, max_length=most)
        ids, segments = ours.tokenize_with_segments(texts)
        for text, own, other in zip(texts, ids, wanted["input_ids"], strict=True):
            assert own == other, (text, type(theirs).__name__)
        assert segments == wanted.get("token_type_ids", [[0] * len(row) for row in ids])
    assert ours.padding() == (theirs.pad_token_id, theirs.padding_side)
    assert ours.gives_segments() == ("token_type_ids" in theirs.model_input_names)
    return ours, theirs


@pytest.mark.parametrize("family", FAMILIES)
def test_as_saved(trained, family):
    ours, theirs = same_tokens(trained[family], TEXTS)
    # ModernBERT alone has no class of its own.
    assert (type(theirs).__name__ == "TokenizersBackend") == (family == "modernbert")
    assert len(set(map(tuple, ours.tokenize(TEXTS)))) > 900, "the texts are told apart"


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_long_texts(folder, family, prefix):
    """Only the start of a long text is looked at where a space allows it."""
    path = folder(family)
    configure(path, add_prefix_space=prefix)
    texts = [joint.join(varied(150, seed)) for seed in range(4) for joint in (" ", "  ", "")]
    same_tokens(path, texts, longest=300)
    configure(path, truncation_side="left")
    same_tokens(path, texts[:3], longest=300)


def put_model(path, kind):
    """A small model of a kind in place of the BERT."""
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 64}
    sizes |= {"num_key_value_heads": 4, "max_position_embeddings": LONGEST + 2, "d_model": 32, "d_ff": 64}
    sizes |= {"head_dim": 8, "attention_type": "original_full", "embedding_size": 32, "default_language": "en_XX"}
    config = AutoConfig.for_model(kind)
    known = {**config.to_dict(), **config.attribute_map}
    sizes = {key: size for key, size in sizes.items() if key in known}
    config = AutoConfig.for_model(kind, vocab_size=ROWS, pad_token_id=1, **sizes)
    AutoModel.from_config(config).save_pretrained(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_kind_of_model_stands_for_the_class(folder, family):
    path = folder(family)
    put_model(path, family)
    without(path, "tokenizer_class")
    same_tokens(path, TEXTS)
    (path / "tokenizer_config.json").unlink()
    same_tokens(path)


OTHERS = [
    "qwen2",
    "qwen3",
    "llama",
    "mistral",
    "phi3",
    "modernbert",
    "gemma2",
    "nomic_bert",
    "deberta",
    "ernie",
    "gemma",
]
OTHERS += ["mixtral", "phi", "qwen3_moe", "squeezebert", "stablelm", "starcoder2", "umt5", "xmod"]
OTHERS += ["mobilebert", "lfm2", "convbert"]


@pytest.mark.parametrize("kind", OTHERS)
def test_the_kind_of_model_beside_the_class(folder, kind):
    """Some kinds have their own class whatever a file names, some have tokenizer.json as it is."""
    for family in ("bert", "roberta", "llama"):
        path = folder(family)
        put_model(path, kind)
        without(path, "tokenizer_class", "add_prefix_space")
        if family == "llama":
            change(path / "tokenizer.json", normalizer={"type": "Lowercase"})
        names = ["LlamaTokenizer", "LlamaTokenizerFast", "Phi3Tokenizer", "PreTrainedTokenizerFast", "BertTokenizer"]
        for name in [None, *names]:
            if name:
                configure(path, tokenizer_class=name)
            try:
                AutoTokenizer.from_pretrained(path)
            except Exception:
                with pytest.raises(ModelFormatError, match=r"tokenizer\.json"):
                    _core.EmbeddingModel.load(path, {"device": "cpu"})
            else:
                same_tokens(path)


@pytest.mark.parametrize("name", ["BertTokenizer", "ElectraTokenizerFast", "PreTrainedTokenizerFast"])
def test_a_kind_whose_class_is_python_code(folder, name):
    """RoFormer has the class that a file names; its own splits texts by the dictionary of rjieba."""
    path = folder("bert")
    put_model(path, "roformer")
    configure(path, tokenizer_class=name)
    same_tokens(path, TEXTS)
    for own in ("RoFormerTokenizer", None):
        configure(path, tokenizer_class=own)
        with pytest.raises(UnsupportedError, match="rjieba"):
            _core.EmbeddingModel.load(path, {"device": "cpu"})


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_another_class(folder, family, name):
    path = folder(family)
    for fast in ("", "Fast"):
        configure(path, tokenizer_class=f"{name}Tokenizer{fast}")
        if family in ("qwen2", "llama"):
            configure(path, add_prefix_space=False)  # saved as null, which the constructors of some classes do not take
        try:
            AutoTokenizer.from_pretrained(path)
        except Exception:
            with pytest.raises(ModelFormatError, match=r"tokenizer\.json"):
                _core.EmbeddingModel.load(path, {"device": "cpu"})
        else:
            same_tokens(path)
    without(path, "tokenizer_class")
    change(path / "config.json", tokenizer_class="MPNetTokenizer")
    same_tokens(path)


@pytest.mark.parametrize("family", WORDS)
@pytest.mark.parametrize(
    "arguments",
    [
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"do_lower_case": True, "strip_accents": False},
        {"tokenize_chinese_chars": False},
        {"strip_accents": False, "tokenize_chinese_chars": False, "never_split": ["the"], "do_basic_tokenize": False},
    ],
    ids=str,
)
def test_normalisation_of_words(folder, family, arguments):
    path = folder(family)
    configure(path, **arguments)
    same_tokens(path, TEXTS)


@pytest.mark.parametrize("accents", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_normalisation_of_letters(folder, accents, lower):
    path = folder("albert")
    configure(path, keep_accents=accents, do_lower_case=lower)
    same_tokens(path, [*TEXTS, "``Été'' ```quoted''' 'one' `two`"])


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("family", ["roberta", "gpt2", "gpt_neox", "llama", "gemma2", "big_bird", *SENTENCES])
def test_prefix_spaces(folder, family, prefix):
    path = folder(family)
    configure(path, add_prefix_space=prefix, trim_offsets=False)
    same_tokens(path, TEXTS)


@pytest.mark.parametrize("legacy", [None, False, True])
@pytest.mark.parametrize("prefix", [None, False, True])
def test_spaces_before_the_parts_of_a_text(folder, prefix, legacy):
    path = folder("llama")
    configure(path, add_prefix_space=prefix, legacy=legacy)
    same_tokens(path, [*TEXTS, "a<s>b <s> c</s>", "<s>", " <s> a", "▁a", "a▁<s>▁b"])


@pytest.mark.parametrize("number", [0, 3, 120])
def test_numbered_tokens(folder, number):
    path = folder("t5")
    without(path, "extra_special_tokens")
    configure(path, extra_ids=number)
    texts = [*SOME, "<extra_id_0> a <extra_id_2><extra_id_119> b <extra_id_120>"]
    same_tokens(path, texts)
    change(path / "tokenizer.json", lambda file: file.update(added_tokens=file["added_tokens"][:3]))
    same_tokens(path, texts)


@pytest.mark.parametrize("begins", [None, False, True])
@pytest.mark.parametrize("ends", [None, False, True])
def test_tokens_around_a_text_on_request(folder, begins, ends):
    """The flags count where there is no tokenizer.json."""
    path = folder("gpt2")
    model = json.loads((path / "tokenizer.json").read_text())["model"]
    configure(
        path, **{f"add_{role}_token": flag for role, flag in (("bos", begins), ("eos", ends)) if flag is not None}
    )
    same_tokens(path, TEXTS)
    own = {"type": "TemplateProcessing", "pair": []}
    own["single"] = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "end", "type_id": 0}}]
    own["special_tokens"] = {"end": {"id": "end", "ids": [7], "tokens": ["end"]}}
    change(path / "tokenizer.json", post_processor=own)
    same_tokens(path, TEXTS)
    (path / "tokenizer.json").unlink()
    (path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (path / "merges.txt").write_text("".join(f"{' '.join(pair)}\n" for pair in model["merges"]))
    same_tokens(path, TEXTS)
    configure(path, bos_token=None)
    same_tokens(path, TEXTS)


def rebuild(file):
    """A tokenizer.json in which everything that a class rebuilds is something else."""
    map_of_characters = [file["normalizer"]] if (file["normalizer"] or {}).get("type") == "Precompiled" else []
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    file["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, *map_of_characters, spaces]}
    file["pre_tokenizer"] = {"type": "Whitespace"}
    first, last = (file["added_tokens"][place] for place in (0, -1))
    text = {"Sequence": {"id": "A", "type_id": 1}}
    name = first["content"]
    file["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [text, {"SpecialToken": {"id": name, "type_id": 1}}],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [first["id"]], "tokens": [name]}},
    }
    for key, value in (("max_input_chars_per_word", 5), ("unk_id", 0), ("byte_fallback", True), ("fuse_unk", True)):
        if key in file["model"]:
            file["model"][key] = value
    file["truncation"] = {"max_length": 9, "strategy": "LongestFirst", "stride": 0, "direction": "Left"}
    padding = {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 3, "pad_type_id": 1}
    file["padding"] = padding | {"pad_token": last["content"]}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_file_that_contradicts_the_class(folder, family):
    path = folder(family)
    change(path / "tokenizer.json", rebuild)
    same_tokens(path, TEXTS)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    for extra in ({}, {"model_input_names": names}, {"pad_token": None}):
        (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "TokenizersBackend", **extra}))
        same_tokens(path)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "arguments",
    [
        {"cls_token": "the", "bos_token": "the", "sep_token": ".", "eos_token": "."},
        {"cls_token": "<new>", "bos_token": "<new>", "unk_token": "a", "pad_token": "<extra>"},
        {"mask_token": "MASK", "pad_token": "[PAD]"},
        {"mask_token": None, "pad_token": None},
        {"extra_special_tokens": ["<new>", "ful"], "image_token": "<extra>"},
        {"additional_special_tokens": ["<new>", {"__type": "AddedToken", "content": "ful", "lstrip": True}]},
        {"extra_special_tokens": {"video_token": "<new>"}, "additional_special_tokens": ["<extra>"]},
        {"mask_token": {"__type": "AddedToken", "content": "<extra>", "rstrip": True, "normalized": True}},
        {"split_special_tokens": True},
        {"truncation_side": "left", "padding_side": "left"},
        {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]},
        {"model_input_names": ["input_ids", "attention_mask"]},
    ],
    ids=str,
)
def test_special_tokens_and_sides(folder, family, arguments):
    path = folder(family)
    if family == "albert" and "cls_token" in arguments:
        arguments = arguments | {"cls_token": "▁the", "sep_token": "▁and"}  # it knows no others than its pieces
    configure(path, **arguments)
    same_tokens(path)


def flags(content, **more):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False} | more


@pytest.mark.parametrize("name", ["class", "file"])
@pytest.mark.parametrize("family", FAMILIES)
def test_added_tokens_with_other_flags(folder, family, name):
    path = folder(family)
    mask = json.loads((path / "tokenizer_config.json").read_text()).get("mask_token", "mask")
    added = {
        "0": flags("Éclair", normalized=True),
        "4": flags(mask, lstrip=True, rstrip=True, special=True),
        "610": flags("<new>", special=True, single_word=True),
        "611": flags("the", single_word=True),
        "612": flags("<extra>", rstrip=True),
    }
    configure(path, added_tokens_decoder=added, **({"tokenizer_class": "TokenizersBackend"} if name == "file" else {}))
    change(path / "special_tokens_map.json", cls_token="the")  # does not count beside a list of added tokens
    same_tokens(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_files_of_older_folders(folder, family):
    path = folder(family)
    without(path, "sep_token", "eos_token", "extra_special_tokens")
    older = {"mask_token": flags("<new>", lstrip=True), "sep_token": ".", "eos_token": "."}
    change(path / "special_tokens_map.json", additional_special_tokens=["ful"], **older)
    change(path / "added_tokens.json", **{"<new>": 600, "<extra>": 601})
    same_tokens(path)
    change(path / "special_tokens_map.json", extra_special_tokens={"image_token": "they"})
    same_tokens(path)


@pytest.mark.parametrize("family", [*WORDS, "roberta", "gpt2"])
def test_a_vocabulary_without_a_tokenizer_file(folder, family):
    path = folder(family)
    model = json.loads((path / "tokenizer.json").read_text())["model"]
    (path / "tokenizer.json").unlink()
    if family in ("roberta", "gpt2"):
        (path / "vocab.json").write_text(json.dumps(model["vocab"]))
        (path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{' '.join(pair)}\n" for pair in model["merges"]))
    else:
        (path / "vocab.txt").write_text(
            "".join(f"{piece}\n" for piece in sorted(model["vocab"], key=model["vocab"].get))
        )
    same_tokens(path, TEXTS)
    configure(path, do_lower_case=False, add_prefix_space=True, mask_token="the")
    same_tokens(path)
    configure(path, added_tokens_decoder={"4": flags("Éclair", normalized=True), "600": flags("<new>", special=True)})
    same_tokens(path)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("arguments", [{}, {"do_lower_case": False}], ids=str)
def test_lower_case_on_request(folder, family, arguments):
    path = folder(family)
    if family == "llama":
        configure(path, pad_token="<unk>")  # its own has none, and transformers then pads nothing
    configure(path, **arguments)
    change(
        path / "tokenizer.json",
        lambda file: file["added_tokens"].append(flags("Éclair", id=600, normalized=True, special=False)),
    )
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{kind}"}
        for i, (at, kind) in enumerate(kinds.items())
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling").mkdir()
    change(path / "1_Pooling" / "config.json", embedding_dimension=32, pooling_mode="mean")
    change(path / "sentence_bert_config.json", do_lower_case=True, max_seq_length=100)
    ours = _core.EmbeddingModel.load(path, {"device": "cpu"})
    wanted = Transformer(str(path), do_lower_case=True, max_seq_length=100).preprocess(SOME)
    rows = zip(wanted["input_ids"].tolist(), wanted["attention_mask"].tolist(), strict=True)
    assert ours.tokenize(SOME) == [[own for own, kept in zip(*row, strict=True) if kept] for row in rows]
    assert ours.gives_segments() == ("token_type_ids" in wanted)


def test_the_classes_of_the_kinds_of_models():
    """The table of architectures names transformers' classes, and says where a file's name does not count."""
    rows = (ROOT / "src/model/arch/table.rs").read_text(encoding="utf-8").partition("ARCHITECTURES")[2]
    found = {}
    for row in re.split(r"\n    row\(", rows)[1:]:
        kind = re.search(r'"([^"]+)"', row)[1]
        how, name = (
            re.findall(r"\.(always_|mended_|)tokenizer\((\w+|\"\w+\")\)", row)[:1][0]
            if "tokenizer(" in row
            else ("", None)
        )
        found[kind] = name and {"AS_IT_IS": "TokenizersBackend"}.get(name, name.strip('"'))
        assert (how == "always_") == (kind in tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS), kind
    for kind, name in found.items():
        theirs = tokenization_auto.TOKENIZER_MAPPING_NAMES.get(kind)
        same = [cls and tokenization_auto.tokenizer_class_from_name(cls) for cls in (name, theirs)]
        assert same[0] is same[1], (kind, name, theirs)


@pytest.mark.parametrize("name", ["PhobertTokenizer", "BertJapaneseTokenizer", "BertweetTokenizer", "ByT5Tokenizer"])
def test_classes_of_python_code_are_refused(folder, name):
    path = folder("bert")
    configure(path, tokenizer_class=name)
    assert not issubclass(tokenization_auto.tokenizer_class_from_name(name), TokenizersBackend)
    with pytest.raises(UnsupportedError, match=name):
        _core.EmbeddingModel.load(path, {"device": "cpu"})


def test_every_class_of_transformers_is_known():
    """It is described, or refused as Python code, or is of a family that is not listed."""
    rows = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/text/tokenizer/classes").glob("*.rs"))
    names = {name.removesuffix("Fast") for name in dir(transformers) if name.endswith(("Tokenizer", "TokenizerFast"))}
    unknown = {name for name in names if f'"{name}"' not in rows}
    helpers = {"AutoTokenizer", "BasicTokenizer", "CharacterTokenizer", "MecabTokenizer", "WordpieceTokenizer"}
    others = set(
        "CLIP CodeLlama DPRReader Esmc FNet Funnel Lasr LayoutLMv2 LayoutLMv3 LayoutXLM Luke MBart MBart50 MLuke "
        "MarkupLM Nllb Nougat OpenAIGPT Parakeet Pegasus Pop2Piano Rag Reformer RemBert SeamlessM4T Siglip2 Splinter "
        "Tipsv2 Udop VideoPrism Whisper XGLM XLNet".split()
    )
    assert unknown - helpers - {f"{name}Tokenizer" for name in others} == set()
