from sentence_transformers import SentenceTransformer
from sentence_transformers.util import paraphrase_mining

model = SentenceTransformer(MODEL, device=DEVICE)
sentences = [
    "How do I reset my password?",
    "Where is the nearest pharmacy?",
    "What is the way to set a new password?",
    "Is there a chemist close by?",
    "Which platform does the bus leave from?",
]
pairs = paraphrase_mining(model, sentences, top_k=2)
results["pairs"] = pairs
duplicates = [(i, j) for score, i, j in pairs if score > 0.6]
results["duplicates"] = [list(pair) for pair in duplicates]
for i, j in duplicates:
    print(sentences[i], "=", sentences[j])
