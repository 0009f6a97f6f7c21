from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL, device=DEVICE)
sentences = ["It rained all night.", "The streets were still wet in the morning.", "He plays the cello."]
embeddings = model.encode(sentences)
results["shape"] = list(embeddings.shape)
results["dimension"] = model.get_embedding_dimension()

similarities = model.similarity(embeddings, embeddings)
results["matrix"] = similarities
results["nearest"] = int(similarities[0][1:].argmax()) + 1
results["pairwise"] = model.similarity_pairwise(embeddings[:2], embeddings[1:])
for name in ("dot", "euclidean", "manhattan"):
    model.similarity_fn_name = name
    results[name] = model.similarity(embeddings, embeddings)
