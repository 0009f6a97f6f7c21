//! The largest elements of each row, and where they are.

use super::Memory;
use crate::backend::cpu::step::Step;
use crate::ops::TopK;
use crate::{Error, Result};

/// Elements that are compared before candidates are kept.
const STRIP: usize = 64;

pub(super) fn top_k(step: &Step<'_>, op: &TopK, memory: Memory<'_, '_>) -> Result<()> {
    let (x, columns, count) = (step.floats(0)?, step.shape(0).columns(), op.count);
    let mask = if step.given(1) { Some(&step.words(1)?[..columns]) } else { None };
    let [y, places] = memory.results else {
        return Err(Error::InvalidArgument("top_k: expected two results".into()));
    };
    step.rows(places, count, 1).each(inlined!(|row, places| {
        let found = largest(&x[row * columns..][..columns], mask, count);
        let places: &mut [u32] = bytemuck::cast_slice_mut(places);
        places.fill(u32::MAX);
        for (place, candidate) in places.iter_mut().zip(found) {
            *place = !(candidate as u32);
        }
    }));
    let places: &[u32] = bytemuck::cast_slice(places);
    step.rows(y, count, 64).each(inlined!(|row, y| {
        for (y, place) in y.iter_mut().zip(&places[row * count..]) {
            let value = x[row * columns..][..columns].get(*place as usize).copied().unwrap_or(f32::NEG_INFINITY);
            // -0 is 0, and there is one NaN.
            *y = if value.is_nan() { f32::NAN } else { value + 0.0 };
        }
    }));
    Ok(())
}

/// A number that grows with the float; 0 belongs to none.
#[inline(always)]
fn key(x: f32) -> u32 {
    let bits = (x + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    if x.is_nan() { u32::MAX } else { ordered }
}

/// The largest elements as `key << 32 | !place`, the largest first.
#[inline(always)]
fn largest(row: &[f32], mask: Option<&[u32]>, count: usize) -> Vec<u64> {
    let most = (2 * count).max(1024);
    let mut found: Vec<u64> = Vec::with_capacity(most + STRIP);
    // The key of the last that is kept once there are `count`: later places are larger, so that an equal key loses.
    let mut least = 0;
    for (strip, values) in row.chunks(STRIP).enumerate() {
        if !values.iter().fold(false, |any, x| any | (key(*x) > least)) {
            continue;
        }
        for (place, x) in (strip * STRIP..).zip(values) {
            if key(*x) > least && mask.is_none_or(|mask| mask[place] != 0) {
                found.push(u64::from(key(*x)) << 32 | u64::from(!(place as u32)));
            }
        }
        if found.len() > most {
            found.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
            found.truncate(count);
            least = (found[count - 1] >> 32) as u32;
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(count);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_elements_are_in_order_and_nan_is_the_largest() {
        let places = |row: &[f32], mask: Option<&[u32]>, count| -> Vec<u32> {
            largest(row, mask, count).into_iter().map(|found| !(found as u32)).collect()
        };
        let row = [1.0, 3.0, f32::NAN, -0.0, 3.0, 0.0, f32::NEG_INFINITY];
        assert_eq!(places(&row, None, 7), [2, 1, 4, 0, 3, 5, 6]);
        assert_eq!(places(&row, Some(&[1, 0, 0, 1, 1, 1, 0]), 6), [4, 0, 3, 5]);
        // Every strip has a larger element than those before it.
        let rising: Vec<f32> = (0..5000).map(|x| x as f32).collect();
        assert_eq!(places(&rising, None, 3), [4999, 4998, 4997]);
        assert_eq!(places(&[0.5; 5000], None, 3), [0, 1, 2]);
    }
}
