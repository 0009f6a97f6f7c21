from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL, device=DEVICE)
sentences = [f"Line {number} of a long list of lines." for number in range(8)]
pool = model.start_multi_process_pool(target_devices=["cpu", "cpu"])
results["by pool"] = model.encode(sentences, pool=pool, chunk_size=3)[:, :8]
results["by its older name"] = model.encode_multi_process(sentences[:5], pool, batch_size=2)[:, :8]
model.stop_multi_process_pool(pool)
results["alone"] = model.encode(sentences)[:, :8]
