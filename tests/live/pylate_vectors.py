"""Vectors of PyLate, in whose environment this runs: `[folder, arguments, folder for results]` of models, and texts.

Both are JSON. A model is also saved, into `saved` of its folder for results.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from pylate import models

listed, given = (json.loads(text) for text in sys.argv[1:])
for folder, arguments, out in listed:
    torch.manual_seed(1)  # of the projection that a plain encoder gets
    model = models.ColBERT(folder, device="cpu", **arguments)
    sides = {name: model.encode(given, is_query=name == "query") for name in ("query", "document")}
    rows = {f"{side}{place}": rows for side, found in sides.items() for place, rows in enumerate(found)}
    model.save_pretrained(str(Path(out) / "saved"), create_model_card=False)
    np.savez(Path(out) / "vectors.npz", **rows)
