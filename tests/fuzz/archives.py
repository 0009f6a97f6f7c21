"""Damaged files of torch.save in small models: `python tests/fuzz/archives.py`.

ZIP records, sizes that are lies, and the operations of the pickle. Each file is refused, or read to finite numbers.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import damage, folders  # isort: skip
from fuzz.driver import main, pick  # isort: skip

#: One of each kind of place: the folder, its parts, several files, a table.
NAMES = ["roberta", "t5", "variant dense_two", "static", "words distilbert"]


class Archives(folders.Models):
    def __init__(self, folder, device):
        super().__init__(folder, device)
        self.names = NAMES

    def form(self, chance):
        return pick(chance, [" torch", " torch", " torch, sharded"])


def corpus(folder, given):
    return Archives(folder, given.device)


def damaged(model, chance):
    """The files with one archive changed, and what may come of it."""
    files = dict(model.files)
    name = pick(chance, [name for name in files if name.endswith((".bin", ".bin.index.json"))])
    if name.endswith(".json"):
        files[name] = damage.of_json(files[name], chance)
        return files, f"of_json {name}", "numbers"
    if chance.random() < 0.1:
        files[name] = damage.cut(files[name], chance)
        return files, f"cut {name}", "same or refused"
    for _ in range(1 if chance.random() < 0.8 else 2):
        files[name] = damage.of_archive(files[name], chance)
    return files, f"of_archive {name}", "numbers"


def case(models, chance):
    """One damaged archive."""
    model = models.draw(chance)
    return folders.judged(models, model, *damaged(model, chance), chance)


if __name__ == "__main__":
    sys.exit(main(corpus, case))
