//! Dispatch of `max_sim`, on matrix cores where there are some, and of `max_sum`.

use super::builds::{Fit, How, Row, choose};
use crate::Result;
use crate::backend::vulkan::generated::max_sim::{Constants, KERNEL};
use crate::backend::vulkan::generated::{PairTile, TextPairs, max_sim_matrix, max_sum};
use crate::backend::vulkan::kernel::{Extent, Variant};
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::{Counts, MaxSim, MaxSum};

/// Documents of a workgroup of `max-sim-matrix.glsl`, and queries at most.
const EACH: u32 = 16;
const BESIDE: u32 = 8;

type Of = Row<[u32; 2], TextPairs, PairTile>;

static BUILDS: [Of; 2] = [
    Of::of::<max_sim_matrix::Constants>(&KERNEL, How::Matrix, matrix),
    Of::of::<Constants>(&KERNEL, How::Plain, plain),
];

/// Several queries in a workgroup read the same documents.
fn matrix(to: &Lowering<'_>, [queries, rows]: &[u32; 2], variant: &'static Variant) -> Fit<PairTile> {
    let [matrix_m, matrix_n, matrix_k] = variant.matrix().unwrap_or_default();
    if *rows == 0 {
        return Err("documents have no rows");
    }
    let subgroups = 256 / to.capabilities.subgroup_size.max(1);
    let beside = subgroups.min(BESIDE).min(queries.next_power_of_two());
    Ok(PairTile {
        depth: to.shape(0).columns() as u32,
        subgroups,
        beside,
        matrix_m,
        matrix_n,
        matrix_k,
        ..PairTile::default()
    })
}

fn plain(to: &Lowering<'_>, _: &[u32; 2], _: &'static Variant) -> Fit<PairTile> {
    Ok(PairTile { vector: to.shape(0).columns().is_multiple_of(4), ..PairTile::default() })
}

/// `max_sim`
pub fn max_sim(to: &mut Lowering<'_>, _: &MaxSim) -> Result<()> {
    let size = |place: usize| to.shape(place).rows().size(Counts::default()) as u32;
    let (queries, documents, rows) = (size(2) - 1, size(3) - 1, size(1));
    let depth = to.shape(0).columns();
    let chosen = choose(to, &KERNEL, [depth, depth], &BUILDS, &[queries, rows])?;
    to.check_narrow(to.dtype(0), chosen.how == How::Matrix)?;
    let [across, down] = match chosen.how {
        How::Matrix => [documents.div_ceil(EACH), queries.div_ceil(chosen.tile.beside)],
        _ => [documents, queries],
    };
    let build = (chosen.make)(to, TextPairs { queries, documents, depth: depth as u32 }, chosen.tile)?;
    to.add(build, "", &[], [Extent::Fixed(across), Extent::Fixed(down), Extent::Continued { axis: 0 }])
}

/// `max_sum`
pub fn max_sum(to: &mut Lowering<'_>, _: &MaxSum) -> Result<()> {
    let size = |place: usize| to.shape(place).rows().size(Counts::default()) as u32 - 1;
    let (row_parts, column_parts) = (size(1), size(2));
    let push = max_sum::Push { columns: to.shape(0).columns() as u32, column_parts };
    let build = to.own(DType::F32, push, max_sum::Constants {})?;
    to.add(build, "", &[], [Extent::Fixed(column_parts), Extent::Fixed(row_parts), Extent::Continued { axis: 0 }])
}
