"""Names of models are data of `src/model/arch/`: code elsewhere has no `model_type` and no class of transformers.

Looked at are identifiers and string literals; not comments, docstrings, and the code of tests.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grilly import _core

ROOT = Path(__file__).parent.parent.parent
# A word of English beside a model_type.
ORDINARY = {"new"}
ROWS = (ROOT / "src/model/arch/table.rs").read_text(encoding="utf-8")
TYPES = ({name for name, _, _ in _core.model_rows()} | set(re.findall(r'\.shaders\("(\w+)"', ROWS))) - ORDINARY
STARTS = "|".join(start for _, start, _ in _core.model_rows())
CLASSES = rf"(?:{STARTS})(?:Model|EncoderModel|PreTrainedModel|For\w+)"
NAME = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(TYPES)))}|{CLASSES})(?![\w-])")
# A literal or a word; a comment or a character is left out.
RUST = re.compile(
    r"//[^\n]*|/\*.*?\*/|'(?:\\.[^']*|[^'\\\n])'|(?P<raw>r(#*)\"(.*?)\"\2)|(?P<text>\"(?:\\.|[^\"\\])*\")|(?P<word>[A-Za-z_]\w*)",
    re.DOTALL,
)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*", re.DOTALL)
# File, name, and why it stands there; at most ten.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("src/text/tokenizer/parts.rs", "bert"): "a module of the crate tokenizers",
    ("src/text/tokenizer/frames.rs", "roberta"): "a module of the crate tokenizers",
    ("python/grilly/sentence_transformer/saving.py", "bitnet"): "a method of quantisation in config.json, of any model",
    ("python/grilly/tiny_checkpoints.py", "bert"): "the row of the table from which all-MiniLM-L6-v2's sizes are made",
}


def of_rust(source: str) -> Iterator[str]:
    for found in RUST.finditer(TESTS.sub("", source)):
        yield next((found[kind] for kind in ("raw", "text", "word") if found[kind]), "")


def of_python(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            del body[0]
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname", "module", "value"):
            text = getattr(node, field, None)
            if isinstance(text, str):
                yield text


def sources() -> list[Path]:
    files = [
        path for folder in ("src", "python") for path in (ROOT / folder).rglob("*") if path.suffix in (".rs", ".py")
    ]
    names = [path.relative_to(ROOT) for path in sorted(files)]
    apart = ("src/model/arch/",)
    return [
        path
        for path in names
        if not path.as_posix().startswith(apart) and path.stem != "tests" and "tests" not in path.parts
    ]


def found(path: Path) -> set[tuple[str, str]]:
    source = (ROOT / path).read_text(encoding="utf-8")
    texts = of_rust(source) if path.suffix == ".rs" else of_python(source)
    return {(path.as_posix(), name) for text in texts for name in NAME.findall(text)}


def test_no_model_is_named_outside_its_folder():
    everything = set().union(*map(found, sources()))
    assert everything == set(EXCEPTIONS)
    assert len(EXCEPTIONS) <= 10 and all(EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("read", "source", "names"),
    [
        (of_rust, 'let x = "a bert b"; // gpt2\n/* t5 */ f(\'"\', r#"t5"#);', ["bert", "t5"]),
        (of_rust, "fn roberta<'a>(x: &'a BertModel) {}", ["roberta", "BertModel"]),
        (of_rust, 'const SENTENCE: &str = "sentence_roberta_config.json";\n#[cfg(test)]\nmod tests {\n "bert" }', []),
        (of_rust, '"xlm-roberta", "bert-like", "BertTokenizer"', ["xlm-roberta"]),
        (of_python, '"""bert"""\ndef f():\n    "t5"\n    return x.gpt2 + f"{y} T5ForTest"', ["gpt2", "T5ForTest"]),
        (of_python, "import mpnet as bert  # t5", ["mpnet", "bert"]),
    ],
)
def test_what_is_looked_at(read, source, names):
    assert sorted(name for text in read(source) for name in NAME.findall(text)) == sorted(names)
