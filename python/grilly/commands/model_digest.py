"""A digest of the files from which a model is loaded, by which two folders hold the same model or not."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grilly import hub

__all__ = ["digest", "files_of", "state"]

#: Bytes that have a digest of their own.
BLOCK = 1 << 22


def files_of(folder: Path) -> list[str]:
    """The files that loading may read, of those in a model's folder, in order.

    Weights in torch's format count where there are none in safetensors, which are read in their place.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.model_digest import files_of
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name in ("config.json", "model.safetensors", "pytorch_model.bin", "README.md"):
        ...     _ = (folder / name).write_text("{}")
        >>> files_of(folder)
        ['config.json', 'model.safetensors']
    """
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    names = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    safe = {name.rpartition("/")[0] for name in names if name.endswith(".safetensors")}

    def counts(name: str) -> bool:
        wanted = any(fnmatch.fnmatchcase(name, pattern) for pattern in hub.WANTED)
        wanted |= name.endswith(".bin") and name.rpartition("/")[0] not in safe
        return wanted and not any(fnmatch.fnmatchcase(name, pattern) for pattern in hub.UNWANTED)

    return [name for name in names if counts(name)]


def state(folder: Path) -> str:
    """What tells without reading them that the files are those of an earlier run: path, sizes and times.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.model_digest import state
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> before = state(folder)
        >>> _ = (folder / "config.json").write_text("{}")
        >>> state(folder) == before
        False
    """
    found = [(name, (folder / name).stat()) for name in files_of(folder)]
    return json.dumps([str(folder.resolve()), *((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)])


def digest(folder: Path) -> str:
    """SHA-256 of the names and contents of the files, in hexadecimal digits: the same wherever the folder is.

    Blocks of a file have digests of their own, which threads compute.

    Example:
        >>> import pathlib, tempfile
        >>> from grilly.commands.model_digest import digest
        >>> folders = [pathlib.Path(tempfile.mkdtemp()) for _ in range(2)]
        >>> for folder in folders:
        ...     _ = (folder / "config.json").write_text("{}")
        >>> digest(folders[0]) == digest(folders[1])
        True
    """
    files = [(folder / name, name) for name in files_of(folder)]
    blocks = [(path, name, start) for path, name in files for start in range(0, path.stat().st_size or 1, BLOCK)]
    whole = hashlib.sha256()
    with ThreadPoolExecutor() as threads:
        for (_, name, start), own in zip(blocks, threads.map(_of_block, blocks), strict=True):
            whole.update(f"{name}\0{start}\0".encode() + own)
    return whole.hexdigest()


def _of_block(block: tuple[Path, str, int]) -> bytes:
    path, _, start = block
    with path.open("rb") as file:
        file.seek(start)
        return hashlib.sha256(file.read(BLOCK)).digest()
