//! Mapped memory that the host only writes.

/// Bytes of a buffer that the host writes, each at most once, in order. They may lie in the device's memory, where a store is
/// combined with its neighbours and a load crosses the bus by itself: what is computed is computed elsewhere and copied here.
///
/// ```
/// use grilly::backend::vulkan::Buffer;
/// fn two_words(staging: &Buffer, word: [u8; 4]) -> grilly::Result<()> {
///     staging.map(0, 8, |mut bytes| {
///         bytes.put(&word);
///         bytes.fill(0); // the rest
///     })
/// }
/// ```
/// Nothing reads them back:
/// ```compile_fail,E0608
/// fn first(staging: &grilly::backend::vulkan::Buffer) -> grilly::Result<u8> {
///     staging.map(0, 4, |bytes| bytes[0])
/// }
/// ```
/// ```compile_fail,E0599
/// fn copied(staging: &grilly::backend::vulkan::Buffer) -> grilly::Result<Vec<u8>> {
///     staging.map(0, 4, |bytes| bytes.to_vec())
/// }
/// ```
/// ```compile_fail,E0308
/// fn negated(staging: &grilly::backend::vulkan::Buffer) -> grilly::Result<()> {
///     fn change(bytes: &mut [u8]) {
///         bytes.iter_mut().for_each(|byte| *byte = !*byte);
///     }
///     staging.map(0, 4, |mut bytes| change(&mut bytes))
/// }
/// ```
pub struct WriteOnly<'a>(&'a mut [u8]);

impl<'a> WriteOnly<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        WriteOnly(bytes)
    }

    /// Writes the first of them; those behind are left.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        let (first, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        first.copy_from_slice(bytes);
        self.0 = rest;
    }

    /// Writes all bytes, which must be as many.
    #[inline]
    pub fn copy_from_slice(self, bytes: &[u8]) {
        self.0.copy_from_slice(bytes);
    }

    /// Writes this byte everywhere.
    pub fn fill(self, byte: u8) {
        self.0.fill(byte);
    }

    /// The first `length` bytes, and the rest.
    #[inline]
    pub fn split_at(self, length: usize) -> (Self, Self) {
        let (first, rest) = self.0.split_at_mut(length);
        (WriteOnly(first), WriteOnly(rest))
    }
}
