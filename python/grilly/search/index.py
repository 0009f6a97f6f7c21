"""`Index`: exact nearest rows on a device."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from grilly import _core, fallbacks
from grilly.closed import closed
from grilly.errors import DeviceError, UnsupportedError
from grilly.functional.checks import whole
from grilly.inputs import device_name, need_one_of
from grilly.search.blocks import OnDevice, opened, rows_of_block
from grilly.search.files import read_index, write_index
from grilly.search.rows import KINDS, Call
from grilly.search.texts import Texts
from grilly.search.vectors import Vectors
from grilly.search.walk import Best, best_of, counted_rows, places_of

__all__ = ["Found", "Index"]

SIMILARITIES = ("cosine", "dot", "maxsim")
Result = TypeVar("Result")


@closed()
class Found(NamedTuple):
    """What a search found: `scores`, the highest first, and the numbers of the `rows` that have them."""

    scores: npt.NDArray[np.float32]
    rows: npt.NDArray[np.int64]


@closed()
class Index:
    """Exact nearest rows: every vector is compared with every query, on a GPU or on the CPU.

    Rows are numbered from 0 in the order in which they are added, and keep their numbers. A score is
    `sum_k q[k] x[k]` of float32 or float16 rows (normalised first with `"cosine"`), the same of rows that are rounded
    to int8, or of signs; with `"maxsim"`, `sum_t max_u q[t] . x[u]` of texts with a vector for each token. Of equal
    scores the lower number comes first. A result has the same bits among any other queries and rows, and for any
    `block_bytes`.

    Args:
        columns: Columns of a vector.
        similarity: `"cosine"`, `"dot"` or `"maxsim"`; default `"cosine"`.
        dtype: `"float32"`, `"float16"`, `"int8"` (with a scale per row) or `"binary"` (the signs, eight a byte);
            default `"float32"`.
        device: `"vulkan"`, `"vulkan:N"` or `"cpu"`; default `"vulkan"`, which takes the CPU where there is no GPU.
        numerics: `"run"`, or `"everywhere"`: the same bits on every device; not with float16. Default: what
            `grilly.configure` has set.
        device_memory: Bytes of the device that rows may take; what does not fit is sent to it in each search. Default
            half of its memory.
        block_bytes: Bytes of rows that are compared at a time at most, but 64 rows at least; default 1 GiB on a GPU,
            12 MiB on the CPU.

    Raises:
        InvalidArgumentError: An argument out of range, or an unknown name.
        UnsupportedError: float16 with `numerics="everywhere"`.
        DeviceUnavailableError: The device was asked for and is not there, with `GRILLY_STRICT=1`.

    Source: FAISS's `IndexFlat` in what it computes (Johnson, Douze, Jégou 2017).

    Example:
        >>> import numpy as np
        >>> from grilly import Index
        >>> index = Index(2, device="cpu")
        >>> index.add(np.float32([[1, 0], [0, 1], [1, 1]]))
        range(0, 3)
        >>> scores, rows = index.search(np.float32([[3, 0.1]]), top_k=2)
        >>> rows.tolist(), [round(float(score), 3) for score in scores[0]]
        ([[0, 2]], [0.999, 0.73])
    """

    def __init__(
        self,
        columns: int,
        similarity: str = "cosine",
        dtype: str = "float32",
        device: str | None = None,
        numerics: str | None = None,
        device_memory: int | None = None,
        block_bytes: int | None = None,
    ) -> None:
        need_one_of(similarity, SIMILARITIES, "similarity")
        need_one_of(dtype, KINDS, "dtype")
        self._columns, self._similarity, self._dtype = whole("Index", "columns", columns), similarity, dtype
        self._call = Call(_core.numerics_name(numerics))
        if dtype == "float16" and self._call.is_everywhere:
            raise UnsupportedError("Index: numerics='everywhere' refuses float16, and takes float32, int8 and binary")
        self._device = opened(device_name(device).replace("auto", "vulkan"), device_memory, block_bytes)
        size = rows_of_block(self._device.block_bytes, KINDS[dtype].row_bytes(self._columns))
        if similarity == "maxsim":
            self._store: Texts | Vectors = Texts(self._columns, dtype, self._call, size)
        else:
            self._store = Vectors(self._columns, dtype, similarity == "cosine", self._call, size)
        self._removed: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._count = 0

    @property
    def columns(self) -> int:
        """Columns of a vector."""
        return self._columns

    @property
    def similarity(self) -> str:
        """`"cosine"`, `"dot"` or `"maxsim"`."""
        return self._similarity

    @property
    def dtype(self) -> str:
        """The element type of the rows."""
        return self._dtype

    @property
    def numerics(self) -> str:
        """`"run"`, or `"everywhere"` with its version."""
        return self._call.numerics

    @property
    def device(self) -> str:
        """`"vulkan"` or `"cpu"`: where rows are compared."""
        return self._device.engine.backend

    @property
    def next_row(self) -> int:
        """The number that the next row gets."""
        return self._store.count

    def __len__(self) -> int:
        """How many rows there are, without those that are removed."""
        return self._count

    def add(self, vectors: Any) -> range:
        """Adds rows.

        Args:
            vectors: `(N, D)` numbers, or `(D,)`; for `"maxsim"` a list of matrices `(T, D)`. They are copied,
                normalised with `"cosine"`, and rounded to the index' type.

        Returns:
            Their numbers.

        Raises:
            InvalidArgumentError: Another number of columns, or a number that is infinite or NaN.
            InvalidTypeError: No numbers.

        Example:
            >>> from grilly import Index
            >>> Index(2, "dot", device="cpu").add([[1.0, 2.0], [3.0, 4.0]])
            range(0, 2)
        """
        first = self.next_row
        self._store.add(vectors)
        self._removed = np.append(self._removed, np.zeros(self.next_row - first, np.bool_))
        self._count += self.next_row - first
        return range(first, self.next_row)

    def remove(self, rows: Any) -> int:
        """Removes rows by their numbers; the others keep theirs.

        Args:
            rows: A number or several.

        Returns:
            How many were removed; one that had been removed before does not count.

        Raises:
            IndexOutOfRangeError: A number that no row has; nothing is removed then.
            InvalidTypeError: No integers.

        Example:
            >>> from grilly import Index
            >>> index = Index(1, "dot", device="cpu")
            >>> index.add([[1.0], [2.0], [3.0]])
            range(0, 3)
            >>> index.remove([2]), len(index), index.search([[1.0]], top_k=1).rows.tolist()
            (1, 2, [[1]])
        """
        places = places_of(rows, self.next_row, "rows")
        before = len(self)
        self._removed[places] = True
        self._count = self.next_row - int(self._removed.sum())
        return before - len(self)

    def search(self, queries: Any, top_k: int = 10, mask: Any = None, rescore: int = 4) -> Found:
        """The rows with the highest scores for each query.

        Args:
            queries: `(Q, D)` numbers, or `(D,)`; for `"maxsim"` a list of matrices `(T, D)`.
            top_k: How many rows; fewer are given where there are no more.
            mask: Which rows count: bool, one for each number from 0, or the numbers of those that do; default all.
            rescore: With dtype `"binary"`, not for maxsim: `rescore * top_k` rows are found by their signs and those of
                the query, equal minus different ones, and ordered by the sum of the query's numbers times their signs.
                0 gives the former scores; default 4.

        Returns:
            `Found(scores, rows)`, float32 and int64, both `(Q, min(top_k, rows))`.

        Raises:
            InvalidArgumentError: Another number of columns, numbers that are not finite, a negative `top_k` or
                `rescore`.
            IndexOutOfRangeError: A number in `mask` that no row has.
            DeviceMemoryError: Memory does not hold the scores of one query and block.

        Example:
            >>> from grilly import Index
            >>> index = Index(2, "dot", device="cpu")
            >>> index.add([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
            range(0, 3)
            >>> index.search([1.0, 0.5], mask=[0, 1]).rows.tolist()
            [[0, 1]]
        """
        top_k, rescore = whole("search", "top_k", top_k, 0), whole("search", "rescore", rescore, 0)
        counted = counted_rows(self._removed, mask)
        rows = len(self) if counted is None else int(counted.sum())
        forms, count = self._store.queries(queries)
        signs = self._dtype == "binary" and isinstance(self._store, Vectors) and rescore > 0
        wanted = min(top_k, rows)
        chosen = min(wanted * (rescore if signs else 1), rows)
        if not (count and wanted):
            return Found(np.empty((count, wanted), np.float32), np.empty((count, wanted), np.int64))
        best = self._run(lambda: best_of(self._device, self._store, forms[-1], chosen, counted))
        if signs:
            assert isinstance(self._store, Vectors)
            best = Best(self._store.scores_of(forms[0][0], best.rows), best.rows).sorted()
        return Found(best.scores[:, :wanted], best.rows[:, :wanted])

    def _run(self, work: Callable[[], Result]) -> Result:
        """The result on the device, or on the CPU if that fails."""
        try:
            return work()
        except DeviceError as error:
            if self.device == "cpu":
                raise
            fallbacks.to_cpu("Index.search", error)
        self._device = OnDevice(_core.engine("cpu"), None, self._device.block_bytes)
        return work()

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the index into a folder; numbers of rows stay.

        Args:
            folder: Made if it is not there.
            overwrite: Whether an index in it may be replaced.

        Raises:
            InvalidArgumentError: An index is there, or the folder cannot be written.

        Example:
            >>> import tempfile
            >>> from grilly import Index
            >>> index = Index(1, device="cpu")
            >>> index.add([[1.0]])
            range(0, 1)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     index.save(folder)
        """
        settings = {"columns": self.columns, "similarity": self.similarity, "dtype": self.dtype}
        write_index(Path(folder), settings, self._store, self._removed, overwrite)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        device: str | None = None,
        numerics: str | None = None,
        device_memory: int | None = None,
        block_bytes: int | None = None,
        mmap: bool = True,
    ) -> Index:
        """Reads an index that `save` wrote.

        Args:
            folder: The folder.
            device: As for the class, like `numerics`, `device_memory` and `block_bytes`.
            mmap: Whether rows stay in their files, from which they are read as they are needed; default True.

        Raises:
            InvalidArgumentError: No index, or files that are cut or do not fit; it names the file.

        Example:
            >>> import tempfile
            >>> from grilly import Index
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Index(3, "dot", "int8", device="cpu").save(folder)
            ...     index = Index.load(folder, device="cpu")
            >>> index.columns, index.similarity, index.dtype
            (3, 'dot', 'int8')
        """
        settings, blocks, removed = read_index(Path(folder), mmap)
        index = cls(**settings, device=device, numerics=numerics, device_memory=device_memory, block_bytes=block_bytes)
        index._store.add_block(blocks)
        index._removed, index._count = removed, len(removed) - int(removed.sum())
        return index
