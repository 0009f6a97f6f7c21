"""Vectors of Stanford's colbert-ai, in whose environment this runs: a folder, texts as JSON, the .npz to write."""

import json
import sys

import numpy as np
from colbert.infra import ColBERTConfig
from colbert.modeling.checkpoint import Checkpoint

folder, given, out = sys.argv[1:]
texts = json.loads(given)
model = Checkpoint(folder, colbert_config=ColBERTConfig.load_from_checkpoint(folder), verbose=0)
if not model.colbert_config.mask_punctuation:
    model.skiplist = {}  # it reads what it sets for punctuation alone
sides = {"query": model.queryFromText(texts), "document": model.docFromText(texts, keep_dims=False)}
rows = {f"{side}{place}": rows.float().numpy() for side, found in sides.items() for place, rows in enumerate(found)}
np.savez(out, **rows)
