//! The names in a pickle: types, and the few functions whose results are known.

use super::{Callable, NAMED, Pickle, REMEDY, SHORT, Storage, Tensor, Value};
use crate::error::brief;

impl<'a> Pickle<'a> {
    /// A line without its end.
    fn line(&mut self) -> Result<&'a str, String> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').ok_or("truncated")?;
        let line = &self.bytes(end + 1)?[..end];
        std::str::from_utf8(line).map_err(|_| "a name is not UTF-8".into())
    }

    /// The meaning of a module's name.
    pub(super) fn global(&mut self) -> Result<Value<'a>, String> {
        let (module, name) = (self.line()?, self.line()?);
        let known = NAMED.iter().find(|(of, known, _)| (*of, *known) == (module, name));
        known.map(|(.., value)| *value).ok_or_else(|| {
            format!("names {}; this reader executes nothing; {REMEDY}", brief(format!("{module}.{name}")))
        })
    }

    /// The storage with the identity `("storage", type, key, device, elements)`.
    pub(super) fn storage(&mut self) -> Result<Value<'a>, String> {
        if let Value::Tuple(identity) = self.pop()?
            && let [
                Value::Text("storage"),
                Value::StorageType(dtype),
                Value::Text(key),
                Value::Text(_),
                Value::Int(elements),
            ] = self.items[identity][..]
        {
            return Ok(Value::Storage(Storage { dtype, key, elements }));
        }
        Err("an object outside the pickle is not a storage".into())
    }

    /// The result of a callable with a tuple of arguments.
    pub(super) fn call(&mut self) -> Result<Value<'a>, String> {
        let [callable, arguments] = self.last(2)?[..] else { return Err(SHORT.into()) };
        let Value::Tuple(arguments) = arguments else { return Err("arguments that are not a tuple".into()) };
        let other = || match callable {
            Value::Callable(known) => Err(format!("{known:?} has other arguments than torch writes; {REMEDY}")),
            _ => Err(format!("calls what is not a function; {REMEDY}")),
        };
        match (callable, &self.items[arguments][..]) {
            (Value::Callable(Callable::OrderedDict), []) => Ok(Value::Dict(self.new_items(Vec::new()))),
            // Then requires_grad, hooks, the type unless it is the storage's, and marks.
            (
                Value::Callable(called @ (Callable::RebuildTensor | Callable::RebuildTyped)),
                [
                    Value::Storage(storage),
                    Value::Int(first),
                    Value::Tuple(shape),
                    Value::Tuple(strides),
                    _,
                    _,
                    more @ ..,
                ],
            ) => {
                let (storage, first, shape, strides) = (*storage, *first, *shape, *strides);
                let (dtype, marks) = match (called, more) {
                    (Callable::RebuildTyped, [Value::Type(dtype), marks @ ..]) => (*dtype, marks),
                    (Callable::RebuildTensor, marks) => (storage.dtype, marks),
                    _ => return other(),
                };
                let marks = match marks {
                    [] | [Value::Other] => None,
                    [Value::Dict(marks)] => Some(*marks),
                    _ => return other(),
                };
                Ok(Value::Tensor(Tensor { storage, dtype, first, shape, strides, marks }))
            }
            // Then requires_grad, hooks, and attributes that a user set.
            (
                Value::Callable(Callable::RebuildParameter),
                [tensor @ Value::Tensor(_), _, _] | [tensor @ Value::Tensor(_), _, _, _],
            ) => Ok(*tensor),
            _ => other(),
        }
    }
}
