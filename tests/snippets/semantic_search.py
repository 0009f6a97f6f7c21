from sentence_transformers import SentenceTransformer, util

model = SentenceTransformer(MODEL, device=DEVICE)
corpus = [
    "The bakery opens at six and sells out of rye bread by eight.",
    "A glacier moves a few centimetres a day.",
    "Our cat hides whenever the vacuum cleaner is switched on.",
    "The central bank kept its interest rate unchanged.",
    "Volcanic soil is rich in minerals and good for vines.",
    "A kitten learns to hunt by playing with its brothers and sisters.",
    "The train to the coast leaves every half hour.",
]
queries = ["When can I buy bread?", "How do young cats learn?", "monetary policy"]

corpus_embeddings = model.encode(corpus, normalize_embeddings=True)
query_embeddings = model.encode(queries, normalize_embeddings=True)
results["cosine"] = util.semantic_search(query_embeddings, corpus_embeddings, top_k=3)
results["dot"] = util.semantic_search(query_embeddings, corpus_embeddings, score_function=util.dot_score, top_k=2)
for query, hits in zip(queries, results["cosine"]):
    print(query, "->", corpus[hits[0]["corpus_id"]])
