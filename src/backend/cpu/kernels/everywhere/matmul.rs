//! `y = scale a b`: products of matrices that are both inputs, rows of `a` and columns of `b` as integers without a balance.

use std::borrow::Cow;

use rayon::prelude::*;

use super::functions::{canonical, mul, settle};
use crate::backend::cpu::exact::{Balance, Exact, multiply};
use crate::backend::cpu::simd::{Arch, Standard};
use crate::backend::cpu::step::Step;
use crate::backend::cpu::threads::Team;
use crate::exit::Request;
use crate::ops::{Matmul, Strided};
use crate::{Error, Result};

pub(super) fn matmul(step: &Step<'_>, op: &Matmul, out: &mut [f32]) -> Result<()> {
    let product = &op.strided([step.shape(0), step.shape(1)])?;
    let (one, batches) = (product.rows * product.columns, product.batches());
    if one == 0 {
        return Ok(());
    }
    let batch = Batch { arch: step.arch, product, a: step.floats(0)?, b: step.floats(1)? };
    match step.team {
        Team::All(threads) if batches >= threads => {
            let request = Request::current();
            out.par_chunks_mut(one).enumerate().try_for_each(|(number, out)| {
                let _standard = Standard::enter();
                if request.made() { Err(Error::Interrupted) } else { batch.run(number, Team::Alone, out) }
            })
        }
        team => out.chunks_mut(one).enumerate().try_for_each(|(number, out)| batch.run(number, team, out)),
    }
}

#[derive(Clone, Copy)]
struct Batch<'a> {
    arch: Arch,
    product: &'a Strided,
    a: &'a [f32],
    b: &'a [f32],
}

impl Batch<'_> {
    fn run(&self, number: usize, team: Team, out: &mut [f32]) -> Result<()> {
        let Strided { rows, columns, depth, scale, a: [row, term, ..], b: [column, own, ..], .. } = *self.product;
        let (a, b) = self.product.starts(number);
        let (a, b) = (&self.a[a..], &self.b[b..]);
        let weight = Exact::new(self.arch, Balance::None, [columns, depth], |n, row| {
            row.iter_mut().enumerate().for_each(|(k, x)| *x = b[n * column + k * own]);
            Ok(())
        })?;
        let lies = (term == 1 || depth == 1) && (row == depth || rows == 1);
        let a: Cow<'_, [f32]> = if lies {
            a[..rows * depth].into()
        } else {
            (0..rows * depth).map(|at| a[at / depth * row + at % depth * term]).collect()
        };
        let finish = |_: usize, out: &mut [f32]| {
            self.arch.vectorized(inlined!(|| {
                for y in out.iter_mut() {
                    *y = canonical(if scale == 1.0 { *y } else { mul(settle(*y), settle(scale)) });
                }
            }));
        };
        multiply(self.arch, team, &a, &weight, finish, out)
    }
}
