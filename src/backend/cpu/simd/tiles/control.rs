//! The register that controls how a thread's floating-point operations round, and what becomes of subnormal numbers.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod register {
    use std::arch::asm;

    /// To nearest, ties to even; subnormal numbers as they are; no exception traps.
    pub const STANDARD: u64 = 0x1f80;
    /// All but the flags of past exceptions.
    pub const SETTINGS: u64 = 0xffc0;

    pub fn read() -> u64 {
        let mut value = 0u32;
        // SAFETY: writes these four bytes alone.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        u64::from(value)
    }

    pub fn write(value: u64) {
        let value = value as u32;
        // SAFETY: a value that was read, or the standard one: no reserved bit is set. What is computed in between is read from
        // memory and written to it, which the compiler does not move across this.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod register {
    use std::arch::asm;

    pub const STANDARD: u64 = 0;
    /// Rounding, flushes to zero, the default NaN, traps, and alternative behaviour.
    pub const SETTINGS: u64 = 0x07ff_9f07;

    pub fn read() -> u64 {
        let value: u64;
        // SAFETY: reads the register of this thread.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nostack, preserves_flags)) };
        value
    }

    pub fn write(value: u64) {
        // SAFETY: a value that was read, or the standard one. As on x86-64, nothing moves across this.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

/// Miri runs no assembly; other processors are not known.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod register {
    pub const STANDARD: u64 = 0;
    pub const SETTINGS: u64 = 0;

    pub fn read() -> u64 {
        0
    }

    pub fn write(_: u64) {}
}

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread, with those that it starts, rounds to nearest, ties to even, and computes with subnormal numbers,
/// whatever the caller of the library has set; then what was set holds again.
///
/// ```
/// use grilly::backend::cpu::Standard;
/// let _standard = Standard::enter();
/// assert!(Standard::held());
/// ```
pub struct Standard {
    /// What was set, where it differs.
    before: Option<u64>,
    held: bool,
    /// Of this thread.
    _own: PhantomData<*const ()>,
}

impl Standard {
    /// Sets the register.
    pub fn enter() -> Self {
        let before = Some(register::read()).filter(|set| set & register::SETTINGS != register::STANDARD);
        if before.is_some() {
            register::write(register::STANDARD);
        }
        Standard { before, held: HELD.replace(true), _own: PhantomData }
    }

    /// Whether one lives in this thread: other threads that work for it then need one, too.
    pub fn held() -> bool {
        HELD.get()
    }
}

impl Drop for Standard {
    fn drop(&mut self) {
        HELD.set(self.held);
        if let Some(before) = self.before {
            register::write(before);
        }
    }
}

/// Runs work with subnormal numbers flushed to zero, operands and results, and results rounded down.
#[cfg(test)]
pub fn altered<T>(work: impl FnOnce() -> T) -> T {
    let before = register::read();
    // x86-64: rounding down, DAZ, FTZ. ARM: rounding down, FZ.
    register::write(before | if cfg!(target_arch = "x86_64") { 0xa040 } else { 0x0180_0000 });
    let result = work();
    register::write(before);
    result
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// A product below the normal numbers, and a sum that rounding down changes.
    fn computed() -> [u32; 2] {
        let (small, one) = (black_box(f32::MIN_POSITIVE), black_box(1.0f32));
        // Computed where it stands: what is not in memory may move.
        black_box([(small * black_box(0.5)).to_bits(), (one + black_box(0.75 * f32::EPSILON)).to_bits()])
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn it_holds_while_it_lives_and_leaves_what_was_set() {
        let expected = [0x0040_0000, 0x3f80_0001];
        assert_eq!(computed(), expected);
        let (outside, inside, after, held) = altered(|| {
            let outside = computed();
            let (inside, held) = {
                let _standard = Standard::enter();
                (computed(), Standard::held())
            };
            (outside, inside, computed(), held && !Standard::held())
        });
        assert!(held);
        assert_eq!((outside, inside, after), ([0, 0x3f80_0000], expected, [0, 0x3f80_0000]));
        assert_eq!(computed(), expected);
    }
}
