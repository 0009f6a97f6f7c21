"""Windows of a long text and parts of it beside transformers: its tokenizer's windows, its model's rows."""

from pathlib import Path

import numpy as np
import torch
import transformers

from grilly import SentenceTransformer

OVERLAP, LIMIT = 10, 48


def rows_of_windows(folder: Path, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and characters of the text's own tokens; of what two windows have in common the earlier one gives half."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval().double()
    windows = tokenizer(
        text,
        truncation=True,
        max_length=LIMIT,
        stride=OVERLAP,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    rows, characters = [], []
    count = len(windows["input_ids"])
    for number, ids in enumerate(windows["input_ids"]):
        with torch.no_grad():
            found = model(torch.tensor([ids])).last_hidden_state[0, 1:-1].numpy()
        kept = slice(OVERLAP // 2 if number else 0, len(found) - OVERLAP // 2 if number + 1 < count else len(found))
        rows.append(found[kept])
        characters.append(np.array(windows["offset_mapping"][number][1:-1])[kept])
    assert count > 3
    return np.concatenate(rows), np.concatenate(characters)


def test_windows_and_chunks_have_the_rows_of_transformers(real_model_path: Path, texts: list[str], device: str) -> None:
    sentences = [f"{text[:60].strip()} {number}." for number, text in enumerate(texts[:24])]
    text = " ".join(sentences)
    rows, characters = rows_of_windows(real_model_path, text)
    with SentenceTransformer(real_model_path, device=device, max_seq_length=LIMIT) as model:
        found = model.encode(text, output_value="token_embeddings", windows=OVERLAP)[1:-1]
        chunks = model.encode_chunks(text, sentences, windows=OVERLAP)
    assert found.shape == rows.shape and np.abs(found - rows).max() < 2e-5
    place = 0
    for sentence, chunk in zip(sentences, chunks, strict=True):
        place = text.index(sentence, place)
        own = rows[(characters[:, 0] < place + len(sentence)) & (characters[:, 1] > place)].mean(axis=0)
        assert np.abs(chunk - own / np.linalg.norm(own)).max() < 1e-6
        place += len(sentence)
