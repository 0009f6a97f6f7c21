"""A layer that whitens by the mean and covariance of its inputs so far."""

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import functional
from grilly.functional.checks import allocated, fraction, number, one_of, whole
from grilly.functional.dispatch import Operand, Result
from grilly.functional.streaming import KINDS
from grilly.nn.layers import beside
from grilly.nn.module import Module
from grilly.nn.parameter import Parameter
from grilly.resources import need

__all__ = ["StreamingWhitening"]


class StreamingWhitening(Module):
    """Whitening by the mean and covariance of all rows so far: results have mean 0 and the identity as covariance.

    Args:
        features: Columns of the input.
        kind: `"zca"` (default) or `"pca"`, as in `functional.streaming_whitening_matrix`.
        eps: Eigenvalues below `eps` times the largest count as that much; default 1e-6.
        momentum: The least share of a batch in mean and covariance; default 0, for which all rows count alike.

    Attributes:
        mean: `(features,)`.
        covariance: `(features, features)`.
        count: The number of rows so far.

    Source: Chan et al. (1979) and Kessy et al. (2018), as `functional.streaming_whitening_update`.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> layer = nn.StreamingWhitening(2)
        >>> for batch in ([[1.0, 5.0], [3.0, 5.0]], [[1.0, 9.0], [3.0, 9.0]]):
        ...     layer.update(np.array(batch))
        >>> layer([[3.0, 9.0]]).round(4).tolist(), int(layer.count)
        ([[1.0, 1.0]], 4)
    """

    mean: Parameter
    covariance: Parameter
    count: npt.NDArray[Any]

    def __init__(self, features: int, kind: str = "zca", eps: float = 1e-6, momentum: float = 0.0) -> None:
        super().__init__()
        name = "StreamingWhitening"
        self.features = whole(name, "features", features)
        self.kind = one_of(name, "kind", kind, KINDS)
        self.eps = number(name, "eps", eps, least=0)
        self.momentum = fraction(name, "momentum", momentum)
        need(allocated(name, "covariance", (self.features, self.features)), np.float64, "the covariance")
        self.mean = Parameter(np.zeros(self.features), requires_grad=False)
        self.covariance = Parameter(np.zeros((self.features, self.features)), requires_grad=False)
        self.register_buffer("count", np.zeros((), np.int64))

    def update(self, x: Operand) -> None:
        """Takes the rows of `x` into mean and covariance.

        Raises:
            InvalidArgumentError: Rows of another length, or none.

        Example:
            >>> from grilly import nn
            >>> layer = nn.StreamingWhitening(1)
            >>> layer.update([[1.0], [3.0]])
            >>> layer.mean.tolist(), layer.covariance.tolist()
            ([2.0], [[1.0]])
        """
        mean, covariance = (held.operand(beside(x)) for held in (self.mean, self.covariance))
        moments = mean, covariance, int(self.count)
        mean, covariance, count = functional.streaming_whitening_update(x, *moments, self.momentum)
        self.mean.assign(mean)
        self.covariance.assign(covariance)
        self.count[...] = count

    def matrix(self) -> npt.NDArray[np.float64]:
        """`functional.streaming_whitening_matrix` of the covariance so far, in float64.

        Raises:
            InvalidArgumentError: All rows so far are equal, or there are none.

        Example:
            >>> from grilly import nn
            >>> layer = nn.StreamingWhitening(1)
            >>> layer.update([[0.0], [4.0]])
            >>> layer.matrix().tolist()
            [[0.5]]
        """
        return functional.streaming_whitening_matrix(self.covariance.numpy(), self.kind, self.eps)

    def forward(self, x: Operand) -> Result:
        """`(x - mean) matrix^T`; the matrix is computed for each call. Where the moments no longer change, keep
        `matrix()` and call `functional.streaming_whitening_apply`.

        Example:
            >>> from grilly import nn
            >>> layer = nn.StreamingWhitening(1)
            >>> layer.update([[0.0], [4.0]])
            >>> layer.forward([[6.0]]).tolist()
            [[2.0]]
        """
        return functional.streaming_whitening_apply(x, self.mean.operand(), self.matrix())

    def __repr__(self) -> str:
        return f"StreamingWhitening({self.features}, kind={self.kind!r}, count={int(self.count)})"
