from sentence_transformers import SentenceTransformer

model = SentenceTransformer(
    MODEL, device=DEVICE, trust_remote_code=False, backend="torch", tokenizer_kwargs={"use_fast": True}
)
model.to("cpu").eval()
model.train(False)
sentences = ["The orchestra tuned up.", "Musicians prepared to play."]
results["on the cpu"] = model.encode(sentences, device="cpu", convert_to_numpy=True)
results["float"] = model.bfloat16().float().get_sentence_embedding_dimension()
results["half"] = str(model.half().encode(sentences).dtype)
