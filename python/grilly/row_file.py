"""Rows in a .npy file that grows block by block and can be read after each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import InvalidArgumentError

__all__ = ["RowFile"]

# Bytes before the first row: NumPy's own number for a matrix, with room for a number of rows of 20 digits.
HEADER = 128


@closed()
class RowFile:
    """A .npy file of a matrix, to which rows are added: first the rows, then their number in the header.

    Args:
        path: The file.
        resume: Whether rows are added to those of a file that is there; otherwise there must be none, or an empty one.

    Raises:
        InvalidArgumentError: A file that is there, or is no such matrix, or cannot be written.

    Source: NumPy's `numpy.lib.format`, version 1.0 of the format.

    Example:
        >>> import tempfile, pathlib, numpy as np
        >>> from grilly.row_file import RowFile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.npy"
        ...     with RowFile(path, resume=True) as file:
        ...         file.add(np.ones((2, 3), np.float32))
        ...         file.add(np.zeros((1, 3), np.float32))
        ...     np.load(path).tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, path: Path, resume: bool) -> None:
        self._rows, self._path = 0, path
        self._kind: tuple[np.dtype[Any], int] | None = None  # the type, and the columns
        try:
            self._file = path.open("r+b" if path.exists() else "xb")
        except OSError as error:
            raise InvalidArgumentError(f"{path} cannot be written: {error.strerror}") from error
        size = os.fstat(self._file.fileno()).st_size
        if not size:
            return
        try:
            if not resume:
                raise InvalidArgumentError(f"{path} is there; resume=True adds rows to those that it has")
            self._read_header(size)
        except BaseException:
            self._file.close()
            raise

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return self._rows

    def _read_header(self, size: int) -> None:
        file = self._file
        problem = f"{self._path} is not a matrix in NumPy's format, as encode(out=...) writes it"
        try:
            if np.lib.format.read_magic(file) != (1, 0):
                raise InvalidArgumentError(problem)
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
        except Exception as error:  # whatever NumPy and Python's tokenizer raise for bytes that they were not made for
            raise InvalidArgumentError(f"{problem}: {error}") from None
        if len(shape) != 2 or by_columns or dtype.hasobject or file.tell() != HEADER:
            raise InvalidArgumentError(problem)
        self._rows, self._kind = shape[0], (dtype, shape[1])
        end = HEADER + shape[0] * shape[1] * dtype.itemsize
        if size < end:
            raise InvalidArgumentError(f"{self._path} has {size} bytes, expected {end} for {shape[0]} rows")
        file.truncate(end)  # rows that were written when their number was not
        file.seek(end)

    def last(self) -> npt.NDArray[Any]:
        """The last row of a file that has one."""
        assert self._kind is not None
        dtype, columns = self._kind
        with self._path.open("rb") as file:
            file.seek(HEADER + (self.rows - 1) * columns * dtype.itemsize)
            return np.frombuffer(file.read(columns * dtype.itemsize), dtype)

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Adds `(N, D)` rows, of the type and with the columns of those before."""
        kind = rows.dtype, rows.shape[1]
        if self._kind not in (None, kind):
            dtype, columns = self._kind
            raise InvalidArgumentError(
                f"{self._path} has rows of {columns} {dtype}, and those to add have {kind[1]} {kind[0]}"
            )
        if self._kind is None:
            self._kind = kind
            self._write_header()
        self._file.write(np.ascontiguousarray(rows).data)
        self._file.flush()
        self._rows += len(rows)
        self._write_header()

    def _write_header(self) -> None:
        """Writes the number of rows, and returns to the end of the file."""
        assert self._kind is not None
        dtype, columns = self._kind
        fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (self.rows, columns)}
        magic = np.lib.format.magic(1, 0)
        text = str(fields).ljust(HEADER - len(magic) - 3) + "\n"
        self._file.seek(0)
        self._file.write(magic + (len(text)).to_bytes(2, "little") + text.encode("latin1"))
        self._file.flush()
        self._file.seek(0, os.SEEK_END)

    def matrix(self) -> npt.NDArray[Any]:
        """The rows so far, mapped from the file."""
        rows: npt.NDArray[Any] = np.load(self._path, mmap_mode="r" if self.rows else None)
        return rows

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
