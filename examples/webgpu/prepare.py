"""Makes the page of this folder complete in another folder, from where any server of files shows it.

npm ci --prefix examples/webgpu
python examples/webgpu/prepare.py site-webgpu
python -m http.server --directory site-webgpu 8000    # then open http://localhost:8000
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from grilly import SentenceTransformer, kernels
from grilly.commands.demo import read_text, split

HERE = Path(__file__).parent
PAGE = ("index.html", "page.js", "cpu.js", "style.css", "../launch_browser/launch.js")
TOKENIZERS = HERE / "node_modules" / "@huggingface" / "tokenizers"
#: Rows of the kernels' operands, and their options.
ROWS = 128
WIDE: dict[str, Any] = {"hidden_dim": 384}
KERNELS: dict[str, dict[str, Any]] = {
    "flash_attention": {"head_dim": 32},
    "bias_gelu": {},
    "geglu": {"intermediate_dim": 768},
    "swiglu": {"intermediate_dim": 768},
    "layer_norm_linear": {"intermediate_dim": 768},
    "residual_layer_norm": {},
    "residual_rms_norm": {},
    "rms_norm_rope": {"head_dim": 32},
    "softmax_dropout": {"p": 0.0},
}


def main() -> None:
    """Writes the page, the kernels, the model and the text."""
    parser = argparse.ArgumentParser(description="Makes the page complete in a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a folder or a name; default all-MiniLM-L6-v2")
    parser.add_argument("--text", type=Path, help="what is searched; default the text of the demo")
    parser.add_argument("--most", type=int, default=200, help="sentences of the text; default 200")
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGE:
        shutil.copy(HERE / name, folder)  # under its last name
    if not TOKENIZERS.is_dir():
        raise SystemExit(f"{TOKENIZERS} is missing: run npm ci --prefix {HERE}")
    shutil.copy(TOKENIZERS / "dist" / "tokenizers.min.mjs", folder / "tokenizers.mjs")
    shutil.copy(TOKENIZERS / "LICENSE", folder / "tokenizers.LICENSE")
    rows = []
    for name, options in KERNELS.items():
        kernel = kernels.get(name, **WIDE, **options)
        kernel.compile("wgsl", ROWS).write(folder / "kernels" / f"{name}.wgsl")
        rows.append(
            {"name": name, "formula": kernel.formula, "heads": WIDE["hidden_dim"] // options.get("head_dim", 384)}
        )
    (folder / "kernels" / "list.json").write_text(json.dumps(rows))
    with SentenceTransformer(given.model, device="cpu") as model:
        model.export("wgsl", folder / "model", overwrite=True)
    references, sentences = split(read_text(given.text))
    places = references or [""] * len(sentences)
    text = [{"place": place, "text": sentence} for place, sentence in zip(places, sentences, strict=True)]
    (folder / "text.json").write_text(json.dumps(text[: given.most]))
    print(f"{folder}: complete; python -m http.server --directory {folder}")


if __name__ == "__main__":
    main()
