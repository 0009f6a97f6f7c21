from sentence_transformers import SentenceTransformer
from sentence_transformers.util import community_detection

model = SentenceTransformer(MODEL, device=DEVICE)
sentences = [
    "The soup is too salty.", "This soup has far too much salt.", "There is too much salt in the soup.",
    "My train was late again.", "Again the train came late.", "The train is never on time.",
    "She painted the fence green.",
]  # fmt: skip
embeddings = model.encode(sentences, batch_size=64, show_progress_bar=False)
clusters = community_detection(embeddings, threshold=0.6, min_community_size=2)
for number, cluster in enumerate(clusters, start=1):
    print(f"Cluster {number}:", *(sentences[place] for place in cluster), sep="\n  ")
results["clusters"] = clusters
