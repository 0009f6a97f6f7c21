from sentence_transformers import SentenceTransformer

model = SentenceTransformer(
    MODEL,
    device=DEVICE,
    prompts={"classification": "Classify the text: ", "retrieval": "Find the text: "},
    default_prompt_name="retrieval",
)
results["by default"] = model.encode("The weather turned cold.")
results["by name"] = model.encode(["The weather turned cold."], prompt_name="classification")
results["second argument"] = model.encode("The weather turned cold.", "classification")
results["itself"] = model.encode("The weather turned cold.", prompt="Sort by topic: ")
model.set_pooling_include_prompt(False)
results["not pooled"] = model.encode("The weather turned cold.", prompt_name="classification")
results["names"] = sorted(model.prompts)
