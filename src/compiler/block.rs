//! The members of a buffer's block, each where the shader has it: std140, std430 and every other layout are in the offsets
//! and strides that a module declares.

mod read;

use crate::process::memory::{filled, need, reserved};
use crate::{Error, Result};

/// A kind of number in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Floating-point numbers of so many bits.
    Float(u32),
    /// Integers of so many bits.
    Int(u32),
    /// Integers of so many bits that are not negative; in a block `bool` is one of 32, 0 or 1.
    Uint(u32),
}

impl Number {
    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        let (Number::Float(bits) | Number::Int(bits) | Number::Uint(bits)) = self;
        u64::from(bits / 8)
    }

    /// NumPy's name, such as `"float32"`.
    pub fn name(self) -> String {
        match self {
            Number::Float(bits) => format!("float{bits}"),
            Number::Int(bits) => format!("int{bits}"),
            Number::Uint(bits) => format!("uint{bits}"),
        }
    }
}

/// An axis of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Its size; `None` for the array at the end of the block whose size is that of the buffer.
    pub size: Option<u64>,
    /// Bytes from one element to the next.
    pub stride: u64,
}

/// A member of a block that is no struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name, after those of the structs that it is in: `lights.position`. Without names in the module their numbers.
    pub name: String,
    /// What it is made of.
    pub number: Number,
    /// Its first byte.
    pub offset: u64,
    /// The slowest first: those of arrays and of arrays of structs, then of a matrix its rows and its columns.
    pub axes: Vec<Axis>,
}

/// The layout of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// In the order of the shader.
    pub members: Vec<Member>,
    /// Bytes before the array at its end, or of all members.
    pub bytes: u64,
    /// Bytes of an element of the array at its end, if it has one.
    pub stride: Option<u64>,
    /// What it is called in messages.
    pub(super) name: String,
}

impl Block {
    fn fault(&self, problem: String) -> Error {
        Error::InvalidArgument(format!("{}: {problem}", self.name))
    }

    fn member(&self, name: &str) -> Result<&Member> {
        let all = || self.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = self.members.iter().find(|member| member.name == name);
        found.ok_or_else(|| self.fault(format!("no member is called {name:?}; there are {}", all())))
    }

    /// Bytes of the block with so many elements of the array at its end.
    ///
    /// # Errors
    /// `InvalidArgument` if they do not fit 64 bits.
    pub fn size(&self, elements: u64) -> Result<u64> {
        let end = self.stride.map_or(Some(0), |stride| elements.checked_mul(stride));
        let bytes = end.and_then(|end| self.bytes.checked_add(end));
        bytes.ok_or_else(|| self.fault(format!("{elements} elements have more bytes than 64 bits count")))
    }

    /// The memory of the block: of each member by its name, the elements side by side, little endian, in the order of its
    /// axes. Bytes between members are 0.
    ///
    /// # Errors
    /// `InvalidArgument` for a member that is unknown, missing or of another size; `OutOfMemory`.
    ///
    /// ```
    /// use grilly::compiler::{ShaderCompiler, ShaderCompilerConfig};
    /// # let folder = std::env::temp_dir().join(format!("grilly-block-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// let text = "#version 460\nlayout(local_size_x = 1) in;\n\
    ///             layout(std430, binding = 0) buffer Y { uint n; vec3 y[]; };\n\
    ///             void main() { y[0] = vec3(n); }\n";
    /// std::fs::write(folder.join("filled.glsl"), text).unwrap();
    /// let config = ShaderCompilerConfig { shader_directory: folder, enable_caching: false, ..ShaderCompilerConfig::release() };
    /// let function = ShaderCompiler::new(config).get_compute_function("filled", "main").unwrap();
    /// let block = function.block(&"Y".into(), &[]).unwrap();
    /// let memory = block.pack(&[("n", &7u32.to_le_bytes()), ("y", &[0; 24])]).unwrap();
    /// assert_eq!((memory.len(), memory[0]), (16 + 2 * 16, 7));
    /// assert_eq!(block.unpack(&memory, "n").unwrap(), 7u32.to_le_bytes());
    /// ```
    pub fn pack(&self, given: &[(&str, &[u8])]) -> Result<Vec<u8>> {
        given.iter().try_for_each(|(name, _)| self.member(name).map(drop))?;
        let (mut found, mut elements) = (Vec::with_capacity(self.members.len()), None);
        for member in &self.members {
            let bytes = given.iter().find(|(name, _)| *name == member.name).map(|(_, bytes)| *bytes);
            let bytes = bytes.ok_or_else(|| self.fault(format!("the member {:?} is missing", member.name)))?;
            let (each, length) = (member.each(), bytes.len() as u64);
            let count = length.checked_div(each).unwrap_or(0);
            let fits = if member.is_last() { each > 0 && length % each == 0 } else { length == each };
            if !fits || member.is_last() && elements.is_some_and(|known| known != count) {
                let problem = format!(
                    "{} has {length} bytes, expected {}",
                    member.name,
                    if member.is_last() {
                        format!("{each} for each element of the array, of which all members have as many")
                    } else {
                        each.to_string()
                    }
                );
                return Err(self.fault(problem));
            }
            if member.is_last() {
                elements = Some(count);
            }
            found.push(bytes);
        }
        let elements = elements.unwrap_or(0);
        let size = self.size(elements)?;
        need(size.into(), &format!("the block {}", self.name))?;
        let mut memory = filled(usize::try_from(size).unwrap_or(usize::MAX), 0, &self.name)?;
        for (member, bytes) in self.members.iter().zip(found) {
            member.runs(elements, |from, to, length| {
                memory[to..to + length].copy_from_slice(&bytes[from..from + length])
            });
        }
        Ok(memory)
    }

    /// The elements of a member in the memory of the block, as [`Block::pack`] takes them.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown member and for memory that does not hold the block; `OutOfMemory`.
    pub fn unpack(&self, memory: &[u8], name: &str) -> Result<Vec<u8>> {
        let (member, length) = (self.member(name)?, memory.len() as u64);
        if length < self.bytes {
            return Err(self.fault(format!("{length} bytes, the block has at least {}", self.bytes)));
        }
        let elements = self.stride.map_or(0, |stride| (length - self.bytes) / stride.max(1));
        let count = if member.is_last() { elements } else { 1 };
        let bytes = usize::try_from(member.each().saturating_mul(count)).unwrap_or(usize::MAX);
        let mut found = reserved(bytes, name)?;
        member.runs(elements, |_, from, length| found.extend_from_slice(&memory[from..from + length]));
        Ok(found)
    }
}

impl Member {
    /// Whether it is, or is in, the array at the end of the block.
    fn is_last(&self) -> bool {
        self.axes.first().is_some_and(|axis| axis.size.is_none())
    }

    /// Bytes of its elements; in the array at the end, of those in one element of that.
    fn each(&self) -> u64 {
        self.axes.iter().fold(self.number.bytes(), |bytes, axis| bytes.saturating_mul(axis.size.unwrap_or(1)))
    }

    /// The byte after its last one, with one element of the array at the end.
    fn end(&self) -> Option<u64> {
        self.end_of(0)
    }

    /// As [`Member::end`], of the first element along the first axes.
    fn end_of(&self, axes: usize) -> Option<u64> {
        let mut end = self.offset.checked_add(self.number.bytes())?;
        for axis in &self.axes[axes..] {
            match axis.size.unwrap_or(1) {
                0 => return Some(self.offset),
                size => end = end.checked_add(axis.stride.checked_mul(size - 1)?)?,
            }
        }
        Some(end)
    }

    /// Calls `copy` with the pieces that lie side by side in both forms: the start among its elements, that in the block's
    /// memory, and the length in bytes.
    fn runs(&self, elements: u64, mut copy: impl FnMut(usize, usize, usize)) {
        let mut axes: Vec<(u64, u64)> = self.axes.iter().map(|a| (a.size.unwrap_or(elements), a.stride)).collect();
        if axes.iter().any(|(size, _)| *size == 0) {
            return;
        }
        let mut run = self.number.bytes();
        while let Some((size, _)) = axes.pop_if(|(_, stride)| *stride == run) {
            run *= size;
        }
        let mut at = vec![0; axes.len()];
        let mut from = 0;
        loop {
            let to = at.iter().zip(&axes).fold(self.offset, |to, (at, (_, stride))| to + at * stride);
            copy(from, to as usize, run as usize);
            from += run as usize;
            let Some(axis) = (0..axes.len()).rev().find(|axis| at[*axis] + 1 < axes[*axis].0) else { return };
            at[axis] += 1;
            at[axis + 1..].fill(0);
        }
    }
}
