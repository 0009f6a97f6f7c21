"""The modules and names of sentence-transformers 6.2, with this package's models behind them.

`install_as_sentence_transformers` puts this package where `import sentence_transformers` finds it. modules.json has
the module tree, which scripts/reference_modules.py reads from sentence-transformers; homes.py says where each name is
here. A name without a home is a class that raises when it is used, so that scripts that only import it run.
"""

import importlib.util
import sys
from pathlib import Path

from grilly.compat.sentence_transformers.tree import ROOT, TABLE, VERSION, Listed, install
from grilly.errors import InvalidArgumentError
from grilly.names import MOVED

__all__ = sorted([*TABLE[""], "install_as_sentence_transformers"])

NAME = "sentence_transformers"
__version__ = VERSION
__MODEL_HUB_ORGANIZATION__ = "sentence-transformers"


def install_as_sentence_transformers() -> None:
    """Makes `import sentence_transformers` and the import of its modules find this package, in this process.

    Calling it again changes nothing, nor does it where the wheel is installed that `make wheel-shim` builds.

    Raises:
        InvalidArgumentError: sentence-transformers itself can be imported, or has been.

    Example:
        >>> import grilly
        >>> grilly.install_as_sentence_transformers()  # doctest: +SKIP
        >>> from sentence_transformers import SentenceTransformer  # doctest: +SKIP
    """
    if NAME in MOVED:
        return
    found = importlib.util.find_spec(NAME)
    # A folder without files of Python, such as one of data, has no origin; the wheel's folder has a mark.
    if found is not None and found.origin is not None and not Path(found.origin).with_name("grilly.txt").exists():
        raise InvalidArgumentError(
            f"sentence-transformers is installed, in {found.origin}: uninstall it to use grilly under its name, or "
            f"import from {ROOT} instead"
        )
    take()


def take() -> None:
    """Makes every import below `sentence_transformers` one below this package, in place of what is there."""
    MOVED[NAME] = ROOT
    sys.modules[NAME] = sys.modules[ROOT]
    for name in ("SentenceTransformer", "CrossEncoder", "SparseEncoder", "MultiVectorEncoder"):
        # Libraries look for "sentence_transformers" in the name of a model's class.
        getattr(sys.modules[ROOT], name).__module__ = ROOT


install()
sys.modules[ROOT].__class__ = Listed
