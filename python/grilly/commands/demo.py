"""`python -m grilly demo`: embed a real text, answer three queries, print the speed and the best matches."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np

from grilly import VulkanSentenceTransformer
from grilly.commands.table import command

QUERIES = ["A flood destroys every living thing.", "A man is sold by his brothers.", "Bread falls from heaven."]
BUDGET_SECONDS = 15.0
MATCHES = 3
VERSE = re.compile(r"(?P<reference>[1-3]?[A-Z][A-Za-z]*\d+:\d+) (?P<text>.+)")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]?[A-Z0-9])")


@command("demo")
def main(options: argparse.Namespace) -> int:
    """Runs the demo with a command line and returns the exit status."""
    try:
        text = read_text(options.text)
    except (OSError, UnicodeDecodeError) as error:
        print(error if options.text is None else f"{options.text}: {error}", file=sys.stderr)
        return 1
    references, sentences = split(text)
    if not sentences:
        print(f"{options.text}: no sentences in it", file=sys.stderr)
        return 1
    print(f"Text      {len(sentences):,} sentences, {len(text.encode()) / 1e6:.1f} MB")
    _answer(options, references, sentences)
    return 0


def _answer(options: argparse.Namespace, references: list[str], sentences: list[str]) -> None:
    """Embeds the sentences and prints the best matches of the queries."""
    start = time.perf_counter()
    with VulkanSentenceTransformer(options.model, device=options.device) as model:
        loaded = time.perf_counter() - start
        dimensions = model.get_embedding_dimension()
        print(f"Model     {options.model}, {dimensions} dimensions, ready in {loaded:.2f} s")
        print(f"Device    {model.device_name} ({model.backend}): {model.device_reason}")

        count = min(options.limit, len(sentences)) if options.limit else _affordable(model, sentences)
        start = time.perf_counter()
        embeddings = model.encode(
            sentences[:count], batch_size=options.batch_size, show_progress_bar=sys.stderr.isatty()
        )
        seconds = time.perf_counter() - start
        part = "all" if count == len(sentences) else f"the first {count:,}"
        print(f"Embedded  {part} in {seconds:.1f} s: {count / seconds:,.0f} texts per second")

        queries = options.query or QUERIES
        scores = model.encode(queries) @ embeddings.T
    for query, row in zip(queries, scores, strict=True):
        print(f"\n{query}")
        for index in np.argsort(-row, kind="stable")[:MATCHES]:
            found = f"{references[index]}  {sentences[index]}" if references else sentences[index]
            print(textwrap.fill(found, 100, initial_indent=f"  {row[index]:.3f}  ", subsequent_indent=" " * 9))


def read_text(path: Path | None) -> str:
    """The text of `path`, or the King James Bible: from the cache folder, else from the program `bible`."""
    if path is not None:
        return path.read_text(encoding="utf-8")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grilly" / "kjv.txt"
    if cache.is_file():
        return cache.read_text(encoding="utf-8")
    program = shutil.which("bible")
    if program is not None:
        command = [program, "-f", "Gen1:1-Rev22:21"]
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True).stdout
    raise FileNotFoundError(
        "The demo's text, the King James Bible, is not here. Install Debian's packages bible-kjv and bible-kjv-text,\n"
        "or give a text of yours: python -m grilly demo --text FILE"
    )


def split(text: str) -> tuple[list[str], list[str]]:
    """References (empty for a text without them) and sentences: one per referenced line, else split by punctuation."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    verses = [match for line in lines if (match := VERSE.fullmatch(line))]
    if len(verses) > 0.9 * len(lines):
        return [verse["reference"] for verse in verses], [verse["text"] for verse in verses]
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    sentences = (sentence for paragraph in paragraphs for sentence in SENTENCE_END.split(paragraph))
    return [], [sentence for sentence in sentences if sentence]


def _affordable(model: VulkanSentenceTransformer, sentences: list[str]) -> int:
    """Number of sentences that fit in the demo's time budget, estimated by embedding a few first."""
    probe = sentences[:32]
    model.encode(probe[:8])  # the first call also builds the state that later ones reuse
    start = time.perf_counter()
    model.encode(probe)
    fitting = int(len(probe) / (time.perf_counter() - start) * BUDGET_SECONDS)
    return min(len(sentences), max(fitting // 100 * 100, 100))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
