use super::*;

/// `[3, 4]` of 0, 1, 2, ...
fn bytes(dtype: DType) -> Vec<u8> {
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let mut bytes = vec![0; dtype.bytes(12)];
    dtype.encode(&values, &mut bytes);
    bytes
}

fn read(recipe: &[Recipe]) -> Vec<f32> {
    let mut results = [DType::F32, DType::F16, DType::Bf16].map(|dtype| {
        let bytes = bytes(dtype);
        let view = TensorView::new(dtype, DType::F32, &[3, 2, 2], &bytes);
        let view = recipe.iter().try_fold(view, TensorView::after).unwrap();
        assert!(view.is_whole());
        let mut whole = vec![0.0; view.elements()];
        view.read_f32(0, &mut whole).unwrap();
        // Reads of any length, from any first element, equal the corresponding part of the whole.
        for first in 0..whole.len() {
            let mut piece = vec![0.0; (whole.len() - first).min(5)];
            view.read_f32(first, &mut piece).unwrap();
            assert_eq!(piece, whole[first..][..piece.len()]);
            let mut halves = vec![0; 2 * piece.len()];
            view.read(first, DType::F16, &mut halves).unwrap();
            let mut passed = Vec::new();
            view.pass(first..first + piece.len(), DType::F16, |bytes| passed.extend_from_slice(bytes)).unwrap();
            assert_eq!(passed, halves);
            let mut decoded = vec![0.0; piece.len()];
            DType::F16.decode_into(&halves, &mut decoded);
            let mut rounded = piece.clone();
            DType::F16.round(&mut rounded);
            assert_eq!(decoded, rounded);
            let mut integers = vec![0; piece.len()];
            view.read(first, DType::I8, &mut integers).unwrap();
            let nearest = |x: &f32| (x.round_ties_even() as i8).cast_unsigned();
            assert_eq!(integers, piece.iter().map(nearest).collect::<Vec<_>>());
        }
        whole
    });
    assert!(results[0] == results[1] && results[1] == results[2]);
    std::mem::take(&mut results[0])
}

#[test]
fn recipes_do_what_they_say() {
    let columns = |rows: &[[f32; 4]]| rows.concat();
    assert_eq!(read(&[]), columns(&[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]));
    let transposed = [0.0, 4.0, 8.0, 1.0, 5.0, 9.0, 2.0, 6.0, 10.0, 3.0, 7.0, 11.0];
    assert_eq!(read(&[Recipe::Transposed]), transposed);
    assert_eq!(read(&[Recipe::Transposed, Recipe::Transposed]), read(&[]));
    assert_eq!(read(&[Recipe::Rows(1..2)]), [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(read(&[Recipe::Transposed, Recipe::Rows(2..4)]), transposed[6..]);
    assert_eq!(read(&[Recipe::Rows(1..3), Recipe::Transposed, Recipe::Rows(3..4)]), [7.0, 11.0]);
    let gathered = read(&[Recipe::Gathered(vec![2, 0, 2])]);
    assert_eq!(gathered, columns(&[[8.0, 9.0, 10.0, 11.0], [0.0, 1.0, 2.0, 3.0], [8.0, 9.0, 10.0, 11.0]]));
    assert_eq!(read(&[Recipe::Gathered(vec![2, 0]), Recipe::Rows(1..2)]), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(read(&[Recipe::Rows(0..1), Recipe::scaled(2.0), Recipe::PlusOne]), [1.0, 3.0, 5.0, 7.0]);
    let column = [Recipe::Transposed, Recipe::Rows(0..1), Recipe::Transposed, Recipe::Gathered(vec![1, 1, 2])];
    assert_eq!(read(&[&column[..], &[Recipe::scaled(2.0), Recipe::Shares]].concat()), [0.25, 0.25, 0.5]);
    let integers = [0.0, 42.0, 85.0, 127.0, 73.0, 91.0, 109.0, 127.0];
    assert_eq!(read(&[Recipe::Rows(0..2), Recipe::Integers]), integers);
    assert_eq!(read(&[Recipe::Rows(0..2), Recipe::scaled(-1.0), Recipe::Integers]), integers.map(|x| -x));
    assert_eq!(read(&[Recipe::Rows(0..2), Recipe::Scales]), [127.0f32 / 3.0, 127.0 / 7.0]);
    let columns = Recipe::columns(&[1.0, 2.0, 0.5, 1.0]);
    assert_eq!(read(&[Recipe::Rows(1..2), columns.clone()]), [4.0, 10.0, 3.0, 7.0]);
    assert_eq!(read(&[Recipe::Rows(1..2), columns, Recipe::Integers]), [51.0, 127.0, 38.0, 89.0]);
    assert_eq!(Recipe::part_by_part(2, 3, 1), Recipe::Gathered(vec![0, 3, 1, 4, 2, 5]));
    assert_eq!(Recipe::halves(2, 4), Recipe::Gathered(vec![0, 2, 1, 3, 4, 6, 5, 7]));
    let apart = read(&[Recipe::Rows(1..2), Recipe::Transposed, Recipe::halves(1, 4), Recipe::Transposed]);
    assert_eq!(apart, [4.0, 6.0, 5.0, 7.0]);
    let folded = read(&[Recipe::Folded(2), Recipe::Rows(1..3), Recipe::Transposed]);
    assert_eq!(folded, [2.0, 4.0, 3.0, 5.0]);
    let diagonal = read(&[Recipe::Rows(1..3), Recipe::Diagonal(2), Recipe::scaled(2.0)]);
    assert_eq!(diagonal, [8.0, 10.0, 12.0, 14.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 16.0, 18.0, 20.0, 22.0]);
}

#[test]
fn rows_are_counted_after_the_recipe() {
    let rows = |recipe: &[Recipe]| Part::new("x", &[3, 2, 2], recipe.to_vec()).rows();
    assert_eq!((rows(&[]), rows(&[Recipe::Transposed]), Part::from("x").rows()), (Some(3), Some(4), None));
    assert_eq!(rows(&[Recipe::Transposed, Recipe::Rows(1..3), Recipe::scaled(2.0)]), Some(2));
    assert_eq!(rows(&[Recipe::Gathered(vec![0; 7]), Recipe::PlusOne]), Some(7));
    assert_eq!(rows(&[Recipe::Folded(2), Recipe::Diagonal(3), Recipe::Transposed]), Some(6));
}

#[test]
fn a_number_is_rounded_before_it_is_changed() {
    let third = 1.0f32 / 3.0;
    let bytes = third.to_le_bytes();
    let view = TensorView::new(DType::F32, DType::F16, &[1], &bytes).after(&Recipe::PlusOne).unwrap();
    let mut out = [0.0];
    view.read_f32(0, &mut out).unwrap();
    assert_eq!(out, [1.0 + half::f16::from_f32(third).to_f32()]);
    assert!(!TensorView::new(DType::F32, DType::F32, &[2], &bytes).is_whole());
}

/// Two sets of factors of `[3, 4]`, of rank 2, in the type of the source.
struct Source(DType);

const LEFT: [f32; 12] = [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 1.0, 2.0, -3.0, 0.5, 0.0, 4.0];
const RIGHT: [f32; 16] = [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 1.0, 0.0, 2.0, -1.0, 0.25, 3.0, 0.0, 8.0];

impl Source {
    fn encoded(&self, values: &[f32]) -> &'static [u8] {
        let mut bytes = vec![0; self.0.bytes(values.len())];
        self.0.encode(values, &mut bytes);
        bytes.leak()
    }
}

impl WeightSource for Source {
    fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let (axes, values): (_, &[f32]) = match name {
            "base" => ([3, 4, 1], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]),
            "left" => ([2, 3, 2], &LEFT),
            _ => ([2, 2, 4], &RIGHT),
        };
        Ok(TensorView::new(self.0, DType::F16, &axes, self.encoded(values)))
    }
}

fn part(recipe: Vec<Recipe>) -> Part {
    let added =
        LowRank { left: "left".into(), right: "right".into(), sets: 2, set: 1, rank: 2, scale: 0.25f32.to_bits() };
    Part { added: Some(added), ..Part::new("base", &[3, 4], recipe) }
}

#[test]
fn a_product_is_added_to_the_stored_tensor() {
    let product =
        |row: usize, column: usize| (0..2).map(|k| LEFT[6 + row * 2 + k] * RIGHT[8 + k * 4 + column]).sum::<f32>();
    let merged = |row: usize, column: usize| (row * 4 + column) as f32 + 0.25 * product(row, column);
    let rows: Vec<f32> = (0..12).map(|at| merged(at / 4, at % 4)).collect();
    let columns: Vec<f32> = (0..12).map(|at| merged(at % 3, at / 3)).collect();
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let source = Source(dtype);
        for (recipe, expected) in [
            (vec![], rows.clone()),
            (vec![Recipe::Transposed], columns.clone()),
            (vec![Recipe::Rows(1..3)], rows[4..].to_vec()),
            (vec![Recipe::Gathered(vec![2, 0])], [&rows[8..], &rows[..4]].concat()),
            (vec![Recipe::scaled(2.0)], rows.iter().map(|value| 2.0 * value).collect()),
        ] {
            let part = part(recipe);
            let view = part.view(&source).unwrap();
            for first in 0..expected.len() {
                let mut piece = vec![0.0; (expected.len() - first).min(5)];
                view.read_f32(first, &mut piece).unwrap();
                assert_eq!(piece, expected[first..][..piece.len()]);
                let mut halves = vec![0; 2 * piece.len()];
                view.read(first, DType::F16, &mut halves).unwrap();
                let mut passed = Vec::new();
                view.pass(first..first + piece.len(), DType::F16, |bytes| passed.extend_from_slice(bytes)).unwrap();
                assert_eq!(passed, halves);
                DType::F16.decode_into(&halves, &mut piece);
                assert_eq!(piece, expected[first..][..piece.len()]);
            }
        }
    }
}

#[test]
fn only_the_sum_is_rounded() {
    /// A third, of which a third is taken away but for what float16 does not hold.
    struct Thirds;
    impl WeightSource for Thirds {
        fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
            let third = 1.0f32 / 3.0;
            let value = if name == "left" { -1.0f32 } else { third };
            Ok(TensorView::new(DType::F32, DType::F16, &[1, 1, 1], value.to_le_bytes().to_vec()))
        }
    }
    let near = 1.0 - 1.0 / 1024.0f32 / 16.0;
    let added = LowRank { left: "left".into(), right: "right".into(), sets: 1, set: 0, rank: 1, scale: near.to_bits() };
    let part = Part { added: Some(added), ..Part::new("base", &[1, 1], vec![]) };
    let mut out = [0.0];
    part.view(&Thirds).unwrap().read_f32(0, &mut out).unwrap();
    let exact = (1.0f32 / 3.0) + near * -(1.0f32 / 3.0);
    assert_eq!(out, [half::f16::from_f32(exact).to_f32()]);
    assert!(out[0] > 0.0);
}

#[test]
fn factors_of_other_sizes_are_refused() {
    let fault = |change: fn(&mut LowRank)| {
        let mut part = part(vec![]);
        change(part.added.as_mut().unwrap());
        part.view(&Source(DType::F32)).unwrap_err().to_string()
    };
    for text in [
        fault(|added| added.rank = 3),
        fault(|added| added.sets = 3),
        fault(|added| added.set = 2),
        fault(|added| added.left = "right".into()),
    ] {
        assert!(text.contains("is not a factor of rank"), "{text}");
    }
}

/// Two rows of three, named; the last element is `x`.
fn ending(x: f32, stored: DType, rounded: DType) -> TensorView<'static> {
    let mut bytes = vec![0; stored.bytes(6)];
    stored.encode(&[1.0, 2.0, 3.0, 4.0, 5.0, x], &mut bytes);
    let origin = Origin { file: "model.safetensors".as_ref(), name: "a.weight", axes: &[2, 3], first_row: 4 };
    TensorView::new(stored, rounded, &[2, 3], bytes).stored_in(origin)
}

#[test]
fn every_way_of_reading_names_what_is_not_finite() {
    let recipes = [
        vec![],
        vec![Recipe::Transposed],
        vec![Recipe::Gathered(vec![0, 1, 1]), Recipe::Transposed, Recipe::Gathered(vec![2, 2])],
        vec![Recipe::PlusOne],
        vec![Recipe::Shares],
        vec![Recipe::columns(&[1.0, 2.0, 3.0])],
        vec![Recipe::Integers],
        vec![Recipe::Scales],
        vec![Recipe::Rounded(Levels::Ternary), Recipe::Packed(Levels::Ternary)],
        vec![Recipe::Rounded(Levels::Binary), Recipe::Packed(Levels::Binary)],
        vec![Recipe::Divisors(Levels::Ternary)],
        vec![Recipe::Divisors(Levels::Binary)],
    ];
    let kinds = [DType::F32, DType::F16, DType::Bf16];
    for (x, said) in [(f32::NAN, "is NaN at [5, 2]: "), (f32::NEG_INFINITY, "is infinite (-inf) at [5, 2]: ")] {
        for recipe in &recipes {
            for (stored, rounded, to) in kinds.iter().flat_map(|a| kinds.map(|b| kinds.map(|c| (*a, b, c)))).flatten() {
                let read = |view: TensorView<'static>| {
                    let view = recipe.iter().try_fold(view, TensorView::after)?;
                    match recipe.last() {
                        Some(Recipe::Packed(_)) => view.read(0, DType::U8, &mut vec![0; view.elements()]),
                        Some(Recipe::Integers) => view.read(0, DType::I8, &mut vec![0; view.elements()]),
                        _ => view.read(0, to, &mut vec![0; to.bytes(view.elements())]),
                    }
                };
                read(ending(6.0, stored, rounded)).unwrap();
                let error = read(ending(x, stored, rounded)).unwrap_err();
                let text = error.to_string();
                let start = format!("model.safetensors: a.weight {said}");
                assert!(matches!(error, Error::NotFinite(_)) && text.starts_with(&start), "{recipe:?}: {text}");
            }
        }
    }
    // Rows that are not read are not looked at.
    let mut row = [0.0; 3];
    ending(f32::NAN, DType::F32, DType::F32).read_f32(0, &mut row).unwrap();
    assert_eq!(row, [1.0, 2.0, 3.0]);
}

#[test]
fn what_overflows_is_named_with_the_type() {
    let fault =
        |view: TensorView<'_>, to: DType| view.read(0, to, &mut [0; 24][..to.bytes(6)]).unwrap_err().to_string();
    let said = "a.weight is 70000 at [5, 2], which is beyond the range of float16; load the model with dtype=";
    for (rounded, to) in [(DType::F16, DType::F32), (DType::F16, DType::F16), (DType::F32, DType::F16)] {
        let text = fault(ending(70000.0, DType::F32, rounded), to);
        assert!(text.contains(said), "{text}");
    }
    ending(70000.0, DType::F32, DType::Bf16).read(0, DType::Bf16, &mut [0; 12]).unwrap();
    let grown = ending(3e38, DType::F32, DType::F32).after(&Recipe::scaled(4.0)).unwrap();
    assert!(fault(grown, DType::F32).contains("beyond the range of float32"));
}

#[test]
fn blocks_follow_each_other() {
    let numbers: Vec<f32> = (0..10_001).map(|i| (i % 2048) as f32).collect();
    for stored in [DType::F32, DType::F16, DType::Bf16] {
        let mut bytes = vec![0; stored.bytes(numbers.len())];
        stored.encode(&numbers, &mut bytes);
        let view = TensorView::new(stored, DType::F32, &[1, numbers.len()], &bytes).changed(2.0, 1.0);
        for (first, end) in [(0, 10_001), (3, 4099), (4095, 8193), (10_000, 10_001), (7, 7)] {
            for dtype in [DType::F32, DType::F16, DType::Bf16, DType::I8] {
                let mut found = Vec::new();
                view.pass(first..end, dtype, |bytes| found.extend_from_slice(bytes)).unwrap();
                let mut expected = vec![0; dtype.bytes(end - first)];
                let mut values = stored.decode(&bytes)[first..end].to_vec();
                values.iter_mut().for_each(|x| *x = *x * 2.0 + 1.0);
                dtype.encode(&values, &mut expected);
                assert_eq!(found, expected, "{stored:?} as {dtype:?}, {first}..{end}");
            }
        }
    }
}
