"""`grilly info`: devices, their capabilities, and the choice with its reason."""

import argparse
import json

from grilly import devices
from grilly.commands.table import command

__all__ = ["main"]


@command("info")
def main(given: argparse.Namespace) -> int:
    """Prints what `grilly.info()` gives, as text or as JSON.

    Example:
        >>> from grilly.commands import info
        >>> info.main(["--json"])  # doctest: +ELLIPSIS
        {
          "version": ...
        0
    """
    facts = devices.info()
    print(json.dumps(facts, indent=2) if given.json else devices.format_info(facts))
    return 0
