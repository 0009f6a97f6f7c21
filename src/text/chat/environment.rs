//! Jinja as transformers sets it up for chat templates.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Template, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

const NAME: &str = "chat";

/// An environment with one template.
pub(super) fn of(text: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        date(&format, now).map_err(|problem| Error::new(ErrorKind::InvalidOperation, problem))
    });
    environment.add_template_owned(NAME, without_marks(text))?;
    Ok(environment)
}

/// The template of an environment.
pub(super) fn template<'a>(environment: &'a Environment<'static>) -> Template<'a, 'a> {
    environment.get_template(NAME).expect("it was added with the environment")
}

/// A template without the marks of what an assistant says, which change no text: a block that is always there stands in.
fn without_marks(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        result.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[2..end];
        let name = inner.trim_matches(['-', '+']).trim();
        let replaced = match name {
            "generation" => inner.replace("generation", "if true"),
            "endgeneration" => inner.replace("endgeneration", "endif"),
            _ => inner.to_owned(),
        };
        result.push_str(&format!("{{%{replaced}%}}"));
        rest = &tag[end + 2..];
    }
    result.push_str(rest);
    result
}

/// JSON as Python writes it.
fn to_json(value: Value, options: Kwargs) -> Result<String, Error> {
    let fault = |e: serde_json::Error| Error::new(ErrorKind::BadSerialization, e.to_string());
    let indent: Option<usize> = options.get("indent")?;
    let (ascii, sorted): (Option<bool>, Option<bool>) = (options.get("ensure_ascii")?, options.get("sort_keys")?);
    options.assert_all_used()?;
    if ascii == Some(true) || sorted == Some(true) {
        let problem = "tojson is known without ensure_ascii and sort_keys";
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    let mut bytes = Vec::new();
    match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced)).map_err(fault)?,
        Some(columns) => {
            let spaces = " ".repeat(columns);
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter)).map_err(fault)?;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A space after each comma and colon.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The date and the time of day, in UTC, so many seconds after 1970 began.
pub(super) fn date(format: &str, seconds: u64) -> Result<String, String> {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut month, mut left) = (0, day);
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    let mut result = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        let weekday = DAYS[(days % 7) as usize];
        result.push_str(&match letters.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year % 100),
            Some('m') => format!("{:02}", month + 1),
            Some('d') => format!("{:02}", left + 1),
            Some('j') => format!("{:03}", day + 1),
            Some('B') => MONTHS[month].to_owned(),
            Some('b') => MONTHS[month][..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('H') => format!("{:02}", time / 3600),
            Some('M') => format!("{:02}", time / 60 % 60),
            Some('S') => format!("{:02}", time % 60),
            Some('%') => "%".to_owned(),
            other => return Err(format!("strftime_now: %{} is not known", other.map_or(String::new(), String::from))),
        });
    }
    Ok(result)
}
