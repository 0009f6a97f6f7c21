//! Initial parameters, drawn from a seed with the same bits on every platform.

use rayon::prelude::*;

use super::Parameter;
use super::config::{ATTENTION_OUTPUT, FEED_FORWARD_OUT, TransformerConfig};
use crate::exit::Request;
use crate::ops::rng::philox;
use crate::process::memory::filled;
use crate::process::threads;
use crate::{Error, Result};

/// Deviation of the matrices and tables (Radford et al. 2019).
const DEVIATION: f64 = 0.02;

/// Last word of the counters from which parameters are drawn; dropout's have zero there, shuffling's one.
const INITIAL: u32 = 2;

/// The initial numbers of the parameter at `place`: zeros for a bias, ones for the weight of a norm; else normal numbers
/// of deviation 0.02, of the products that are added to the hidden state 0.02 / sqrt(2 layers).
pub(super) fn initial(config: &TransformerConfig, parameter: &Parameter, place: usize, seed: u64) -> Result<Vec<f32>> {
    let elements = parameter.shape.iter().product();
    let name = parameter.name.as_str();
    let same = |number: f32| filled(elements, number, &parameter.name);
    if name.ends_with(".bias") {
        return same(0.0);
    }
    if name.ends_with("norm.weight") {
        return same(1.0);
    }
    let added = [ATTENTION_OUTPUT, FEED_FORWARD_OUT].iter().any(|part| name.ends_with(&format!("{part}.weight")));
    let deviation = if added { DEVIATION / ((2 * config.num_layers) as f64).sqrt() } else { DEVIATION };
    let mut numbers = same(0.0)?;
    threads::run(|| {
        let request = Request::current();
        numbers.par_chunks_mut(CHUNK).enumerate().try_for_each(|(chunk, numbers)| {
            for (number, index) in numbers.iter_mut().zip(chunk * CHUNK..) {
                *number = (deviation * normal(seed, place as u32, index as u64)) as f32;
            }
            if request.made() { Err(Error::Interrupted) } else { Ok(()) }
        })
    })??;
    Ok(numbers)
}

const CHUNK: usize = 1 << 12;

/// Number `index` of a sequence: twelve uniform numbers minus their mean, which is normal to about 1 in 100 of the
/// density and has deviation 1 (Irwin and Hall). Unlike a logarithm it is exact, so the same everywhere.
fn normal(seed: u64, sequence: u32, index: u64) -> f64 {
    let key = [seed as u32, (seed >> 32) as u32];
    let block = 3 * index;
    let words = (block..block + 3).flat_map(|block| {
        let [low, high] = [block as u32, (block >> 32) as u32];
        philox([low, high, sequence, INITIAL], key)
    });
    let sum: u64 = words.map(u64::from).sum();
    // The mean of a word is (2^32 - 1) / 2.
    (2.0 * sum as f64 - 12.0 * f64::from(u32::MAX)) / (2.0 * (1u64 << 32) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_normal_and_fixed() {
        let n = 100_000;
        let numbers: Vec<f64> = (0..n).map(|index| normal(5, 1, index)).collect();
        let moment = |power: i32| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / n as f64;
        // Five standard deviations of each mean; the fourth moment of the sum is 3 - 0.1.
        let bound = |variance: f64| 5.0 * (variance / n as f64).sqrt();
        assert!(moment(1).abs() < bound(1.0), "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < bound(2.0), "{}", moment(2));
        assert!((moment(4) - 2.9).abs() < bound(96.0), "{}", moment(4));
        // By an implementation of the generator in Python.
        assert_eq!(numbers[..3], [-0.10995520860888064, -0.08668858068995178, 1.143419832456857]);
        assert_ne!(normal(5, 1, 0), normal(5, 2, 0));
        assert_ne!(normal(5, 1, 0), normal(6, 1, 0));
    }

    #[test]
    fn every_kind_of_parameter_has_its_numbers() {
        let config = TransformerConfig { num_layers: 2, ..TransformerConfig::tiny() };
        let of = |name: &str| {
            let parameter = Parameter { name: name.into(), shape: vec![100, 100] };
            initial(&config, &parameter, 3, 0).unwrap()
        };
        assert!(of("layers.0.attention.output.bias").iter().all(|x| *x == 0.0));
        assert!(of("layers.0.attention_norm.weight").iter().chain(&of("final_norm.weight")).all(|x| *x == 1.0));
        let deviation = |name: &str| (of(name).iter().map(|x| x * x).sum::<f32>() / 1e4).sqrt();
        for (name, expected) in [
            ("embedding.weight", 0.02),
            ("layers.1.feed_forward.in.weight", 0.02),
            ("layers.1.feed_forward.out.weight", 0.01),
            ("layers.1.attention.output.weight", 0.01),
        ] {
            assert!((deviation(name) / expected - 1.0).abs() < 0.04, "{name}: {}", deviation(name));
        }
    }
}
