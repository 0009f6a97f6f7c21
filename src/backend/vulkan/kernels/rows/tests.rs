use super::*;
use crate::backend::vulkan::kernel::Resource;
use crate::ops::Counts;

#[test]
fn lanes_keep_rows_up_to_the_longest_and_parts_of_others() {
    for columns in (0..20_000).chain([30_522, 151_936, 1 << 20, (1 << 24) - 3]) {
        let Held { lanes, quads, held, vector } = Held::of(columns);
        let part = 4 * lanes * quads;
        assert!((1..=12).contains(&quads) && held == (columns <= 12_288), "{columns}");
        let columns = if held { columns } else { columns - (columns - 1) / part * part };
        let sums = if lanes > LANES { MOST_LANES } else { LANES };
        // Where columns lie apart, the last group may have others than the last column.
        let group = |column: u32| match vector {
            true => column / (4 * lanes),
            false => column / (4 * sums) * (sums / lanes) + column % sums / lanes,
        };
        let last = (columns.saturating_sub(4 * sums)..columns).map(group).max().unwrap_or(0);
        assert!(last < quads && (!held || last + 1 == quads), "{columns}");
    }
}

#[test]
fn many_workgroups_go_on_along_y() {
    for groups in [0u64, 1, 65_535, 65_536, 1 << 20, (1 << 32) - 7] {
        let [Extent::Fixed(x), Extent::Fixed(y), _] = spread(groups) else { panic!() };
        assert!(x <= 65_535 && u64::from(x) * u64::from(y) >= groups, "{groups}: {x} x {y}");
    }
}

#[test]
fn slices_cover_the_table_start_aligned_and_fit() {
    let floor = Capabilities::floor();
    // The word table of mBERT.
    let rows = 119_547;
    let cut = slices(Range::whole(Resource::Buffer(0)), rows, 4 * 768, &floor).unwrap();
    assert_eq!(cut.len(), 3);
    let mut next = 0;
    for slice in &cut {
        assert_eq!(slice.first, next);
        assert_eq!(slice.range.offset % floor.storage_buffer_alignment, 0);
        assert!(slice.range.bytes.unwrap() <= floor.storage_buffer_range);
        next += slice.rows;
    }
    assert_eq!(next as usize, rows);
    // In float16 it needs half the range.
    assert_eq!(slices(Range::whole(Resource::Buffer(0)), rows, 2 * 768, &floor).unwrap().len(), 2);
    // 100 columns: only every 16th row starts at a multiple of 256 bytes.
    for slice in slices(Range::whole(Resource::Buffer(0)), 1_000_000, 4 * 100, &floor).unwrap() {
        assert_eq!(slice.range.offset % 256, 0);
    }
    // Four numbers of a product's row are adjacent, in every slice.
    for slice in slices(Range::whole(Resource::Buffer(0)), 1_000_000, 1280, &floor).unwrap() {
        assert_eq!(slice.first % 4, 0);
    }
    assert!(slices(Range::whole(Resource::Buffer(0)), 2, 4 * (33 << 20) + 4, &floor).is_err());
}

#[test]
fn other_counts_are_as_many_as_in_the_shaders() {
    let block = include_str!("../../../../../shaders/include/counts.glsl");
    assert!(block.contains(&format!("uint others[{}];", Counts::OTHERS)));
    assert_eq!(Rows::new(Dim::Counted(3), 5).rows_of, 4 + 3);
}

#[test]
fn shapes_are_seen_as_rows() {
    let rows = |shape| Rows::of(&shape).unwrap();
    assert_eq!(rows(Shape::fixed(&[5])), Rows::new(Dim::Fixed(1), 5));
    assert_eq!(rows(Shape::fixed(&[2, 3, 5])), Rows::new(Dim::Fixed(6), 5));
    assert_eq!(rows(Shape::vector(Dim::Tokens)), Rows::new(Dim::Tokens, 1));
    assert_eq!(rows(Shape::matrix(Dim::Texts, 7)), Rows::new(Dim::Texts, 7));
    let heads = Shape(vec![Dim::Tokens, Dim::Fixed(2), Dim::Fixed(3)]);
    assert!(Rows::of(&heads).is_err());
    let each = Rows::of_each(&heads).unwrap();
    assert_eq!(each, Rows { rows: 2, ..Rows::new(Dim::Tokens, 3) });
    let tiles = Extent::Tiles { dim: Dim::Tokens, per: rows_per_group(8) };
    assert_eq!(Held::of(3).grid(each), [tiles, Extent::Fixed(2), Extent::ONE]);
    let groups = |extent: Extent, tokens| extent.groups(Counts::new(tokens, 1));
    assert_eq!([0, 1, 5].map(|tokens| groups(each.tiles(4), tokens)), [0, 1, 3]);
    // The rows of three groups may end in tiles of one row each, eight tiles a workgroup.
    assert_eq!([0, 1, 5, 100].map(|tokens| groups(each.tiles_of_groups(3, 4, 1), tokens)), [0, 3, 5, 53]);
    assert_eq!([0, 1, 5, 100].map(|tokens| groups(each.tiles_of_groups(3, 4, 8), tokens)), [0, 1, 1, 7]);
    assert_eq!(Rows::new(Dim::Fixed(10), 3).tiles_of_groups(3, 4, 1), Extent::Fixed(5));
    assert_eq!(Rows::of_each(&Shape::matrix(Dim::Texts, 7)).unwrap(), rows(Shape::matrix(Dim::Texts, 7)));
}
