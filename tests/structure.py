"""What the source files of a tree import from each other, read from their text: `use` of Rust, `import` of Python."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Trees whose files are at most so long.
TREES = ("src", "python/src", "build", "shaders", "python/grilly")
WRITTEN = {".rs", ".py", ".pyi", ".glsl", ".js", ".h"}
Module = tuple[str, ...]


def is_test(path: Path) -> bool:
    return path.stem == "tests" or "tests" in path.parts


def modules(tree: Path, ending: str) -> dict[Module, Path]:
    """Name of each module, in parts, without tests."""
    found, tests = {}, set()
    for path in sorted(tree.rglob(f"*{ending}")):
        inner = path.relative_to(tree)
        parts = inner.with_suffix("").parts
        if is_test(inner):
            continue
        name = parts[:-1] if parts[-1] in ("mod", "__init__", "lib") else parts
        found[name] = path
        if ending == ".rs":
            tests |= {(*name, test) for test in re.findall(r"#\[cfg\(test\)\]\s*mod (\w+);", path.read_text())}
    return {name: path for name, path in found.items() if not any(name[: len(test)] == test for test in tests)}


def product_code(text: str) -> str:
    """Rust without comments, strings and its last module of tests."""
    text = re.sub(r"#\[cfg\(test\)\]\s*(pub(\(\w+\))? )?mod \w+ \{.*\Z", "", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(\\.|[^"\\])*"', '""', text)


def expand(tree: str) -> list[str]:
    """Paths of a `use`: `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`."""
    head, brace, rest = tree.partition("{")
    if not brace:
        return [re.split(r"\s+as\s+", head.strip())[0]]
    parts, depth, last = [], 0, 0
    inner = rest[: rest.rindex("}")]
    for place, letter in enumerate(inner):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(inner[last:place])
            last = place + 1
    parts.append(inner[last:])
    return [head.strip() + path for part in parts if part.strip() for path in expand(part)]


def rust_paths(path: Path) -> set[Module]:
    """Paths that a file of Rust uses, in statements and in place."""
    text = product_code(path.read_text())
    used = [path for tree in re.findall(r"\buse\s+([^;]+);", text) for path in expand(tree)]
    used += re.findall(r"\b(?:crate|super)(?:::\w+)+", text)
    return {tuple(part.strip() for part in path.split("::")) for path in used}


def python_paths(path: Path, package: str) -> set[Module]:
    """Modules of the package that a file imports, type checkers' imports left out; each is followed by a name."""
    found = set()

    def read(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            found.update((*node.module.split("."), name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            found.update((*name.name.split("."), "") for name in node.names if name.name.split(".")[0] == package)
        for child in ast.iter_child_nodes(node):
            read(child)

    read(ast.parse(path.read_text()))
    return {("crate", *parts[1:]) for parts in found}


def edges(known: dict[Module, Path], package: str = "") -> dict[tuple[Module, Module], set[Module]]:
    """Which unit of a folder uses which other: a file, or a folder with all in it; with the modules that do."""
    found = defaultdict(set)
    for module, path in known.items():
        for used in python_paths(path, package) if package else rust_paths(path):
            start = {"crate": (), "self": module}.get(used[0])
            rest = used[1:]
            if used[0] == "super":
                start = module[:-1]
                while rest[:1] == ("super",):
                    start, rest = start[:-1], rest[1:]
            if start is None:
                continue
            target = (*start, *rest)
            while target not in known and target:
                target = target[:-1]
            shared = next((n for n, (a, b) in enumerate(zip(module, target)) if a != b), None)
            # A folder and what is in it are one.
            if shared is not None:
                found[module[: shared + 1], target[: shared + 1]].add(module)
    return found


def circles(used: dict[tuple[Module, Module], set[Module]]) -> list[list[Module]]:
    """The units that use each other, directly or not."""
    after = defaultdict(set)
    for one, other in used:
        after[one].add(other)

    def reach(start: Module) -> set[Module]:
        found, ahead = set(), [start]
        while ahead:
            for unit in after[ahead.pop()] - found:
                found.add(unit)
                ahead.append(unit)
        return found

    reached = {unit: reach(unit) for unit in list(after)}
    groups = {frozenset(other for other in found if unit in reached.get(other, ())) for unit, found in reached.items()}
    return sorted(sorted(group) for group in groups if len(group) > 1)
