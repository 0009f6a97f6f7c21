"""The pages for contributors name files that exist, and the additions shown in CONTRIBUTING.md are in the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("CONTRIBUTING.md", "ARCHITECTURE.md", "shaders/README.md")
#: Names in these pages may leave out the folder that the text is about.
FOLDERS = ("", "src", "src/model", "shaders", "shaders/include")
#: What the build or a command makes.
MADE = ("target/", "dist/", "docs/reference/operations.md")
DIFFS = re.findall(r"^```diff\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def exists(name):
    return any((ROOT / folder / name.rstrip("/")).exists() for folder in FOLDERS)


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w-]+/)`", text)
    missing = [name for name in named if not exists(name) and not name.startswith(MADE)]
    assert named and not missing, f"{page} names {missing}"


def test_the_commands_that_pages_and_workflows_name_are_in_the_makefile():
    commands = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    pages = [ROOT / "README.md", *(ROOT / name for name in PAGES), *(ROOT / "docs").rglob("*.md")]
    pages += [*(ROOT / "containers").iterdir(), *(ROOT / ".github" / "workflows").iterdir()]
    named = {
        (name, path.name)
        for path in pages
        for name in re.findall(r"(?:`|# +|run: .*g)make ([a-z-]+)|[{]make: ([a-z-]+)", path.read_text("utf-8"))
    }
    missing = [(name, page) for names, page in named for name in names if name and name not in commands]
    assert len(named) > 20 and not missing, missing


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.split()[1])
def test_the_lines_of_a_diff_are_in_its_files_in_this_order(diff):
    for part in diff.split("+++ ")[1:]:
        head, *lines = part.splitlines()
        path = head.split()[0]
        found = iter(line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines())
        for line in lines:
            assert line.startswith("+"), line
            assert line[1:].strip() in found, f"{path} has no line {line[1:]!r} there"
