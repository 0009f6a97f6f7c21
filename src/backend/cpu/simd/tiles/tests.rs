use super::*;
use crate::backend::cpu::testing::{archs, numbers};

fn pack(rows: &[f32], depth: usize) -> (Vec<f32>, bool) {
    let mut panel = vec![0.0; panel_floats(depth)];
    let good = Arch::new().dispatch(PackPanel { rows, depth, panel: &mut panel });
    (panel, good)
}

#[test]
fn three_parts_are_the_whole_number() {
    let depth = 75;
    let mut x = numbers(32 * depth, 1);
    for (i, x) in x.iter_mut().enumerate() {
        *x *= 2.0f32.powi(i as i32 % 200 - 100);
    }
    x[..6].copy_from_slice(&[0.0, -0.0, 1.0, 16_777_215.0, -16_777_213.0, 1.701_411_7e38]);
    let (panel, good) = pack(&x, depth);
    assert!(good);
    for n in 0..32 {
        for k in 0..depth {
            assert_eq!(unpacked(&panel, depth, k, n), x[n * depth + k], "{:e}", x[n * depth + k]);
        }
    }
}

#[test]
fn what_has_no_parts_is_found() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 2.0f32.powi(127)] {
        for place in [0, 15, 16, 31, 32, 39] {
            let mut x = vec![1.0; 40];
            x[place] = bad;
            assert!(!pack(&x, 40).1, "{bad} at {place}");
        }
    }
    assert!(pack(&[1.7e38; 40], 40).1);
}

/// Six products of parts round less than one product of floats: terms of one sign, so that the omitted products do
/// not cancel.
#[test]
fn what_is_left_out_is_below_a_rounding() {
    for arch in archs().into_iter().filter(|arch| arch.tiles().is_some()) {
        let depth = 256;
        let a: Vec<f32> = numbers(20 * depth, 3).iter().map(|x| x.abs() + 1.0 / 3.0).collect();
        let b: Vec<f32> = numbers(32 * depth, 4).iter().map(|x| x.abs() + 1.0 / 7.0).collect();
        let mut out = vec![0.0; 20 * 32];
        let product = TileProduct {
            a: &a,
            rows: 20,
            depth,
            panels: &pack(&b, depth).0,
            columns: 32,
            finish: Finish::default(),
            out: &mut out,
        };
        product.run(arch, arch.tiles().unwrap()).unwrap();
        for (i, y) in out.iter().enumerate() {
            let terms = |k: usize| f64::from(a[i / 32 * depth + k]) * f64::from(b[i % 32 * depth + k]);
            let sum: f64 = (0..depth).map(terms).sum();
            let error = (f64::from(*y) - sum).abs() / sum;
            // Eight blocks of six products are added in sequence.
            assert!(error < 2.0f64.powi(-23) + 48.0f64.sqrt() * 2.0f64.powi(-24), "{i}: {error:e}");
        }
    }
}
