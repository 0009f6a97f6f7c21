"""Texts that tokenizers disagree about, the same on every machine.

Random numbers come from `numpy.random.RandomState`, whose streams never change between NumPy versions.
"""

import numpy as np

WORDS = (
    "the and of that in shall he unto LORD his I for him they be is not it with all thou thy which my them God said "
    "but from their house one man came went father children king when there into people hand every because before day "
    "unbelievable internationalisation Photosynthesis don't we'll I'd they've it's CAN'T O'Brien x = y2 v1.2.3 e-mail"
).split()
LETTERS = [
    *"é ü ñ ç ß ẞ ø Å İ ı ǆ ŵ Ǆ ſ ﬁ ﬀ ½ ² ™ ℃ № ㎏ Ω K Å ﷺ … ‥ ‰ ª º µ".split(),
    *"naïve Ünïcödé ÉCOLE Straße größten İstanbul Příliš żółć Hà Nội ΟΔΥΣΣΕΥΣ ψυχή Съешь ещё Україна Հայ".split(),
    *"თბილისი שלום בְּרֵאשִׁית مرحبا اَلسَّلَامُ سلام می‌خواهم हिन्दी क्षत्रिय বাংলা தமிழ் ไทยไม่มี ລາວ བོད་ཡིག አማርኛ".split(),
    *"我喜欢在下雨天喝茶看书 臺灣 猫 ガ カ゛ ｶﾞ ひらがな 안녕하세요 각 각 ᄒᆞᆫ글 ㍿ 𠀋 豈 ー 〆 々".split(),
    *"ＦＵＬＬ ｗｉｄｔｈ １２３ ！ ～ （ａ） ￥ Ａ́".split(),
    *"𝔘𝔫𝔦 𝕄𝕒 ⅷ Ⅻ ① ⑽ ㈠ ʰ ₁₂ ᵃ ꟲ 𐎠𐎡 𒀀".split(),
]
PICTURES = "😀 ❤️ ❤ 👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🇫🇷🇩🇪 👍🏻 1️⃣ #️⃣ ☕️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🧑‍💻🧑‍💻 ©️ ♀".split()
MARKS = [
    *["\u0301", "e\u0301", "a\u0308\u0304", "q\u0323\u0307", "\u0345", "Z\u0351\u036b\u0343\u034f\u0337", "\u20e3"],
    *["\u200b", "\u200c", "\u200d", "\u200e", "\u202e", "\u2060", "\ufeff", "\u00ad", "\ufe0f", "\u061c", "\u180e"],
    *["\x00", "\x01", "\x07", "\x08", "\x0b", "\x0c", "\x1b[31m", "\x1f", "\x7f", "\x80", "\x85", "\x9f"],
    *["\ufffd", "\ufffc", "\ue000", "\U0010ffff", "\ufffe", "\U000e0041", "\u0600", "\U000110bd"],
]
SPACES = [
    *[" ", "  ", "   ", " " * 9, "\t", "\n", "\r\n", "\r", "\n\n \n", " \t ", "\u00a0", "\u3000", "\u2003", "\u2009"],
    *["\u202f", "\u205f", "\u1680", "\u2028", "\u2029", "\x1c", "\u00a0 ", " \u0301", " \u200d", " \ufe0f"],
]
TOKENS = [
    *["<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "<s>NOTUSED"],
    *["</s>NOTUSED", "<unk>NOTUSED", "<MASK>", "[mask]", "< mask >", "<mask", "<<mask>>", "##ing", "##s", "▁the", "▁"],
    *["Ġthe", "Ċ", "<0x0A>", "<|endoftext|>", "MASK", "mask", "<new>", "<extra>", "Éclair", "ÉCLAIR", "eclair"],
]
SIGNS = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + [
    "...",
    "--",
    "''",
    "``",
    "«»",
    "“”",
    "—",
    "¿",
    "،",
    "。",
    "、",
    "¯\\_(ツ)_/¯",
]
DIGITS = ["0", "42", "2026-11-22", "1,234,567.89", "3.14e-10", "0xDEADBEEF", "٣٤", "१२", "123456789" * 5]
LONG = [
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "b" * 3_000,
    "Donaudampfschifffahrt" * 8,
    "é" * 120,
    "猫" * 300,
    "-" * 150,
    "ａ" * 101,
    "🙂" * 60,
]
# How often each kind is drawn.
KINDS = [(WORDS, 10), (LETTERS, 6), (TOKENS, 4), (SIGNS, 3), (PICTURES, 2), (MARKS, 2), (DIGITS, 2), (LONG, 0.15)]


def edges() -> list[str]:
    """Every piece alone, and every special token with and without neighbours."""
    alone = [piece for pieces, _ in KINDS for piece in pieces] + SPACES
    tokens = [
        form.format(token)
        for token in TOKENS
        for form in ("a{}b", "a {} b", "a  {}  b", " {}", "{} ", "{0}{0}", "{0} {0}", "é{}\u0301", "{}.", "\t{}\n")
    ]
    return ["", *dict.fromkeys(alone), *tokens]


def varied(count: int, seed: int = 1) -> list[str]:
    """`count` texts of 1 to 40 pieces with spaces of all kinds, or none, between them."""
    random = np.random.RandomState(seed)
    weights = np.array([weight for _, weight in KINDS])
    texts = []
    for _ in range(count):
        spaced = random.random_sample()
        text = []
        for kind in random.choice(len(KINDS), size=random.randint(1, 41), p=weights / weights.sum()):
            pieces = KINDS[kind][0]
            text.append(pieces[random.randint(len(pieces))])
            if random.random_sample() < spaced:
                text.append(" " if random.random_sample() < 0.8 else SPACES[random.randint(len(SPACES))])
        texts.append("".join(text))
    return texts
