from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL, device=DEVICE, prompts={"query": "query: ", "document": "passage: "})
queries = ["Which planet is the largest?", "Who invented the telephone?"]
documents = [
    "Jupiter is larger than all other planets together.",
    "Bell was granted a patent on the telephone in 1876.",
    "Saturn has rings of ice and rock.",
]
query_embeddings = model.encode_query(queries)
document_embeddings = model.encode_document(documents, normalize_embeddings=True)
scores = model.similarity(query_embeddings, document_embeddings)
results["scores"] = scores
results["best"] = [int(row.argmax()) for row in scores]
