from sentence_transformers import InputExample, SentenceTransformer, SentenceTransformerTrainer, losses, models, util
from sentence_transformers.readers import STSBenchmarkDataReader
from sentence_transformers.SentenceTransformer import SentenceTransformer as Older
from sentence_transformers.similarity_functions import SimilarityFunction
from sentence_transformers.training_args import BatchSamplers
from sentence_transformers.util.retrieval import semantic_search

assert Older is SentenceTransformer and InputExample(texts=["a", "b"], label=1).texts == ["a", "b"]
assert all(isinstance(kind, type) for kind in (SentenceTransformerTrainer, losses.TripletLoss, STSBenchmarkDataReader))
assert BatchSamplers is not None and models.Pooling is not None
model = SentenceTransformer(MODEL, device=DEVICE, similarity_fn_name=SimilarityFunction.DOT_PRODUCT)
embeddings = model.encode(["A robin built its nest.", "Birds nest in spring.", "The engine needs oil."])
results["hits"] = semantic_search(embeddings[:1], embeddings, top_k=2, score_function=util.dot_score)
results["similar"] = model.similarity(embeddings, embeddings)
