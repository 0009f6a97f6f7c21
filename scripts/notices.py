"""Writes the licence texts of everything that is compiled into the wheel.

usage: python scripts/notices.py OUTPUT

Walks the normal dependencies (not build tools, not tests, not procedural macros) of the extension module on this
platform, and takes the licence files that each crate ships. Crates with one and the same text share it. A crate
that ships none gets the MIT text with its authors' names, or the Apache text that another crate ships, or stops the
script if neither is its licence.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = "--manifest-path=python/Cargo.toml"
LICENCE_FILE = re.compile(r"^(un)?licen[cs]e|^copying|^copyright|^notice", re.IGNORECASE)
NOT_TEXT = {".rs", ".py", ".sh", ".c", ".h", ".toml", ".json", ".yml", ".png", ".html", ".svg", ".cfg"}
APACHE = re.compile(r"\s*Apache License\s+Version 2\.0, January 2004")
NOT_SHIPPED = {"tests", "test", "benches", "examples", "docs", "doc", "ci", ".github", "src", "target"}

MIT = """MIT License

Copyright (c) {holders}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def shipped_crates() -> list[dict]:
    """The packages reached from the crate by normal dependencies, sorted by name."""
    host = next(line.split()[1] for line in output_of("rustc", "-vV").splitlines() if line.startswith("host:"))
    metadata = json.loads(
        output_of("cargo", "metadata", "--locked", "--format-version=1", MANIFEST, f"--filter-platform={host}")
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    reached, waiting = set(), [root]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            identity = dependency["pkg"]
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in packages[identity]["targets"])
            if is_normal and not is_macro and identity not in reached:
                reached.add(identity)
                waiting.append(identity)
    others = [packages[identity] for identity in reached - set(metadata["workspace_members"])]
    return sorted(others, key=lambda p: (p["name"], p["version"]))


def licence_files(folder: Path, depth: int = 2) -> list[Path]:
    """Licence files in a crate's folder and, for vendored sources, up to two folders below."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and LICENCE_FILE.match(path.name) and path.suffix.lower() not in NOT_TEXT:
            found.append(path)
        elif path.is_dir() and depth and path.name not in NOT_SHIPPED:
            found += licence_files(path, depth - 1)
    return found


def licence_texts(package: dict) -> list[str]:
    """The texts that a crate ships; none if it ships none and is under the Apache licence alone."""
    files = licence_files(Path(package["manifest_path"]).parent)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    if not texts and "MIT" in (package["license"] or ""):
        holders = ", ".join(re.sub(r"\s*<.*?>", "", author) for author in package["authors"])
        texts = [MIT.format(holders=holders or f"the authors of {package['name']}")]
    if not texts and package["license"] != "Apache-2.0":
        sys.exit(f"notices.py: {package['name']} {package['version']} ({package['license']}) ships no licence text")
    return ["\n".join(line.rstrip() for line in text.replace("\f", "").splitlines()).strip("\n") for text in texts]


def apache_text(texts: list[str]) -> str:
    """The whole Apache License 2.0 among the texts that crates ship."""
    whole = [text for text in texts if APACHE.match(text) and "END OF TERMS AND CONDITIONS" in text]
    return min(whole, key=len) if whole else sys.exit("notices.py: no crate ships the Apache License 2.0")


def main() -> None:
    output = Path(sys.argv[1])
    crates = shipped_crates()
    users: dict[str, dict[str, None]] = {}  # text -> names, in order and once each
    first_copy: dict[str, str] = {}  # a text without its line breaks -> the text as first seen
    shipped = {package["id"]: licence_texts(package) for package in crates}
    apache = apache_text([text for texts in shipped.values() for text in texts])
    for package in crates:
        for text in shipped[package["id"]] or [apache]:
            text = first_copy.setdefault(" ".join(text.split()), text)
            users.setdefault(text, {})[f"{package['name']} {package['version']}"] = None
    toolchain = output_of("rustc", "--version").split()[1]

    line = "=" * 100
    parts = [
        "grilly's compiled module contains the Rust libraries listed here, under the licences that follow.",
        f"It also contains the Rust {toolchain} standard library, Copyright (c) The Rust Project Contributors,\n"
        "under the MIT licence or the Apache License 2.0, whose texts are below (https://www.rust-lang.org/policies/licenses).",
        "\n".join(f"{p['name']} {p['version']}: {p['license']} ({p['repository'] or p['homepage']})" for p in crates),
    ]
    for text, names in sorted(users.items(), key=lambda item: (-len(item[1]), list(item[1]))):
        parts.append(f"{line}\n{', '.join(names)}\n{line}\n\n{text}")
    output.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"{output}: {len(crates)} libraries, {len(users)} texts, {output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
