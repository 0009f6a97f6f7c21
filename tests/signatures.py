"""Signatures and docstrings of every public class, method and function, to compare two builds.

`PYTHONPATH=OLD python tests/signatures.py old.json`, `PYTHONPATH=NEW python tests/signatures.py new.json`, then
`python tests/signatures.py old.json new.json` prints what changed or is gone and exits with 1 if anything is; names
that are new are counted. Constructors are there as `inspect.signature` and `help` show them, with the order of their
arguments.
"""

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SPECIAL = ("__init__", "__call__", "__len__", "__getitem__", "__iter__", "__enter__", "__exit__")


def signature(thing: Any) -> str:
    try:
        text = str(inspect.signature(thing, eval_str=True))
    except (NameError, AttributeError):  # of annotations that only type checkers know
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):  # of a class of another language
        text = "-"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def described(member: Any) -> str:
    """One line for a member, then its docstring."""
    member = getattr(member, "__func__", member)
    if isinstance(member, property):
        return f"property, {'read only' if member.fset is None else 'may be set'}\n{member.__doc__}"
    if remedy := getattr(member, "remedy", None):
        return f"left out: {remedy}"
    if callable(member):
        return f"{signature(member)}\n{member.__doc__}"
    return re.sub(r" at 0x[0-9a-f]+", "", f"value {member!r}")[:200]


def public() -> Iterator[tuple[str, str]]:
    from package_modules import modules

    for module in modules():
        for name in getattr(module, "__all__", ()):
            thing, path = getattr(module, name), f"{module.__name__}.{name}"
            yield path, described(thing) if callable(thing) else f"value of {type(thing).__name__}"
            for member in dir(thing) if inspect.isclass(thing) else ():
                if member in SPECIAL or not member.startswith("_"):
                    yield f"{path}.{member}", described(inspect.getattr_static(thing, member))


def compare(old: Path, new: Path) -> int:
    before, after = (json.loads(path.read_text()) for path in (old, new))
    changed = [name for name in before if after.get(name) != before[name]]
    for name in changed:
        print(f"{name}\n  old: {before[name]}\n  new: {after.get(name, 'gone')}")
    print(f"{len(before) - len(changed)} equal, {len(changed)} changed or gone, {len(set(after) - set(before))} new")
    return 1 if changed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one to write, or two to compare")
    files = parser.parse_args().files
    if len(files) > 1:
        return compare(*files[:2])
    found = dict(sorted(public()))
    files[0].write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found)} names written to {files[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
