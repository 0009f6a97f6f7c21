use super::*;
use crate::backend::vulkan::Feature;
use crate::backend::vulkan::generated::{
    gated_linear_matrix, layer_norm_linear_matrix as folded, linear, linear_matrix, linear_split, matmul_matrix,
    quantized_linear_matrix,
};
use crate::backend::vulkan::kernel::{Kernel, Specialization};
use crate::backend::vulkan::shared_bytes;

fn declared<C: Specialization + From<Tile>>(tile: Tile) -> u32 {
    declared_by::<C>(&C::KERNEL.variants[0], tile)
}

fn declared_by<C: Specialization + From<Tile>>(variant: &'static Variant, tile: Tile) -> u32 {
    shared_bytes(variant, &C::from(tile).values(variant))
}

#[test]
fn a_tile_of_shared_memory_needs_what_its_shader_declares_and_fits_the_device() {
    for shared_memory in [32 << 10, 48 << 10] {
        let able = Capabilities { shared_memory, ..Capabilities::floor() };
        for (n, k) in [(768, 384), (64, 384), (768, 48), (768, 100)] {
            let tile = Tile::shared(n, k, &able);
            let declared = declared::<linear::Constants>(tile);
            assert_eq!(tile.shared_bytes(), declared, "{tile:?}");
            assert!(declared <= shared_memory, "{tile:?} in {shared_memory}");
            let steps = if n == 768 && shared_memory < 40 << 10 { 16 } else { 32 };
            let expected = if k == 384 { (steps, true) } else { (16, k == 48) };
            assert_eq!((tile.tile_k, tile.whole), expected, "{n} {k} {shared_memory}");
        }
    }
}

#[test]
fn a_tile_of_either_layout_fits_the_device() {
    for shared_memory in [32 << 10, 48 << 10] {
        let able = Capabilities { shared_memory, subgroup_size: 32, ..Capabilities::floor() };
        for (rows, n, k) in [(16384, 3072, 768), (9, 64, 96), (3072, 768, 16384), (16384, 64, 40)] {
            let variant = &matmul_matrix::KERNEL.variants[0];
            let tile = Tile::of_cores(variant, &able).of_matrices(rows, n, k, &able);
            for (a_load, b_load) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
                let declared = declared::<matmul_matrix::Constants>(Tile { a_load, b_load, ..tile });
                assert!(declared <= shared_memory, "{tile:?}");
            }
        }
    }
}

#[test]
fn a_tile_of_integers_needs_what_its_shader_declares_and_fits_the_device() {
    let able = |shared_memory| Capabilities { shared_memory, subgroup_size: 32, ..Capabilities::floor() };
    let sizes = |limit: u32, rows: Dim, k: u32| {
        let cores = Tile::of_cores(&quantized_linear_matrix::KERNEL.variants[0], &able(limit));
        let tile = cores.of_integers(rows, 1024, k, limit);
        let Tile { tile_m, tile_n, tile_k, whole, .. } = tile;
        let declared = declared::<quantized_linear_matrix::Constants>(Tile { pairs: true, ..tile });
        assert_eq!(tile.of_integers_bytes(), declared, "{tile:?}");
        assert!(declared <= limit, "{tile:?} in {limit}");
        (tile_m, tile_n, tile_k, whole)
    };
    assert_eq!(sizes(48 << 10, Dim::Tokens, 768), (192, 128, 128, true));
    assert_eq!(sizes(32 << 10, Dim::Fixed(16384), 96), (128, 128, 64, false));
    assert_eq!(sizes(48 << 10, Dim::Fixed(8), 384), (64, 64, 128, true));
}

#[test]
fn a_tile_on_matrix_cores_needs_what_its_shader_declares_and_fits_the_device() {
    let cores = |shared_memory| {
        let able = Capabilities { shared_memory, subgroup_size: 32, ..Capabilities::floor() };
        Tile::of_cores(&linear_matrix::KERNEL.variants[0], &able)
    };
    for limit in [32 << 10, 48 << 10, 64 << 10] {
        for (rows, k) in [(Dim::Tokens, 768), (Dim::Fixed(8192), 96), (Dim::Fixed(9), 48), (Dim::Fixed(9), 16)] {
            let tile = cores(limit).on_matrix_cores(rows, 1024, 1, k, limit);
            let declared_plain = declared::<linear_matrix::Constants>(tile);
            let most = declared::<folded::Constants>(tile);
            assert_eq!(tile.matrix_bytes(), most, "{tile:?}");
            assert!(declared_plain < most && most <= limit && k.is_multiple_of(tile.tile_k), "{tile:?} in {limit}");
        }
    }
    let sizes = |tile: Tile| (tile.tile_m, tile.tile_n, tile.tile_k, tile.subgroups);
    let large = |limit| sizes(cores(limit).on_matrix_cores(Dim::Tokens, 1024, 1, 768, limit));
    assert_eq!((large(48 << 10), large(32 << 10)), ((192, 128, 64, 8), (192, 128, 32, 8)));
    let few = |n, k| cores(48 << 10).on_matrix_cores(Dim::Fixed(8), n, 1, k, 48 << 10);
    assert_eq!(sizes(few(384, 384)), (64, 64, 64, 8));
    let units = |tile: Tile| (tile.tile_k, tile.whole, tile.x_unit, tile.y_unit);
    let of = |n, k| units(few(n, k));
    assert_eq!([of(384, 48), of(1000, 312), of(1018, 1000)], [(16, true, 8, 8), (64, false, 8, 8), (64, false, 8, 2)]);
    assert_eq!([of(1001, 1002), of(4, 18), of(12, 40)], [(64, false, 2, 1), (16, false, 2, 4), (16, false, 8, 4)]);
}

#[test]
fn a_tile_of_matrices_has_fewer_rows_on_amd() {
    let rows = |vendor| {
        let able = Capabilities { vendor, shared_memory: 64 << 10, subgroup_size: 32, ..Capabilities::floor() };
        Tile::of_cores(&matmul_matrix::KERNEL.variants[0], &able).of_matrices(16384, 1024, 768, &able).tile_m
    };
    assert_eq!([0x10de, 0x1002].map(rows), [192, 128]);
}

#[test]
fn a_tile_of_split_products_has_fewer_rows_where_subgroups_are_wide() {
    let able = |lanes| Capabilities { shared_memory: 64 << 10, subgroup_size: lanes, ..Capabilities::floor() };
    let tile = |subgroup_size, rows, weights| {
        let able = able(subgroup_size);
        let cores = Tile::of_cores(&linear_split::KERNEL.variants[0], &able);
        let Tile { tile_m, tile_n, subgroups, .. } = cores.of_split(rows, 1024, weights, 768, 64 << 10).unwrap();
        (tile_m, tile_n, subgroups)
    };
    assert_eq!([1, 2].map(|weights| tile(32, Dim::Tokens, weights)), [(128, 128, 8); 2]);
    assert_eq!([1, 2].map(|weights| tile(64, Dim::Tokens, weights)), [(64, 128, 4); 2]);
    assert_eq!([tile(32, Dim::Fixed(8), 1), tile(64, Dim::Fixed(8), 1)], [(64, 64, 8), (64, 64, 4)]);
    let cores = Tile::of_cores(&linear_split::KERNEL.variants[0], &able(32));
    assert!(cores.of_split(Dim::Fixed(8), 1024, 1, 768, 16 << 10).is_err(), "V3DV's shared memory");
}

#[test]
fn every_subgroup_gets_whole_matrices_of_every_shape_and_the_tile_fits_the_device() {
    let kernels: [&Kernel; 4] =
        [&linear_matrix::KERNEL, &gated_linear_matrix::KERNEL, &linear_split::KERNEL, &quantized_linear_matrix::KERNEL];
    for (kernel, lanes) in kernels.iter().flat_map(|kernel| [8, 16, 32, 64].map(|lanes| (kernel, lanes))) {
        for variant in kernel.variants {
            let [m, ..] = variant.matrix().unwrap();
            for shared_memory in [32 << 10, 48 << 10] {
                let able = Capabilities { shared_memory, subgroup_size: lanes, ..Capabilities::floor() };
                let cores = Tile::of_cores(variant, &able);
                for (rows, n, k) in [(Dim::Tokens, 3072, 768), (Dim::Fixed(9), 64, 96), (Dim::Fixed(4096), 1024, 48)] {
                    let (tile, weights, bytes) = match kernel.name {
                        "linear-split" => {
                            let Ok(tile) = cores.of_split(rows, n, 1, k, shared_memory) else {
                                assert!(m == 16 && lanes < 32, "{} on {lanes} lanes", variant.name);
                                continue;
                            };
                            (tile, 1, declared_by::<linear_split::Constants>(variant, tile))
                        }
                        "quantized-linear-matrix" => {
                            let tile = Tile { pairs: true, ..cores.of_integers(rows, n, k, shared_memory) };
                            (tile, 1, declared_by::<quantized_linear_matrix::Constants>(variant, tile))
                        }
                        "gated-linear-matrix" => {
                            let tile = cores.on_matrix_cores(rows, n, 2, k, shared_memory);
                            (tile, 2, declared_by::<gated_linear_matrix::Constants>(variant, tile))
                        }
                        _ => {
                            let tile = cores.on_matrix_cores(rows, n, 1, k, shared_memory);
                            (tile, 1, declared_by::<linear_matrix::Constants>(variant, tile))
                        }
                    };
                    let site = format!("{} on {lanes} lanes: {tile:?}", variant.name);
                    // Subgroups of fewer lanes are more than a small tile has matrices of 16 rows.
                    assert!(tile.dealt(weights).is_ok() || (m == 16 && lanes < 32), "{site}");
                    assert!(bytes <= shared_memory, "{site}: {bytes}");
                }
            }
        }
    }
}

#[test]
fn devices_of_amd_get_the_lanes_and_steps_that_suit_them() {
    let of = |least_subgroup_size, features: Vec<Feature>| Capabilities {
        vendor: 0x1002,
        subgroup_size: 64,
        least_subgroup_size,
        features,
        shared_memory: 64 << 10,
        ..Capabilities::floor()
    };
    let (rdna, gcn) = (of(32, vec![Feature::SubgroupSizeControl]), of(64, vec![Feature::SubgroupSizeControl]));
    assert_eq!((rdna.lanes_of_splits(), gcn.lanes_of_splits(), of(32, vec![]).lanes_of_splits()), (32, 64, 64));
    let nvidia = Capabilities { vendor: 0x10de, subgroup_size: 32, ..rdna.clone() };
    assert_eq!(nvidia.lanes_of_splits(), 32);
    let step = |able: &Capabilities| Tile::shared(768, 384, able).tile_k;
    assert_eq!((step(&rdna), step(&gcn), step(&Capabilities { vendor: 0x5143, ..gcn.clone() })), (32, 16, 32));
}
