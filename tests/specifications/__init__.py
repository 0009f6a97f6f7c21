"""The five specifications, a file each: sections, tables, samples and bullets in order, and where each is shown."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: An item of a specification, and the places that show it: `FILE::FUNCTION` of a test, `FILE: TEXT` of a page.
Walk = list[tuple[str, str | tuple[str, ...]]]


def missing(walk: Walk) -> list[str]:
    """Items whose place does not exist."""
    absent = []
    for item, places in walk:
        for place in (places,) if isinstance(places, str) else places:
            file, test, name = place.partition("::")
            if not test:
                file, _, name = place.partition(": ")
            path = ROOT / file
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            found = re.search(rf"\b(def|fn) {re.escape(name)}\(", text) if test else name and name in text
            if not found:
                absent.append(f"{item}: {place}")
    return absent
