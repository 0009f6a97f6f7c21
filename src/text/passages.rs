//! Documents as passages: paragraphs, joined while they are short and divided between sentences where they are long.

use sha2::{Digest, Sha256};

use crate::Result;

/// A text in a document, after the line that it begins in, counted from 1.
pub type Placed<'a> = (usize, &'a str);

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The line that it begins in.
    pub line: usize,
    /// The first half of the SHA-256 of the text.
    pub digest: [u8; 16],
    /// What it says.
    pub text: String,
}

impl Passage {
    fn new(line: usize, text: String) -> Self {
        let mut digest = [0; 16];
        digest.copy_from_slice(&Sha256::digest(&text)[..16]);
        Passage { line, digest, text }
    }
}

/// White space as Python's `str.isspace` has it.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// What blank lines divide; lines end with `\n`.
pub fn paragraphs(text: &str) -> Vec<Placed<'_>> {
    let mut found = Vec::new();
    let mut held: Option<(usize, usize, usize)> = None; // the line, and the bytes from and to
    let mut start = 0;
    for (number, line) in (1..).zip(text.split('\n')) {
        let end = start + line.len();
        if !line.chars().all(is_space) {
            let (first, from, _) = held.unwrap_or((number, start, end));
            held = Some((first, from, end));
        } else if let Some((first, from, to)) = held.take() {
            found.push((first, &text[from..to]));
        }
        start = end + 1;
    }
    found.extend(held.map(|(first, from, to)| (first, &text[from..to])));
    found
}

/// Counts tokens of texts, without those around a text.
pub type Count<'a> = &'a (dyn Fn(&[Placed<'_>]) -> Result<Vec<usize>> + Sync);

/// Cuts documents into passages.
pub struct Cutter<'a> {
    /// Tokens of a passage at most.
    pub limit: usize,
    /// Those of each text.
    pub count: Count<'a>,
}

impl Cutter<'_> {
    /// The passages of a document's paragraphs; each begins with a paragraph, or in one that is longer than a passage.
    ///
    /// Paragraphs are joined until they have half of the tokens, so that a heading stays with what it is of. No token has less
    /// than a byte: short documents are not tokenized.
    ///
    /// # Errors
    /// That of `count`.
    pub fn cut(&self, paragraphs: &[Placed<'_>]) -> Result<Vec<Passage>> {
        let Some((line, _)) = paragraphs.first() else { return Ok(Vec::new()) };
        let bytes = paragraphs.iter().map(|(_, text)| text.len() + 1).sum::<usize>() - 1;
        if bytes < self.limit {
            let texts: Vec<&str> = paragraphs.iter().map(|(_, text)| *text).collect();
            return Ok(vec![Passage::new(*line, texts.join("\n"))]);
        }
        let mut found = Vec::new();
        let (mut first, mut size, mut held) = (0, 0, String::new());
        for (paragraph, tokens) in paragraphs.iter().zip((self.count)(paragraphs)?) {
            for (place, ((line, text), tokens)) in self.units(*paragraph, tokens)?.into_iter().enumerate() {
                let starts = place == 0;
                if !held.is_empty() && (size + tokens > self.limit || (starts && size >= self.limit / 2)) {
                    found.push(Passage::new(first, held.trim_matches(is_space).to_owned()));
                    (size, held) = (0, String::new());
                }
                if held.is_empty() {
                    first = line;
                }
                if starts {
                    held.push('\n');
                }
                held.push_str(text);
                size += tokens;
            }
        }
        found.push(Passage::new(first, held.trim_matches(is_space).to_owned()));
        Ok(found)
    }

    /// What is never divided: a paragraph, or sentences of one that is too long, each with its tokens.
    fn units<'a>(&self, paragraph: Placed<'a>, tokens: usize) -> Result<Vec<(Placed<'a>, usize)>> {
        if tokens <= self.limit {
            return Ok(vec![(paragraph, tokens)]);
        }
        let sentences = divided(paragraph, &sentence_ends(paragraph.1));
        let mut found = Vec::new();
        for (sentence, tokens) in sentences.iter().zip((self.count)(&sentences)?) {
            self.halves(*sentence, tokens, &mut found)?;
        }
        Ok(found)
    }

    /// A sentence, or the halves of one that is too long, divided between words where there are any.
    fn halves<'a>(&self, part: Placed<'a>, tokens: usize, found: &mut Vec<(Placed<'a>, usize)>) -> Result<()> {
        let text = part.1;
        let characters = if tokens <= self.limit { 0 } else { text.chars().count() };
        if characters < 2 {
            found.push((part, tokens));
            return Ok(());
        }
        let byte = |character| text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte);
        let (middle, quarter) = (byte(characters / 2), byte(characters / 4));
        let end = text[..middle].rfind(' ').filter(|space| *space > quarter).map_or(middle, |space| space + 1);
        let halves = divided(part, &[end]);
        for (half, tokens) in halves.iter().zip((self.count)(&halves)?) {
            self.halves(*half, tokens, found)?;
        }
        Ok(())
    }
}

/// A text divided after some bytes.
fn divided<'a>((mut line, text): Placed<'a>, ends: &[usize]) -> Vec<Placed<'a>> {
    let mut start = 0;
    let ends = ends.iter().copied().filter(|end| *end < text.len()).chain([text.len()]);
    ends.map(|end| {
        let own = (line, &text[start..end]);
        line += own.1.matches('\n').count();
        start = end;
        own
    })
    .collect()
}

/// The bytes after which sentences end, with the quotation marks, brackets and white space that follow.
fn sentence_ends(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut place = 0;
    while let Some((at, mark)) = text[place..].char_indices().find(|(_, c)| ".!?…。！？".contains(*c)) {
        place += at + mark.len_utf8();
        let closed = text[place..].trim_start_matches(['"', '\'', '”', '’', ')', ']']);
        let rest = closed.trim_start_matches(is_space);
        if "。！？".contains(mark) {
            found.push(place);
        } else if rest.len() < closed.len() {
            place = text.len() - rest.len();
            found.push(place);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token of each word.
    fn words(texts: &[Placed<'_>]) -> Result<Vec<usize>> {
        Ok(texts.iter().map(|(_, text)| text.split_whitespace().count()).collect())
    }

    fn cut(limit: usize, text: &str) -> Vec<(usize, String)> {
        let cutter = Cutter { limit, count: &words };
        cutter.cut(&paragraphs(text)).unwrap().into_iter().map(|found| (found.line, found.text)).collect()
    }

    fn owned(found: &[Placed<'_>]) -> Vec<(usize, String)> {
        found.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
    }

    #[test]
    fn blank_lines_divide_paragraphs() {
        assert_eq!(paragraphs("A cat.\nIt sleeps.\n\nSnow."), [(1, "A cat.\nIt sleeps."), (4, "Snow.")]);
        assert_eq!(paragraphs("\n \t\n  a \n\u{1f}\u{3000}\nb\n"), [(3, "  a "), (5, "b")]);
        assert!(paragraphs("").is_empty() && paragraphs(" \n\n").is_empty());
    }

    #[test]
    fn short_documents_stay_whole() {
        assert_eq!(cut(20, "A heading\n\nA cat."), owned(&[(1, "A heading\nA cat.")]));
        assert!(cut(20, "").is_empty());
        let same = |text| Passage::new(1, String::from(text)).digest;
        assert!(same("a") == same("a") && same("a") != same("b"));
    }

    #[test]
    fn paragraphs_are_joined_up_to_half_of_the_tokens() {
        let found = cut(8, "# One\n\na b\n\nc d e f\n\ng h i");
        assert_eq!(found, owned(&[(1, "# One\na b"), (5, "c d e f"), (7, "g h i")]));
    }

    #[test]
    fn long_paragraphs_are_divided_between_sentences_and_words() {
        let found = cut(4, "a b. c d!\ne f? g h i j k l\n\nm");
        assert_eq!(found, owned(&[(1, "a b. c d!"), (2, "e f? g h"), (2, "i j k l"), (4, "m")]));
        assert_eq!(sentence_ends("Ä. (\"b.\") c.d。e… "), [4, 11, 17, 22]);
        let long = "ä".repeat(30);
        let bytes = Cutter { limit: 8, count: &|texts| Ok(texts.iter().map(|(_, text)| text.len()).collect()) };
        let found = bytes.cut(&[(7, &long)]).unwrap();
        assert!(found.iter().all(|part| part.line == 7 && part.text.len() <= 8));
        assert_eq!(found.iter().map(|part| part.text.as_str()).collect::<String>(), long);
    }
}
