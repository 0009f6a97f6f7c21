import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import quantize_embeddings, semantic_search

model = SentenceTransformer(MODEL, device=DEVICE)
calibration = model.encode([f"Sentence number {number} is about topic {number % 7}." for number in range(24)])
embeddings = model.encode(["A robin built its nest.", "Birds nest in spring.", "The engine needs oil."])
packed = quantize_embeddings(embeddings, precision="ubinary")
results["binary kind"] = [str(packed.dtype), *packed.shape]
results["binary"] = np.unpackbits(packed, axis=1)[0].tolist()
ranges = np.vstack([calibration.min(axis=0), calibration.max(axis=0)])
results["levels by ranges"] = quantize_embeddings(embeddings, precision="int8", ranges=ranges)
results["levels by calibration"] = quantize_embeddings(
    embeddings, precision="uint8", calibration_embeddings=calibration
)
results["encode"] = str(model.encode(["A robin built its nest."], precision="binary").dtype)
hits = semantic_search(embeddings[:1], embeddings, top_k=2)[0]
results["nearest"] = [hit["corpus_id"] for hit in hits]
