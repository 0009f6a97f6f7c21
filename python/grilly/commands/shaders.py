"""`python -m grilly shaders`: the files that shaders of callers include, for other compilers than ours."""

import argparse
from pathlib import Path

from grilly import _core
from grilly.commands.table import command
from grilly.errors import InvalidArgumentError

__all__ = ["copy", "main"]


@command("shaders")
def main(given: argparse.Namespace) -> int:
    """Copies the files and prints their paths; returns the exit status.

    Example:
        >>> from grilly.commands import shaders
        >>> shaders.main(["--copy", "README.md/no"])
        1
    """
    for path in copy(given.copy, given.overwrite):
        print(path)
    return 0


def copy(folder: Path, overwrite: bool = False) -> list[Path]:
    """Writes the files that a shader may include into a folder.

    Args:
        folder: Created if missing.
        overwrite: Whether a file of such a name with another text is replaced; default False.

    Returns:
        The paths.

    Raises:
        InvalidArgumentError: Such a file is there, or one cannot be written; nothing is written then.
        OSError: A file that is there cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from grilly.commands.shaders import copy
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     copy(Path(folder))[0].name
        'arithmetic.glsl'
    """
    files = {folder / name: text for name, text in _core.shader_files()}
    other = [path for path, text in files.items() if path.exists() and path.read_text(encoding="utf-8") != text]
    if other and not overwrite:
        raise InvalidArgumentError(f"{other[0]} has another text; --overwrite replaces it")
    _core.write_files(folder, [(path.name, text.encode()) for path, text in files.items()], True)
    return list(files)
