"""Random indexes beside float64, and damaged folders of them: `python tests/fuzz/indexes.py`.

An index that rows come into and leave finds what float64 finds, up to the rounding of its element type, and the same
bits in other blocks and after it was saved. A folder with a damaged file is refused, or read to scores of its rows.
"""

import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import damage  # isort: skip
from fuzz.driver import Fault, main, pick  # isort: skip

from grilly import Index
from grilly.errors import InvalidArgumentError

SIMILARITIES = ["cosine", "dot", "maxsim"]
DTYPES = ["float32", "float16", "int8", "binary"]
#: Errors of products of rows with norms of 1, beside those of rounding to 8 bits.
ERRORS = {"float32": 2e-6, "float16": 4e-3}


def unit(rows):
    norms = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=-1, keepdims=True))
    return rows / np.maximum(norms, 1e-12)


def stands_for(rows, dtype):
    """What rows are compared as, in float64."""
    wide = rows.astype(np.float64)
    if dtype == "binary":
        return np.where(wide > 0, 1.0, -1.0)
    if dtype == "int8":
        scales = np.maximum(np.abs(wide).max(axis=-1, keepdims=True), 1e-30) / 127
        return np.rint(wide / scales) * scales
    return wide


def scores_of(queries, texts, similarity, dtype):
    """Scores `(Q, N)` in float64, and how far a score may be from them."""
    if similarity == "maxsim":
        texts = [stands_for(text, dtype) for text in texts]
        found = [[(query @ text.T).max(axis=1).sum() if len(text) else -1e9 for text in texts] for query in queries]
        most = max([1.0, *(np.abs(text).sum(axis=1).max() for text in texts if len(text))])
        sizes = [np.abs(query).sum() * most for query in queries]
        return np.array(found).reshape(len(queries), len(texts)), np.array(sizes)[:, None]
    queries, texts = (unit(rows) if similarity == "cosine" else rows for rows in (queries, texts))
    if dtype in ("int8", "binary"):
        queries = stands_for(queries, dtype)
    texts = stands_for(texts, dtype)
    return queries @ texts.T, np.abs(queries).sum(axis=1, keepdims=True) * max(1.0, np.abs(texts).max(initial=0.0))


def drawn(chance, count, columns, similarity):
    """Vectors, or texts of vectors, some of them equal."""
    if similarity == "maxsim":
        return [chance.standard_normal((int(chance.integers(6)), columns)).astype(np.float32) for _ in range(count)]
    rows = chance.standard_normal((count, columns)).astype(np.float32)
    if count > 3:
        rows[1] = rows[0]
    return rows * np.float32(pick(chance, [1, 1, 1e-3, 30]))


def check(index, queries, texts, counted, options):
    """Compares a search with float64."""
    expected, sizes = scores_of(queries, texts, index.similarity, index.dtype)
    scores, rows = index.search(queries, **options)
    wanted = min(options["top_k"], int(counted.sum()))
    if scores.shape != (len(queries), wanted):
        raise Fault(f"scores of shape {scores.shape}, expected {(len(queries), wanted)}")
    if index.dtype == "int8":
        error = 1e-2 * sizes  # a tie of rounding may go either way
    else:
        error = ERRORS.get(index.dtype, 2e-6) * sizes
    own = np.take_along_axis(expected, rows, axis=1) if wanted else scores
    if wanted and not counted[rows].all():
        raise Fault("a row that was removed or masked")
    if (np.abs(own - scores) > error).any():
        raise Fault(f"scores differ by {np.abs(own - scores).max()}")
    for number, row in enumerate(rows):
        others = counted.copy()
        others[row] = False
        if len(set(row.tolist())) != len(row) or (np.diff(scores[number]) > 0).any():
            raise Fault("rows twice, or not in order")
        if wanted and (expected[number][others] > scores[number][-1] + 2 * error[number]).any():
            raise Fault("a row with a higher score is missing")
    return scores, rows


def case(corpus, chance):
    """One index, its searches, its folder, and the folder damaged."""
    folder, device = corpus
    columns = int(pick(chance, [1, 2, 3, 8, 31, 64, 65, 130]))
    similarity, dtype = pick(chance, SIMILARITIES), pick(chance, DTYPES)
    blocks = [None, 1, 64 * columns * 4, 1 << 20]
    index = Index(columns, similarity, dtype, device=device, block_bytes=pick(chance, blocks))
    texts = [] if similarity == "maxsim" else np.zeros((0, columns), np.float32)
    counted = np.zeros(0, np.bool_)
    for _ in range(int(chance.integers(1, 5))):
        more = drawn(chance, int(pick(chance, [0, 1, 5, 63, 64, 65, 200])), columns, similarity)
        index.add(more)
        texts = [*texts, *more] if similarity == "maxsim" else np.concatenate([texts, more])
        counted = np.append(counted, np.ones(len(more), np.bool_))
        if len(counted) and chance.random() < 0.5:
            gone = chance.integers(len(counted), size=int(chance.integers(1, 9)))
            index.remove(gone)
            counted[gone] = False
    if not len(texts):
        return "no rows"
    queries = drawn(chance, int(pick(chance, [1, 2, 5, 17])), columns, similarity)
    options = {"top_k": int(pick(chance, [0, 1, 3, 10, 1001])), "rescore": 0}
    if chance.random() < 0.4:
        options["mask"] = chance.random(len(texts)) < 0.5
    allowed = counted & options["mask"] if "mask" in options else counted
    found = check(index, queries, texts, allowed, options)
    path = Path(folder) / "index"
    index.save(path, overwrite=True)
    again = Index.load(path, device=device, block_bytes=pick(chance, blocks), mmap=bool(chance.integers(2)))
    if not all(map(np.array_equal, found, again.search(queries, **options))):
        raise Fault("other bits after loading")
    word = damaged(path, chance, queries, options, device)
    return f"{dtype}, damaged {word}"


def damaged(path, chance, queries, options, device):
    """What comes of a folder with one file damaged."""
    files = {file: file.read_bytes() for file in sorted(path.iterdir())}
    file = pick(chance, list(files))
    change = damage.of_json if file.suffix == ".json" and chance.random() < 0.8 else damage.of_bytes
    try:
        file.write_bytes(change(files[file], chance))
        index = Index.load(path, device=device, mmap=bool(chance.integers(2)))
        options = {name: value for name, value in options.items() if name != "mask"}
        rows = index.search(queries, **options).rows
        if ((rows < 0) | (rows >= index.next_row)).any():
            raise Fault(f"{file.name}: rows that no vector has")
        return "read"
    except InvalidArgumentError:
        return "refused"
    finally:
        file.write_bytes(files[file])


def corpus(folder, given):
    return folder, given.device


if __name__ == "__main__":
    sys.exit(main(corpus, case))
