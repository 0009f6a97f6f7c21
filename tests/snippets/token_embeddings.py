from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL, device=DEVICE)
sentences = ["Rivers carry sand.", "A longer sentence has more tokens than a short one."]
tokens = model.encode(sentences, output_value="token_embeddings")
results["shapes"] = [list(rows.shape) for rows in tokens]
results["first"] = tokens[0][:, :16]
features = model.preprocess(sentences)
results["ids"] = features["input_ids"]
results["mask"] = features["attention_mask"]
results["names"] = sorted(features)
everything = model.encode(sentences[0], output_value=None)
results["sentence"] = everything["sentence_embedding"]
results["first id"] = int(everything["input_ids"][0])
