"""Makes the pipelines of every call on matrices on a driver that runs nothing, and writes what came of each as JSON.

`python -m emulated.pipelines_run OUTPUT`, from the tests' folder: the kernels that each must run and did, and the
messages of the validation layer. The results are no numbers.
"""

import json
import sys
from pathlib import Path

import grilly
import grilly.testing
from ops import matrix_calls


def main(output: str) -> None:
    shapes = matrix_calls.shapes()
    found = {"devices": grilly.info()["devices"], "calls": {}}
    for call in matrix_calls.CALLS:
        before = len(grilly.testing.validation_messages())
        ran = call.run()[1]
        wanted = [kernel.format(shapes[matrix_calls.TYPES[call.dtype]]) for kernel in call.kernels]
        messages = list(grilly.testing.validation_messages()[before:])
        found["calls"][call.name] = {"rows": call.rows, "wanted": wanted, "ran": sorted(ran), "messages": messages}
    found["messages"] = list(grilly.testing.validation_messages())
    Path(output).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
