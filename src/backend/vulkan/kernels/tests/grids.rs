//! Grids of every op beyond what a device allows along an axis, from the examples with one size enlarged.

use std::collections::BTreeSet;

use super::*;
use crate::array::op_graph;
use crate::ops::Counts;

/// Beyond the limit with one row a workgroup, with tiles of 16 to 128 rows, and with eight of those.
const SIZES: [usize; 4] = [70_000, 1_100_000, 9_000_000, 67_200_000];
/// What is refused: 4.2 million columns. tests/ops/test_grids.py finds more in rows of more axes.
const REFUSED: [&str; 1] = ["pool"];
/// Elements of an operand that kernels count in 32 bits.
const MOST: usize = 1 << 31;

/// The op with operands of such axes, as a plan, and the sizes of a batch; `None` where they do not fit.
fn plan(op: &Op, shapes: &[Vec<usize>]) -> Option<(Plan, Counts)> {
    let operands = shapes.iter().enumerate().map(|(place, axes)| (op.operand(place).dtype(DType::F32), axes.clone()));
    let (graph, counts) = op_graph(op, &operands.collect::<Vec<_>>()).ok()?;
    let small = |id: &ValueId| graph.value(*id).shape.elements(counts) < MOST;
    let fits = graph.inputs.iter().chain(&graph.outputs).all(small);
    fits.then(|| (Plan::new(graph), counts))
}

/// The shapes with each size in turn, wherever it occurs and in one place, enlarged.
fn enlarged(shapes: &[&[usize]]) -> BTreeSet<Vec<Vec<usize>>> {
    let mut found = BTreeSet::new();
    let places = || shapes.iter().enumerate().flat_map(|(i, axes)| (0..axes.len()).map(move |axis| (i, axis)));
    for (size, (i, axis)) in SIZES.iter().flat_map(|size| places().map(move |place| (size, place))) {
        let mut alone: Vec<Vec<usize>> = shapes.iter().map(|axes| axes.to_vec()).collect();
        alone[i][axis] = *size;
        found.insert(alone);
        let own = shapes[i][axis];
        let all = shapes.iter().map(|axes| axes.iter().map(|n| if *n == own { *size } else { *n }).collect());
        found.insert(all.collect());
    }
    found
}

#[test]
fn no_grid_is_longer_than_devices_allow() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let software = Capabilities { device_type: DeviceType::Software, ..able.clone() };
    let (mut walked, mut faults) = (BTreeSet::new(), BTreeSet::new());
    for (op, (_, shapes, _)) in Op::examples() {
        for shapes in enlarged(shapes) {
            let Some((plan, counts)) = plan(&op, &shapes) else { continue };
            for device in [&Capabilities::floor(), &able, &software] {
                let groups = |dispatch: &Dispatch| dispatch.groups(counts, device);
                let found =
                    lower(&plan, device).and_then(|all| all.iter().map(groups).collect::<crate::Result<Vec<_>>>());
                match found {
                    Ok(groups) => {
                        if groups.iter().flatten().any(|n| *n > 60_000) {
                            walked.insert(op.name());
                        }
                    }
                    Err(error) if error.to_string().contains("workgroups along axis") => {
                        faults.insert(op.name());
                    }
                    Err(_) => {}
                }
            }
        }
    }
    assert!(walked.len() > 20, "{walked:?}");
    assert_eq!(faults.into_iter().collect::<Vec<_>>(), REFUSED);
}
