//! A machine for the pickle of a state dict. It builds dictionaries, tuples, numbers and descriptions of tensors and
//! executes nothing: a name of any function or class but the few below is an error.
//!
//! Values are numbers or indices, so that neither nesting nor cycles cost a recursion; each opcode adds at most one.

mod named;

use std::collections::HashMap;

use safetensors::Dtype;

use super::REMEDY;

/// A value on the stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// None, a bool or a float, on which nothing here depends.
    Other,
    Int(i64),
    Text(&'a str),
    /// As the others of several items, an index for [`Pickle::items`].
    Tuple(usize),
    List(usize),
    /// Its items are keys and values in turns.
    Dict(usize),
    Callable(Callable),
    StorageType(Dtype),
    Type(Dtype),
    Storage(Storage<'a>),
    Tensor(Tensor<'a>),
}

/// What may be called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Callable {
    OrderedDict,
    RebuildTensor,
    /// Of the types that have no class of storages.
    RebuildTyped,
    RebuildParameter,
}

/// A file of the archive, by its name there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Storage<'a> {
    pub dtype: Dtype,
    pub key: &'a str,
    pub elements: i64,
}

/// A part of a storage, as elements of a type; shape and strides are tuples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tensor<'a> {
    pub storage: Storage<'a>,
    pub dtype: Dtype,
    pub first: i64,
    pub shape: usize,
    pub strides: usize,
    /// Names of torch's marks of its numbers (negative, conjugate) and whether they are set: a dictionary.
    pub marks: Option<usize>,
}

/// What has a meaning, by module and name: types of storages and of tensors, and what may be called.
const NAMED: [(&str, &str, Value<'static>); 25] = [
    ("torch", "FloatStorage", Value::StorageType(Dtype::F32)),
    ("torch", "HalfStorage", Value::StorageType(Dtype::F16)),
    ("torch", "BFloat16Storage", Value::StorageType(Dtype::BF16)),
    ("torch", "DoubleStorage", Value::StorageType(Dtype::F64)),
    ("torch", "LongStorage", Value::StorageType(Dtype::I64)),
    ("torch", "IntStorage", Value::StorageType(Dtype::I32)),
    ("torch", "ShortStorage", Value::StorageType(Dtype::I16)),
    ("torch", "CharStorage", Value::StorageType(Dtype::I8)),
    ("torch", "ByteStorage", Value::StorageType(Dtype::U8)),
    ("torch", "BoolStorage", Value::StorageType(Dtype::BOOL)),
    ("torch", "ComplexFloatStorage", Value::StorageType(Dtype::C64)),
    ("torch.storage", "UntypedStorage", Value::StorageType(Dtype::U8)),
    // Of tensors whose storages are bytes.
    ("torch", "float8_e4m3fn", Value::Type(Dtype::F8_E4M3)),
    ("torch", "float8_e5m2", Value::Type(Dtype::F8_E5M2)),
    ("torch", "float8_e4m3fnuz", Value::Type(Dtype::F8_E4M3FNUZ)),
    ("torch", "float8_e5m2fnuz", Value::Type(Dtype::F8_E5M2FNUZ)),
    ("torch", "float8_e8m0fnu", Value::Type(Dtype::F8_E8M0)),
    ("torch", "uint16", Value::Type(Dtype::U16)),
    ("torch", "uint32", Value::Type(Dtype::U32)),
    ("torch", "uint64", Value::Type(Dtype::U64)),
    ("collections", "OrderedDict", Value::Callable(Callable::OrderedDict)),
    ("torch._utils", "_rebuild_tensor_v2", Value::Callable(Callable::RebuildTensor)),
    ("torch._utils", "_rebuild_tensor_v3", Value::Callable(Callable::RebuildTyped)),
    ("torch._utils", "_rebuild_parameter", Value::Callable(Callable::RebuildParameter)),
    ("torch._utils", "_rebuild_parameter_with_state", Value::Callable(Callable::RebuildParameter)),
];

/// The machine, and after [`Pickle::run`] its result.
pub(super) struct Pickle<'a> {
    rest: &'a [u8],
    stack: Vec<Value<'a>>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
    items: Vec<Vec<Value<'a>>>,
}

/// What a step says when the bytes or the stack end before it.
const SHORT: &str = "an instruction lacks its operands";

impl<'a> Pickle<'a> {
    /// Runs the pickle: the machine, and the dictionary that it leaves.
    pub(super) fn run(bytes: &'a [u8]) -> Result<(Self, usize), String> {
        let mut machine =
            Pickle { rest: bytes, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new(), items: Vec::new() };
        loop {
            let at = bytes.len() - machine.rest.len();
            match machine.step() {
                Ok(None) => {}
                Ok(Some(Value::Dict(top))) => return Ok((machine, top)),
                Ok(Some(_)) => return Err(format!("holds no dictionary of tensors; {REMEDY}")),
                Err(problem) => return Err(format!("byte {at} of data.pkl: {problem}")),
            }
        }
    }

    /// The items of a tuple, list or dictionary.
    pub(super) fn items(&self, index: usize) -> &[Value<'a>] {
        &self.items[index]
    }

    /// One instruction; the result at the last.
    fn step(&mut self) -> Result<Option<Value<'a>>, String> {
        let opcode = self.bytes(1)?[0];
        let value = match opcode {
            b'\x80' => match self.unsigned(1)? {
                2 => return Ok(None),
                other => return Err(format!("pickle protocol {other}, expected 2; {REMEDY}")),
            },
            b'.' => return self.pop().map(Some),
            b'(' => {
                self.marks.push(self.stack.len());
                return Ok(None);
            }
            b'q' | b'r' => {
                let key = self.unsigned(if opcode == b'q' { 1 } else { 4 })?;
                let top = *self.stack.last().ok_or(SHORT)?;
                self.memo.insert(key, top);
                return Ok(None);
            }
            b'h' | b'j' => {
                let key = self.unsigned(if opcode == b'h' { 1 } else { 4 })?;
                *self.memo.get(&key).ok_or_else(|| format!("nothing was stored as {key}"))?
            }
            b'N' | b'\x88' | b'\x89' => Value::Other,
            b'G' => {
                self.bytes(8)?;
                Value::Other
            }
            b'K' => Value::Int(self.unsigned(1)?.into()),
            b'M' => Value::Int(self.unsigned(2)?.into()),
            b'J' => Value::Int((self.unsigned(4)? as i32).into()),
            b'\x8a' => self.long()?,
            b'X' => {
                let count = self.unsigned(4)? as usize;
                Value::Text(std::str::from_utf8(self.bytes(count)?).map_err(|_| "a text is not UTF-8")?)
            }
            b')' => Value::Tuple(self.new_items(Vec::new())),
            b'\x85' => self.tuple(1)?,
            b'\x86' => self.tuple(2)?,
            b'\x87' => self.tuple(3)?,
            b't' => {
                let items = self.since_mark()?;
                Value::Tuple(self.new_items(items))
            }
            b']' => Value::List(self.new_items(Vec::new())),
            b'}' => Value::Dict(self.new_items(Vec::new())),
            b'a' | b'e' => {
                let items = if opcode == b'a' { vec![self.pop()?] } else { self.since_mark()? };
                match self.stack.last() {
                    Some(Value::List(list)) => self.items[*list].extend(items),
                    _ => return Err("an item is added to what is not a list".into()),
                }
                return Ok(None);
            }
            b's' | b'u' => {
                let items = if opcode == b's' { self.last(2)? } else { self.since_mark()? };
                match self.stack.last() {
                    Some(Value::Dict(dict)) if items.len().is_multiple_of(2) => self.items[*dict].extend(items),
                    _ => return Err("keys and values are added to what is not a dictionary".into()),
                }
                return Ok(None);
            }
            b'c' => self.global()?,
            b'Q' => self.storage()?,
            b'R' => self.call()?,
            // Attributes of a dictionary: the `_metadata` that torch gives a state dict, and does not need.
            b'b' => match (self.pop()?, self.stack.last()) {
                (Value::Dict(_), Some(Value::Dict(_))) => return Ok(None),
                _ => return Err(format!("sets the state of an object; {REMEDY}")),
            },
            other => return Err(format!("instruction {other:#04x}, which no state dict needs; {REMEDY}")),
        };
        self.stack.push(value);
        Ok(None)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or("truncated")?;
        self.rest = rest;
        Ok(bytes)
    }

    fn unsigned(&mut self, count: usize) -> Result<u32, String> {
        Ok(self.bytes(count)?.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    /// An integer of up to 64 bits in two's complement.
    fn long(&mut self) -> Result<Value<'a>, String> {
        let count = self.unsigned(1)? as usize;
        let bytes = self.bytes(count)?;
        if count > 8 {
            return Err(format!("an integer of {count} bytes, at most 8 are expected"));
        }
        let sign = if bytes.last().is_some_and(|last| last & 0x80 != 0) { -1 } else { 0 };
        Ok(Value::Int(bytes.iter().rev().fold(sign, |value, byte| value << 8 | i64::from(*byte))))
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        self.stack.pop().filter(|_| self.stack.len() >= bottom).ok_or_else(|| SHORT.into())
    }

    fn last(&mut self, count: usize) -> Result<Vec<Value<'a>>, String> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        let start = self.stack.len().checked_sub(count).filter(|start| *start >= bottom).ok_or(SHORT)?;
        Ok(self.stack.split_off(start))
    }

    fn since_mark(&mut self) -> Result<Vec<Value<'a>>, String> {
        let start = self.marks.pop().ok_or(SHORT)?;
        Ok(self.stack.split_off(start))
    }

    fn new_items(&mut self, items: Vec<Value<'a>>) -> usize {
        self.items.push(items);
        self.items.len() - 1
    }

    fn tuple(&mut self, count: usize) -> Result<Value<'a>, String> {
        let items = self.last(count)?;
        Ok(Value::Tuple(self.new_items(items)))
    }
}
