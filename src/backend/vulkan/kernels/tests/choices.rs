//! The number of rows decides nothing but tiles, and builds whose bits are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::graph::shaders::{Float32Products, Registry};
use crate::ops::{ActivationKind, GatedLinear, IntegerLinear, LayerNormLinear, Linear, Matmul, QuantizedLinear};

/// Builds of products of integers, whose sums are exact, give the same bits: `tests/ops/test_builds.py` compares them.
fn bits(name: &str) -> &str {
    ["integer-linear", "quantized-linear"].into_iter().find(|of| name.starts_with(of)).unwrap_or(name)
}

#[test]
fn the_number_of_rows_decides_only_among_builds_of_the_same_bits() {
    let (mut able, mut plain) = (Capabilities::floor(), Registry::default());
    (able.features, able.subgroup_size, able.shared_memory) = (Feature::ALL.to_vec(), 32, 48 << 10);
    plain.float32_products = Float32Products::Plain;
    let software =
        Capabilities { device_type: DeviceType::Software, features: vec![Feature::SubgroupShuffle], ..able.clone() };
    let dots = Capabilities { features: vec![Feature::IntegerDotProduct], ..able.clone() };
    let registries = [Registry::default(), plain].map(Arc::new);
    let mut chosen = BTreeMap::<String, BTreeSet<&str>>::new();
    let rows = [1, 3, 15, 16, 17, 127, 129, 4096, 40_000].map(Dim::Fixed).into_iter().chain([Dim::Tokens, Dim::Texts]);
    for (m, [n, k]) in
        rows.flat_map(|m| [[8, 16], [31, 64], [36, 48], [768, 3072], [64, 20], [7, 34]].map(|of| (m, of)))
    {
        for stored in [DType::F32, DType::F16, DType::Bf16] {
            let mut cases: Vec<(Op, Vec<(DType, Shape)>)> = Vec::new();
            let (x, w) = ((stored, Shape(vec![m, Dim::Fixed(k)])), (stored, Shape::fixed(&[n, k])));
            let vector = |size: usize| (DType::F32, Shape::fixed(&[size]));
            cases.push((Linear::default().into(), vec![x.clone(), w.clone()]));
            cases.push((GatedLinear { kind: ActivationKind::Silu }.into(), vec![x.clone(), w.clone(), w.clone()]));
            cases.push((LayerNormLinear::default().into(), vec![x.clone(), vector(k), vector(k), w.clone()]));
            if let Dim::Fixed(_) = m {
                cases.push((Matmul { transpose_b: true, ..Matmul::default() }.into(), vec![x, w]));
            }
            let (q, scale) = ((DType::I8, Shape(vec![m, Dim::Fixed(k)])), (DType::F32, Shape(vec![m])));
            let weight = (DType::I8, Shape::fixed(&[n, k]));
            cases.push((IntegerLinear::default().into(), vec![q.clone(), weight.clone()]));
            cases.push((QuantizedLinear::default().into(), vec![q, scale, weight, vector(n)]));
            for (op, operands) in cases {
                let mut graph = Graph::new();
                let input = |graph: &mut Graph, (place, (dtype, shape)): (usize, &(DType, Shape))| {
                    graph.input(&format!("{place}"), shape.clone(), *dtype)
                };
                let ids: Vec<ValueId> = operands.iter().enumerate().map(|of| input(&mut graph, of)).collect();
                let y = graph.node("node", op.clone(), &ids).unwrap();
                if let Op::QuantizedLinear(_) = op {
                    graph.values[y.0].dtype = stored;
                }
                graph.outputs = vec![y];
                for (shaders, able) in registries.iter().flat_map(|of| [&able, &software, &dots].map(|able| (of, able)))
                {
                    let plan = Plan::with(graph.clone(), &Fusion { shaders, ..Fusion::default() }).unwrap();
                    let Ok(found) = lower(&plan, able) else { continue };
                    let case = format!("{op:?} {n} {k} {stored:?} {:?} {:?}", shaders.float32_products, able.features);
                    let build =
                        found.iter().rev().find(|dispatch| !dispatch.variant.name.starts_with("reduce")).unwrap();
                    chosen.entry(case).or_default().insert(bits(build.variant.name));
                }
            }
        }
    }
    assert!(chosen.len() > 300);
    for (case, builds) in chosen {
        assert_eq!(builds.len(), 1, "{case}: {builds:?}");
    }
}
