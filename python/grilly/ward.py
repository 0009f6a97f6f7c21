"""Hierarchical clustering by Ward's method: the same clusters on every machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grilly.errors import NotFiniteError

__all__ = ["clusters", "distances", "linkage", "means"]

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def linkage(distances: Floats) -> tuple[Whole, Floats]:
    """The tree of clusters that joins the two nearest first, by a chain of nearest neighbours.

    The distance of a cluster k from the union of x and y, with `s` points each, is
    `sqrt(((s_k + s_x) d_xk^2 + (s_k + s_y) d_yk^2 - s_k d_xy^2) / (s_k + s_x + s_y))`.

    Args:
        distances: `(N, N)`, symmetric, of at least two points; the diagonal counts for nothing.

    Returns:
        `(N - 1, 2)`, the two nodes of each union, the lower number first: a point, or N plus the number of a union
        before it; and `(N - 1,)`, their distances, which do not decrease. Equal distances are joined in the order in
        which the chain finds them: of equal neighbours it takes the one that it came from, else the first.

    Source: `scipy.cluster.hierarchy.linkage(condensed, "ward")`, version 1.17, with that order.

    Example:
        >>> import numpy as np
        >>> from grilly.ward import linkage
        >>> x = np.array([0.0, 5.0, 1.0])
        >>> unions, heights = linkage(np.abs(x[:, None] - x))
        >>> unions.tolist(), heights.round(3).tolist()
        ([[0, 2], [1, 3]], [1.0, 5.196])
    """
    count = len(distances)
    # Points that are part of another cluster have no size, and no distance to anything.
    rows, sizes = np.array(distances, np.float64), np.ones(count)
    np.fill_diagonal(rows, np.inf)
    joined, heights = np.empty((count - 1, 2), np.int64), np.empty(count - 1)
    chain: list[int] = []
    for place in range(count - 1):
        if not chain:
            chain = [int(np.argmax(sizes > 0))]
        while True:
            last = chain[-1]
            nearest = int(rows[last].argmin())
            if len(chain) > 1 and rows[last, chain[-2]] <= rows[last, nearest]:
                break
            chain.append(nearest)
        y, x = sorted((chain.pop(), chain.pop()), reverse=True)
        joined[place], heights[place] = (x, y), rows[x, y]
        # The union is at the place of y.
        merge(rows, sizes, x, y)
    order = np.argsort(heights, kind="stable")
    return numbered(joined[order], count), heights[order]


def merge(rows: Floats, sizes: Floats, x: int, y: int) -> None:
    """Puts the union of the clusters x and y at the place of y; what has no distance to them keeps an infinite one."""
    apart, of_x, of_y = rows[x, y], rows[x], rows[y]
    share = 1.0 / (sizes[x] + sizes[y] + sizes)
    squares = (sizes + sizes[x]) * share * of_x * of_x + (sizes + sizes[y]) * share * of_y * of_y
    found = np.sqrt(squares - sizes * share * apart * apart)
    rows[y], rows[:, y] = found, found
    rows[x], rows[:, x] = np.inf, np.inf
    sizes[y] += sizes[x]
    sizes[x] = 0


def numbered(joined: Whole, count: int) -> Whole:
    """Unions by the numbers of their nodes, from a point of each of the two."""
    above = list(range(2 * count - 1))
    unions = np.empty_like(joined)
    for place, pair in enumerate(joined.tolist()):
        nodes = []
        for node in pair:
            while above[node] != node:
                above[node] = above[above[node]]
                node = above[node]
            nodes.append(node)
        unions[place] = sorted(nodes)
        above[nodes[0]] = above[nodes[1]] = count + place
    return unions


def clusters(unions: Whole, heights: Floats, most: int) -> Whole:
    """The cluster of each point, of at most so many: as few unions as that takes, and all of equal distance to those.

    Args:
        unions: The result of `linkage` of N points, like `heights`.
        heights: Distances of the unions.
        most: Clusters, from 1 to N - 1.

    Returns:
        `(N,)`, numbers from 0 on. Of two nodes of a union that is not made, the clusters of those that are unions
        themselves come first, in their order, then the points.

    Source: `scipy.cluster.hierarchy.fcluster(tree, most, "maxclust")`, version 1.17, less 1.

    Example:
        >>> import numpy as np
        >>> from grilly.ward import clusters
        >>> clusters(np.array([[0, 2], [1, 3]]), np.array([1.0, 5.196]), 2).tolist()
        [0, 1, 0]
    """
    count = len(unions) + 1
    cut = heights[count - most - 1]
    labels, number = np.empty(count, np.int64), -1
    # A node, and whether it is part of the current cluster.
    waiting = [(2 * count - 2, False)]
    while waiting:
        node, within = waiting.pop()
        if node < count:
            number += not within
            labels[node] = number
            continue
        if not within and heights[node - count] <= cut:
            number, within = number + 1, True
        pair = unions[node - count].tolist()
        # The last one is next.
        waiting += [(child, within) for child in sorted(pair, key=lambda child: (child < count, child), reverse=True)]
    return labels


def means(rows: npt.NDArray[np.float32], factor: float) -> npt.NDArray[np.float32]:
    """The mean of each cluster of `(T, D)`, of at most `T // factor` clusters, at least one.

    Raises:
        NotFiniteError: A vector contains NaN or infinity.

    Example:
        >>> import numpy as np
        >>> from grilly.ward import means
        >>> means(np.float32([[1, 0], [0, 1], [1, 0], [0.5, 0.5]]), 2).tolist()
        [[1.0, 0.0], [0.25, 0.75]]
    """
    most = max(int(len(rows) // factor), 1)
    if most >= len(rows):
        return rows
    if not np.isfinite(rows).all():
        place = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise NotFiniteError(f"vector {place} of those that are pooled contains NaN or infinity")
    labels = clusters(*linkage(distances(rows)), most)
    # Each sum in the order of the tokens.
    sums = np.zeros((labels.max() + 1, rows.shape[1]))
    np.add.at(sums, labels, rows)
    found: npt.NDArray[np.float32] = (sums / np.bincount(labels)[:, None]).astype(np.float32)
    return found


def distances(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """`1 - x . y` of all rows `(T, D)`, from 0 to 2 and rounded to float32: `(T, T)`.

    Rows are rounded to 2^-26 of about the largest norm, so that every product, and every part of a sum of products, is
    a whole number below 2^53: no order of a sum changes one.

    Example:
        >>> import numpy as np
        >>> from grilly.ward import distances
        >>> distances(np.float32([[1, 0], [0.6, 0.8]])).round(6).tolist()
        [[0.0, 0.4], [0.4, 0.0]]
    """
    norm = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1).max(initial=0))
    # Rounding does not carry a norm of about 1 over a power of two, and 1.01^2 2^52 is below 2^53.
    bits = 26 - int(np.frexp(norm / 1.01)[1])
    whole = np.rint(np.ldexp(rows.astype(np.float64), bits))
    dots = np.ldexp(whole @ whole.T, -2 * bits).astype(np.float32)
    found: npt.NDArray[np.float64] = np.clip(np.float32(1) - dots, 0, 2).astype(np.float64)
    return found
