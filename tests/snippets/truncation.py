from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL, device=DEVICE, truncate_dim=64)
sentences = ["A lighthouse keeper lives alone.", "Few people still keep lighthouses.", "Add two eggs and stir."]
embeddings = model.encode(sentences)
results["short"] = embeddings
results["similar"] = model.similarity(embeddings[0], embeddings[1:])
results["in a call"] = model.encode(sentences, truncate_dim=16, normalize_embeddings=True)
with model.truncate_embeddings(8):
    results["in a block"] = model.encode(sentences[0])
results["dimensions"] = model.get_sentence_embedding_dimension()
