from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL, device=DEVICE)
model.max_seq_length = 12
model.prompts["topic"] = "Topic: "
model.similarity_fn_name = "dot"
model.save_pretrained(FOLDER)

again = SentenceTransformer(FOLDER, device=DEVICE)
text = "A text of more than twelve tokens, so that the limit that was set before saving can be seen in the numbers."
results["embedding"] = again.encode([text, "short"], prompt_name="topic")
results["settings"] = [again.max_seq_length, again.prompts["topic"], again.similarity_fn_name]
results["the same"] = bool((again.encode(text) == model.encode(text)).all())
