import torch
from sentence_transformers import SentenceTransformer, util

model = SentenceTransformer(MODEL, device=DEVICE)
corpus = ["The harbour froze over.", "Ice covered the port.", "Lemons are sour."]
corpus_embeddings = model.encode(corpus, convert_to_tensor=True)
query_embedding = model.encode("a frozen port", convert_to_tensor=True)
scores = model.similarity(query_embedding, corpus_embeddings)[0]
best = torch.topk(scores, k=2)
results["scores"] = best.values
results["places"] = best.indices
results["util"] = util.cos_sim(query_embedding, corpus_embeddings)
results["hits"] = util.semantic_search(query_embedding, corpus_embeddings, score_function=lambda a, b: torch.mm(a, b.T))
results["kinds"] = [str(type(scores)), str(util.normalize_embeddings(corpus_embeddings).dtype)]
results["clusters"] = util.community_detection(corpus_embeddings, threshold=0.5, min_community_size=2)
