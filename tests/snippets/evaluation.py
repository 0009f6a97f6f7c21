from sentence_transformers import SentenceTransformer
from sentence_transformers.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
    SequentialEvaluator,
)

model = SentenceTransformer(MODEL, device=DEVICE)
corpus = {
    "bread": "The bakery sells out of rye bread by eight.",
    "train": "The train to the coast leaves every half hour.",
    "rates": "The central bank kept its interest rate unchanged.",
    "cats": "A kitten learns to hunt by playing with its brothers and sisters.",
}
queries = {"q1": "When can I buy bread?", "q2": "monetary policy", "q3": "How do young cats learn?"}
relevant = {"q1": {"bread"}, "q2": {"rates", "train"}, "q3": {"cats"}}
search = InformationRetrievalEvaluator(queries, corpus, relevant, name="dev")
texts = list(corpus.values())
pairs = EmbeddingSimilarityEvaluator(texts, texts[1:] + texts[:1], [0.1, 0.4, 0.3, 0.2], main_similarity="cosine")
results["metrics"] = SequentialEvaluator([search, pairs])(model)
results["primary"] = [search.primary_metric, pairs.primary_metric]
