//! A compiled function, and what its buffers and numbers are called.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::block::Block;
use super::module;
use super::places::{Place, as_storage, places};
use super::variant;
use crate::backend::vulkan::reflect::{Names, elements, reflect};
use crate::backend::vulkan::spirv::{Reader, load};
use crate::backend::vulkan::{self, Element, Interface, Scalar, Variant, spirv_tools};
use crate::{Error, Result};

/// The layout of a buffer, or why it has none that is known.
type Layout = std::result::Result<Block, String>;

/// A compiled function of a shader file.
#[derive(Debug, Clone)]
pub struct ComputeFunction {
    /// The file's name without its extension.
    pub shader: String,
    /// The function's name; the entry point of the module is always `main`.
    pub function: String,
    /// The module and its interface: uniform blocks are read-only storage buffers, and all buffers are in set 0.
    pub variant: &'static Variant,
    pub(crate) interface: Interface,
    /// What its buffers are made of, by binding.
    pub(crate) elements: Vec<(u32, Element)>,
    /// Of each binding of the variant, in its order.
    pub(super) places: Vec<Place>,
    /// The names by which they are given: empty for those that have none.
    names: Vec<String>,
    /// Those of their blocks, likewise.
    titles: Vec<String>,
    /// Their layouts with the constants' defaults, or why there is none.
    blocks: Vec<Layout>,
    /// The module with its names.
    named: Arc<[u32]>,
}

/// A buffer of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BufferName {
    /// The instance name of its block; without one the name of the only member, or that of the block.
    Name(String),
    /// Where it is declared, whatever its name.
    Place(Place),
}

impl From<&str> for BufferName {
    fn from(name: &str) -> Self {
        BufferName::Name(name.to_owned())
    }
}

impl From<String> for BufferName {
    fn from(name: String) -> Self {
        BufferName::Name(name)
    }
}

impl From<u32> for BufferName {
    /// A binding of set 0.
    fn from(binding: u32) -> Self {
        BufferName::Place(Place { set: 0, binding })
    }
}

impl From<Place> for BufferName {
    fn from(place: Place) -> Self {
        BufferName::Place(place)
    }
}

impl fmt::Display for BufferName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferName::Name(name) => write!(f, "{name:?}"),
            BufferName::Place(Place { set: 0, binding }) => write!(f, "{binding}"),
            BufferName::Place(Place { set, binding }) => write!(f, "({set}, {binding})"),
        }
    }
}

impl ComputeFunction {
    /// The function of two valid modules, one with all names and one to be run.
    ///
    /// # Errors
    /// What is wrong with them, or `PipelineCreationFailed` naming a capability that grilly never enables.
    pub(super) fn of(
        [shader, function]: [&str; 2],
        [named, spirv]: [&[u32]; 2],
        fault: impl Fn(String) -> Error,
    ) -> Result<Self> {
        let places = places(named);
        let stored = |module: &[u32]| match as_storage(module, &places) {
            Some(made) => spirv_tools::validate(&made).map(|()| made).map_err(&fault),
            None => Ok(module.to_vec()),
        };
        let (named, spirv) = (stored(named)?, stored(spirv)?);
        let interface = reflect(&named, Names::Optional).map_err(&fault)?;
        let variant = variant::of(function_name(shader, function).as_str(), &spirv, &interface, None)?;
        if module::prints(&spirv) {
            vulkan::expect_prints();
        }
        let elements = elements(&spirv).unwrap_or_default();
        let (shader, function, named) = (shader.to_owned(), function.to_owned(), named.into());
        let (names, titles, blocks) = Default::default();
        let mut made =
            ComputeFunction { shader, function, variant, interface, elements, places, names, titles, blocks, named };
        for (name, title, block) in made.read(&[]).map_err(&fault)? {
            made.names.push(name);
            made.titles.push(title);
            made.blocks.push(block);
        }
        Ok(made)
    }

    /// Name, name of the block and layout of each buffer with these constants, in the variant's order.
    fn read(&self, constants: &[u32]) -> Result<Vec<(String, String, Layout)>, String> {
        let module = load(&self.named)?;
        let mut reader = Reader::new(&module, false);
        reader.values = self.variant.constants.iter().map(|c| c.id).zip(constants.iter().copied()).collect();
        let (mut found, buffers) = (Vec::with_capacity(self.places.len()), reader.declared()?);
        for binding in self.variant.bindings {
            let own = || buffers.iter().filter(|buffer| buffer.binding == binding.index);
            // Of several views of one buffer that whose name counts.
            let buffer = own().find(|buffer| buffer.name == binding.name).or_else(|| own().next());
            let buffer = buffer.ok_or_else(|| format!("binding {} has no buffer", binding.index))?;
            let name = if binding.name.is_empty() { buffer.title } else { binding.name };
            let block = Block::of(&reader, &format!("{}: {name}", self.variant.name), buffer.block);
            found.push((name.to_owned(), buffer.title.to_owned(), block));
        }
        Ok(found)
    }

    /// Binding and set, the name by which it is given, and the access of each buffer: `"readonly"`, `"writeonly"` or
    /// `"readwrite"`.
    pub fn buffers(&self) -> impl Iterator<Item = (Place, &str, &'static str)> {
        let named = self.places.iter().zip(&self.names).zip(self.variant.bindings);
        named.map(|((place, name), binding)| (*place, name.as_str(), binding.access.name()))
    }

    /// The place of a buffer among [`Variant::bindings`].
    ///
    /// # Errors
    /// `InvalidArgument` for a name or a place that no buffer has, and for a name that several have.
    pub fn place(&self, buffer: &BufferName) -> Result<usize> {
        let all = 0..self.places.len();
        let of = |names: &[String], given: &str| -> Vec<usize> {
            all.clone().filter(|number| !given.is_empty() && names[*number] == given).collect()
        };
        let found = match buffer {
            BufferName::Name(given) => match of(&self.names, given) {
                none if none.is_empty() => of(&self.titles, given),
                found => found,
            },
            BufferName::Place(given) => all.clone().filter(|number| self.places[*number] == *given).collect(),
        };
        let wrong = |problem: String| Err(Error::InvalidArgument(format!("{}: {problem}", self.variant.name)));
        match found[..] {
            [number] => Ok(number),
            [_, _, ..] => wrong(format!("several buffers are called {buffer}; give each by its binding")),
            [] => {
                let known: Vec<String> = all.map(|number| self.named(number).to_string()).collect();
                wrong(format!("no buffer is called {buffer}; there are [{}]", known.join(", ")))
            }
        }
    }

    /// The name of a buffer, or its place if it has none.
    pub(crate) fn named(&self, number: usize) -> BufferName {
        match &*self.names[number] {
            "" => self.places[number].into(),
            name => name.into(),
        }
    }

    /// The layout of a buffer with these specialization constants, by name; omitted ones have their defaults.
    ///
    /// # Errors
    /// As [`ComputeFunction::place`]; `InvalidArgument` for constants that it does not have, and for a buffer of which the
    /// layout is not known.
    pub fn block(&self, buffer: &BufferName, constants: &[(String, f64)]) -> Result<Block> {
        let (number, constants) = (self.place(buffer)?, self.constants(constants)?);
        self.layouts(&constants)?[number].clone().map_err(|problem| {
            Error::InvalidArgument(format!("{}: {buffer} has no members to give: {problem}", self.variant.name))
        })
    }

    /// The layouts of all buffers with the bits of all constants.
    pub(crate) fn layouts(&self, constants: &[u32]) -> Result<Cow<'_, [Layout]>> {
        if self.variant.constants.iter().map(|c| c.default).eq(constants.iter().copied()) {
            return Ok(Cow::Borrowed(&self.blocks));
        }
        let read =
            self.read(constants).map_err(|problem| Error::InvalidArgument(format!("{}: {problem}", self.variant.name)));
        Ok(read?.into_iter().map(|(.., block)| block).collect())
    }

    /// Checks that each buffer which has a layout with the constants' defaults is also among `layouts`.
    ///
    /// # Errors
    /// `InvalidArgument` for constants with which members overlap.
    pub(crate) fn fits(&self, layouts: &[Layout]) -> Result<()> {
        let wrong =
            self.blocks.iter().zip(layouts).find_map(|(own, found)| own.as_ref().ok().and(found.as_ref().err()));
        wrong.map_or(Ok(()), |problem| {
            let problem = format!("{}: with these constants {problem}", self.variant.name);
            Err(Error::InvalidArgument(problem))
        })
    }

    /// The bits of the specialization constants, in the variant's order.
    ///
    /// # Errors
    /// `InvalidArgument` for one that it does not have, or a number out of range.
    pub fn constants(&self, given: &[(String, f64)]) -> Result<Vec<u32>> {
        let known: Vec<_> = self.variant.constants.iter().map(|c| (c.name, c.scalar, Some(c.default))).collect();
        numbers(self.variant, "specialization constant", given, &known)
    }

    /// The bits of the members of the push block, in its order.
    ///
    /// # Errors
    /// `InvalidArgument` for a member that is unknown or missing, or a number out of range.
    pub fn push(&self, given: &[(String, f64)]) -> Result<Vec<u32>> {
        let known: Vec<_> = self.variant.push.iter().map(|m| (m.name, m.scalar, None)).collect();
        numbers(self.variant, "push constant", given, &known)
    }
}

/// What a function is called in messages.
fn function_name(shader: &str, function: &str) -> String {
    if function == super::functions::MAIN { shader.to_owned() } else { format!("{shader}:{function}") }
}

/// Converts numbers to bits, in the order of `expected`, which holds names, types and defaults.
fn numbers(
    variant: &Variant,
    what: &str,
    given: &[(String, f64)],
    expected: &[(&str, Scalar, Option<u32>)],
) -> Result<Vec<u32>> {
    let fault = |problem: String| Error::InvalidArgument(format!("{}: {problem}", variant.name));
    for (place, (name, _)) in given.iter().enumerate() {
        let twice = given[..place].iter().any(|(other, _)| other == name);
        if twice || expected.iter().all(|(known, ..)| known != name) {
            let all: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
            return Err(fault(format!("no {what} is called {name:?}, or it is given twice; there are {all:?}")));
        }
    }
    let bits = |(name, scalar, default): &(&str, Scalar, Option<u32>)| {
        let Some((_, number)) = given.iter().find(|(given, _)| given == name) else {
            return default.ok_or_else(|| fault(format!("the {what} {name:?} is missing")));
        };
        let whole = |least: f64, most: f64| number.fract() == 0.0 && (least..=most).contains(number);
        match scalar {
            Scalar::F32 => Ok((*number as f32).to_bits()),
            Scalar::I32 if whole(i32::MIN.into(), i32::MAX.into()) => Ok((*number as i32).cast_unsigned()),
            Scalar::U32 if whole(0.0, u32::MAX.into()) => Ok(*number as u32),
            Scalar::Bool if whole(0.0, 1.0) => Ok(*number as u32),
            _ => Err(fault(format!("{number} is not a value of the {what} {name:?}, {}", scalar.glsl()))),
        }
    };
    expected.iter().map(bits).collect()
}
