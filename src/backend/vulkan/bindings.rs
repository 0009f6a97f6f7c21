//! The buffers of a dispatch, in the order of its shader's bindings.

use super::kernel::Variant;
use super::raw::Slice;
use crate::{Error, Result};

/// Collects the buffers of a dispatch: by the names that they have in the shader, or in the order of its bindings.
///
/// ```
/// use grilly::backend::vulkan::{BufferKind, DescriptorBindingBuilder, OpenDevice, builtin};
/// use grilly::dtype::DType;
/// # let settings = grilly::settings::Settings { allow_cpu_vulkan: true, ..Default::default() };
/// # let Ok(device) = OpenDevice::open(None, &settings) else { return };
/// let module = builtin("softmax").unwrap().own(DType::F32, device.capabilities()).unwrap();
/// let x = device.buffer(BufferKind::Arrays, 64).unwrap();
/// let error = DescriptorBindingBuilder::new(module).bind("z", &x).err().unwrap();
/// assert!(error.to_string().starts_with("softmax: no buffer is called \"z\""), "{error}");
/// ```
pub struct DescriptorBindingBuilder<'a> {
    /// In messages.
    label: &'a str,
    module: &'static Variant,
    bound: Vec<Option<Slice>>,
}

impl DescriptorBindingBuilder<'static> {
    /// No buffer yet of those that a shader reads and writes.
    pub fn new(module: &'static Variant) -> Self {
        DescriptorBindingBuilder::labelled(module.name, module)
    }
}

impl<'a> DescriptorBindingBuilder<'a> {
    /// As [`DescriptorBindingBuilder::new`], called `label` in messages.
    pub(super) fn labelled(label: &'a str, module: &'static Variant) -> Self {
        DescriptorBindingBuilder { label, module, bound: Vec::with_capacity(module.bindings.len()) }
    }

    /// Binds a buffer, or a part of one, by the name of its block's member in the shader.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that the shader does not have, or that is bound already; `Unsupported` for more bytes
    /// than the device binds.
    pub fn bind(mut self, name: &str, part: impl Into<Slice>) -> Result<Self> {
        let names = || self.module.bindings.iter().map(|binding| binding.name);
        self.bound.resize(self.module.bindings.len(), None);
        match names().position(|known| known == name) {
            Some(place) if self.bound[place].is_none() => self.bound[place] = Some(self.bindable(part.into())?),
            Some(_) => return Err(self.fault(format!("the buffer {name:?} is bound twice"))),
            None => {
                let known: Vec<&str> = names().collect();
                return Err(self.fault(format!("no buffer is called {name:?}; there are {known:?}")));
            }
        }
        Ok(self)
    }

    /// Binds a part of a buffer after those before it, in the order of the shader's bindings.
    ///
    /// # Errors
    /// `Unsupported` for more bytes than the device binds.
    pub(super) fn push(&mut self, part: Slice) -> Result<()> {
        let part = self.bindable(part)?;
        self.bound.push(Some(part));
        Ok(())
    }

    /// All buffers, for a dispatch.
    ///
    /// # Errors
    /// `InvalidArgument` naming one that is missing.
    pub fn build(mut self) -> Result<Vec<Slice>> {
        let (label, bindings) = (self.label, self.module.bindings);
        self.bound.resize(bindings.len().max(self.bound.len()), None);
        let missing = |place: usize| {
            let name = bindings.get(place).map_or("", |binding| binding.name);
            Error::InvalidArgument(format!("{label}: the buffer {name:?} is missing"))
        };
        let all = self.bound.into_iter().enumerate();
        all.map(|(place, part)| part.ok_or_else(|| missing(place))).collect()
    }

    fn bindable(&self, part: Slice) -> Result<Slice> {
        let limits = part.buffer.limits();
        if part.bytes <= limits.storage_buffer_range {
            return Ok(part);
        }
        let (bytes, most, name) = (part.bytes, limits.storage_buffer_range, &limits.name);
        let reason =
            format!("an array of {bytes} bytes is larger than the storage-buffer range of {most} bytes of {name}");
        Err(Error::unsupported(self.label, reason))
    }

    fn fault(&self, problem: String) -> Error {
        Error::InvalidArgument(format!("{}: {problem}", self.label))
    }
}
