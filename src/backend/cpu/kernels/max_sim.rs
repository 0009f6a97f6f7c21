//! Scores of texts that have a vector for each token: products with all queries' rows, some documents at a time.

use super::Scratched;
use super::max_sum::EMPTY;
use crate::Result;
use crate::backend::cpu::matmul::{Packed, multiply};
use crate::backend::cpu::simd::{Finish, nan_max};
use crate::backend::cpu::step::Step;
use crate::ops::MaxSim;

/// Products in memory at a time.
const MOST: usize = 1 << 19;

pub(super) fn max_sim(step: &Step<'_>, _: &MaxSim, (out, scratch): Scratched<'_>) -> Result<()> {
    let (queries, documents) = (step.floats(0)?, step.floats(1)?);
    let (query_starts, starts) = (step.indices(2)?, step.indices(3)?);
    let (depth, count) = (step.shape(0).columns(), starts.len() - 1);
    let rows = query_starts.last().map_or(0, |end| *end as usize);
    let none = |document: usize| starts[document] == starts[document + 1];
    if rows == 0 {
        for (place, y) in out.iter_mut().enumerate() {
            *y = if none(place % count) { EMPTY } else { 0.0 };
        }
        return Ok(());
    }
    let packed = Packed::new(step.arch.without_tiles(), rows, depth, |row, to| {
        to.copy_from_slice(&queries[row * depth..][..depth]);
        Ok(())
    })?;
    let mut first = 0;
    while first < count {
        // Whole documents, at least one.
        let fits = |end: &usize| (starts[*end] - starts[first]) as usize * rows.max(1) <= MOST;
        let end = (first + 1..=count).take_while(fits).last().unwrap_or(first + 1);
        let [begins, ends] = [first, end].map(|document| starts[document] as usize);
        scratch.resize((ends - begins + end - first) * rows, "scores")?;
        let (products, largest) = scratch.split_at_mut((ends - begins) * rows);
        if depth == 0 {
            products.fill(0.0);
        } else {
            multiply(
                step.arch,
                step.team,
                &documents[begins * depth..ends * depth],
                &packed,
                Finish::default(),
                products,
            )?;
        }
        let products: &[f32] = products;
        step.rows(largest, rows, 1).each(inlined!(|number, largest| {
            largest.fill(f32::NEG_INFINITY);
            let own = [first + number, first + number + 1].map(|document| (starts[document] as usize - begins) * rows);
            for row in products[own[0]..own[1]].chunks_exact(rows) {
                for (most, x) in largest.iter_mut().zip(row) {
                    *most = nan_max(*most, *x);
                }
            }
        }));
        let largest: &[f32] = largest;
        step.rows(out, count, 1).each(inlined!(|query, y| {
            let own = query_starts[query] as usize..query_starts[query + 1] as usize;
            for (number, y) in y[first..end].iter_mut().enumerate() {
                let sum = largest[number * rows..][own.clone()].iter().fold(0.0, |sum, x| sum + x);
                *y = if none(first + number) { EMPTY } else { sum };
            }
        }));
        first = end;
    }
    Ok(())
}
