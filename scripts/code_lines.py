"""Counts lines of code by tree: no comments, docstrings, blank lines or tests.

    python scripts/code_lines.py                  the working tree
    python scripts/code_lines.py COMMIT           that commit
    python scripts/code_lines.py COMMIT COMMIT    both, and the second as a part of the first

A shader's lines `//#`, which declare its builds, are code. Files of other kinds (data, pages) are not counted, nor what
git does not track.
"""

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREES = ("src", "python/src", "build", "shaders", "python/grilly")
PARTS = ("python/grilly/compat",)
#: What is code in Rust, GLSL, C and JavaScript although it looks like a comment, and comments.
TOKENS = re.compile(
    r"""(?P<code>r(?P<marks>\#*)".*?"(?P=marks)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])'|^//\#[^\n]*)|//[^\n]*|/\*.*?\*/""",
    re.DOTALL | re.MULTILINE,
)
#: A test's attribute with what it is for: up to a closing brace at its own indentation, or a semicolon.
TESTS = re.compile(
    r"^(?P<indent> *)#\[cfg\(test\)\]\n(?:(?P=indent)#\[.*\n)*"
    r"(?P=indent)(?:[^\n]*;\n|[^\n]*\{\n(?:.*\n)*?(?P=indent)\}\n)",
    re.MULTILINE,
)


def python_lines(text: str) -> int:
    """Lines of Python with a token that is neither a comment nor part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines.update(range(token.start[0], token.end[0] + 1) if token.string else ())
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def other_lines(text: str, ending: str) -> int:
    """Lines of Rust, GLSL, C or JavaScript with more than a comment."""
    if ending == ".rs":
        text = TESTS.sub("", text)

    def kept(match: re.Match[str]) -> str:
        return match["code"] if match["code"] is not None else "\n" * match[0].count("\n")

    return sum(1 for line in TOKENS.sub(kept, text).splitlines() if line.strip())


def files(commit: str | None) -> Iterator[tuple[Path, str]]:
    """Tracked files of the trees, with their texts."""
    if commit is None:
        listed = subprocess.run(["git", "ls-files", "-z", *TREES], cwd=ROOT, capture_output=True, check=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                yield Path(name), (ROOT / name).read_text(errors="replace")
        return
    packed = subprocess.run(["git", "archive", commit, *TREES], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield Path(member.name), content.read().decode(errors="replace")


def count(commit: str | None) -> dict[str, int]:
    """Lines of code by tree, and of parts of trees."""
    found = dict.fromkeys((*TREES, *PARTS), 0)
    for path, text in files(commit):
        if path.stem == "tests" or "tests" in path.parts:
            continue
        if path.suffix in (".py", ".pyi"):
            lines = python_lines(text)
        elif path.suffix in (".rs", ".glsl", ".js", ".h"):
            lines = other_lines(text, path.suffix)
        else:
            continue
        for place in found:
            found[place] += lines if path.is_relative_to(place) else 0
    return found


def main() -> None:
    counts = [count(commit) for commit in sys.argv[1:3]] or [count(None)]
    for counted in counts:
        counted["all"] = sum(counted[tree] for tree in TREES)
        counted["python/grilly without compat"] = counted["python/grilly"] - counted["python/grilly/compat"]
    for place in counts[0]:
        numbers = [counted[place] for counted in counts]
        part = f"{numbers[1] / numbers[0]:8.3f}" if len(numbers) == 2 and numbers[0] else ""
        print(f"{place:32}" + "".join(f"{number:8}" for number in numbers) + part)


if __name__ == "__main__":
    main()
