"""Sparse rows under the names that torch's sparse tensors and SciPy's matrices have."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import UnsupportedError
from grilly.numbers import Numbers, dtype_on_cpu
from grilly.place import Place

if TYPE_CHECKING:
    from grilly.sparse import SparseRows

__all__ = ["TensorNames"]

Self = TypeVar("Self", bound="TensorNames")


@closed()
class TensorNames:
    """What code for sparse tensors calls on rows; dense results are NumPy arrays."""

    values: Numbers
    columns: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    shape: tuple[int, ...]

    is_sparse = True
    requires_grad = False

    def coalesce(self: Self) -> Self:
        """The rows themselves, whose columns rise and differ.

        Example:
            >>> rows.coalesce() is rows
            True
        """
        return self

    def is_coalesced(self) -> bool:
        """True.

        Example:
            >>> rows.is_coalesced()
            True
        """
        return True

    def indices(self) -> Numbers:
        """The places of the stored numbers: int64 `(2, K)`, rows and columns; of a vector `(1, K)`.

        Example:
            >>> rows.indices().tolist()
            [[0, 0], [1, 3]]
        """
        places = [self.columns] if self.ndim == 1 else [self.row_numbers(), self.columns]
        return np.stack(places).view(Numbers)

    def row_numbers(self) -> npt.NDArray[np.int64]:
        """The row of each stored number.

        Example:
            >>> rows.row_numbers().tolist()
            [0, 0]
        """
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def to_dense(self) -> Numbers:
        """The whole array, zeros included: `toarray()`.

        Example:
            >>> rows.to_dense().tolist()
            [[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
        """
        return self._rows.toarray().view(Numbers)

    def numpy(self) -> npt.NDArray[np.floating[Any]]:
        """The same as `toarray`.

        Example:
            >>> rows.numpy().shape
            (2, 4)
        """
        return self._rows.toarray()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The whole array."""
        if copy is False:
            raise ValueError("rows are stored without their zeros: the whole array is a copy")
        return self._rows.toarray().astype(dtype or self.dtype, copy=False)

    def tocsr(self) -> Any:
        """SciPy's `csr_array` of the same numbers, where SciPy is installed; of a vector with one row.

        Raises:
            ImportError: SciPy is not installed.
        """
        try:
            sparse = importlib.import_module("scipy.sparse")
        except ImportError as error:
            raise ImportError("tocsr() needs SciPy, which cannot be imported; pip install scipy") from error
        matrix = self._rows.matrix()
        return sparse.csr_array((matrix.values.numpy(), matrix.columns, matrix.starts), matrix.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or its number at `dim`.

        Example:
            >>> rows.size(), rows.size(0), rows.size(-1)
            ((2, 4), 2, 4)
        """
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Number of axes.

        Example:
            >>> rows.dim(), rows[0].dim()
            (2, 1)
        """
        return self.ndim

    def numel(self) -> int:
        """Number of elements, zeros included.

        Example:
            >>> rows.numel()
            8
        """
        return int(np.prod(self.shape))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """How many numbers are stored."""
        return len(self.values)

    def _nnz(self) -> int:
        return self.nnz

    def _values(self) -> Numbers:
        return self.values

    def _indices(self) -> Numbers:
        return self.indices()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers, NumPy's."""
        return self.values.dtype

    @property
    def device(self) -> Place:
        """`"cpu"`."""
        return Place("cpu")

    def cpu(self: Self) -> Self:
        """The rows themselves.

        Example:
            >>> rows.cpu() is rows.detach() is rows.to_sparse() is rows
            True
        """
        return self

    detach = to_sparse = to_sparse_coo = cpu

    def to_sparse_csr(self) -> Any:
        """A torch tensor in the layout CSR, where torch is installed.

        Raises:
            ImportError: torch is not installed; `tocsr()` gives SciPy's matrix.
        """
        return self._rows.to_torch().to_sparse_csr()

    def to_sparse_csc(self) -> Any:
        """A torch tensor in the layout CSC, where torch is installed.

        Raises:
            ImportError: torch is not installed; `tocsr().tocsc()` gives SciPy's matrix.
        """
        return self._rows.to_torch().to_sparse_csc()

    def to(self, *arguments: Any, device: Any = None, dtype: Any = None, **more: Any) -> SparseRows:
        """Rows in another element type; the device can only be the CPU.

        Raises:
            UnsupportedError: Another device, or another element type; a tensor of `to_torch()` has them.

        Example:
            >>> rows.to("cpu").to(np.float16).dtype.name
            'float16'
        """
        name = dtype_on_cpu("rows", "to_torch()", arguments, device, dtype)
        if name is None:
            return self._rows
        if name not in ("float32", "float16"):
            raise UnsupportedError(f"rows are float32 or float16, not {name}; to_torch({name!r}) gives a tensor")
        return self._like(self.values.astype(name))

    def _like(self, values: npt.NDArray[Any]) -> SparseRows:
        """The same places with other numbers, of which zeros are left out."""
        kept = values != 0
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts].astype(np.int64)
        return type(self._rows)(values[kept], self.columns[kept], starts, self.shape)

    @property
    def _rows(self) -> SparseRows:
        return self  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        others = "; to_torch() gives a tensor, tocsr() SciPy's matrix, toarray() an array"
        raise AttributeError(f"SparseRows has no attribute {name!r}{'' if name.startswith('_') else others}")
