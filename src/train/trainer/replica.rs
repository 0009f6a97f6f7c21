//! A model in training on one device. Several of one kind share the batches of a step: each computes the gradients of some shards,
//! and each updates its own parameters by the same sums, so that all have the same bits.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use crate::array::{Array, Engine};
use crate::dtype::DType;
use crate::exit::Request;
use crate::train::Batch;
use crate::train::update::{Outcome, Sums, Update};
use crate::{Error, Result};

pub(in crate::train) struct Replica {
    pub(in crate::train) engine: Arc<Engine>,
    pub(in crate::train) update: Update,
    /// Of the model.
    pub(in crate::train) tables: Vec<Array>,
    /// Positions and boundaries of the sequences of a batch, by their number and length.
    sequences: HashMap<[usize; 2], [Array; 2]>,
    /// The bytes of its shards of the last step that several devices shared.
    shards: Vec<Vec<u8>>,
}

/// The numbers of a step, which every device gets.
pub(super) struct Numbers<'a> {
    /// The shape of the rates, and the rates.
    pub(super) rates: (&'a [usize], Vec<f32>),
    pub(super) max_norm: f32,
    pub(super) share: f32,
    /// In float16.
    pub(super) unscale: Option<f32>,
    /// With dropout: the place of its key among the inputs, and the key of each batch.
    pub(super) keys: Option<(usize, Vec<[u32; 4]>)>,
}

impl Replica {
    pub(super) fn new(engine: &Arc<Engine>, update: Update, tables: Vec<Array>) -> Self {
        Replica { engine: engine.clone(), update, tables, sequences: HashMap::new(), shards: Vec::new() }
    }

    pub(super) fn floats(&self, shape: &[usize], numbers: &[f32]) -> Result<Array> {
        self.engine.upload(DType::F32, shape, bytemuck::cast_slice(numbers))
    }

    pub(in crate::train) fn indices(&self, numbers: &[u32]) -> Result<Array> {
        self.engine.upload(DType::U32, &[numbers.len()], bytemuck::cast_slice(numbers))
    }

    /// What the model reads of sequences of one length: all but the tokens goes to the device once.
    fn read(&mut self, rows: usize, tokens: &[u32]) -> Result<Vec<Array>> {
        let length = tokens.len() / rows.max(1);
        if !self.sequences.contains_key(&[rows, length]) {
            let positions: Vec<u32> = (0..rows).flat_map(|_| 0..length as u32).collect();
            let offsets: Vec<u32> = (0..=rows).map(|row| (row * length) as u32).collect();
            let made = [self.indices(&positions)?, self.indices(&offsets)?];
            self.sequences.insert([rows, length], made);
        }
        let [positions, offsets] = self.sequences[&[rows, length]].clone();
        let mut inputs = vec![self.indices(tokens)?, positions, offsets];
        inputs.extend(self.tables.iter().cloned());
        Ok(inputs)
    }

    pub(super) fn inputs(&mut self, batch: &Batch) -> Result<Vec<Array>> {
        let mut inputs = self.read(batch.rows, &batch.inputs)?;
        inputs.push(self.indices(&batch.targets)?);
        Ok(inputs)
    }

    /// The inputs of those batches of a step that have these places in it.
    fn all_inputs(&mut self, batches: &[Batch], places: Range<usize>, of: &Numbers<'_>) -> Result<Vec<Vec<Array>>> {
        let mut all = batches[places.clone()].iter().map(|batch| self.inputs(batch)).collect::<Result<Vec<_>>>()?;
        if let Some((place, keys)) = &of.keys {
            for (inputs, key) in all.iter_mut().zip(&keys[places]) {
                inputs.insert(*place, self.indices(key)?);
            }
        }
        Ok(all)
    }

    /// The inputs of the update.
    fn rest(&self, of: &Numbers<'_>) -> Result<Vec<Array>> {
        let (shape, rates) = &of.rates;
        let mut rest = vec![self.floats(shape, rates)?, self.floats(&[], &[of.max_norm])?];
        if let Some(factor) = of.unscale {
            rest.push(self.floats(&[], &[factor])?);
        }
        Ok(rest)
    }

    /// A whole step.
    pub(super) fn step(&mut self, batches: &[Batch], of: &Numbers<'_>) -> Result<Outcome> {
        let (rest, share) = (self.rest(of)?, self.floats(&[], &[of.share])?);
        let inputs = self.all_inputs(batches, 0..batches.len(), of)?;
        self.update.run(&inputs, &share, &rest)
    }

    /// The sums of the gradients of some shards, whose bytes are on the host then.
    fn sums(&mut self, batches: &[Batch], places: Range<usize>, of: &Numbers<'_>) -> Result<Sums> {
        let share = self.floats(&[], &[of.share])?;
        let inputs = self.all_inputs(batches, places, of)?;
        let sums = self.update.sums(&inputs, &share)?;
        self.shards.resize(sums.shards.len(), Vec::new());
        self.engine.read(&sums.shards.iter().collect::<Vec<_>>(), &mut self.shards)?;
        Ok(sums)
    }

    /// The sum of all shards in their order, of which those from `first` on are here.
    fn total(&self, own: &[Array], first: usize, all: &[&[u8]]) -> Result<Array> {
        let mut total = None;
        for (place, bytes) in all.iter().enumerate() {
            let shard = match place.checked_sub(first).and_then(|place| own.get(place)) {
                Some(here) => here.clone(),
                None => self.engine.upload(DType::F32, own[0].shape(), bytes)?,
            };
            total = Some(self.update.added(total, shard)?);
        }
        total.ok_or_else(|| Error::InvalidArgument("a step without batches".into()))
    }
}

/// A step whose batches several devices share: what each computed, in the order of the batches.
///
/// # Errors
/// Before the first update as [`Replica::step`]; then `Unusable`, since some devices have other parameters than the rest.
pub(super) fn step_on_all(replicas: &mut [&mut Replica], batches: &[Batch], of: &Numbers<'_>) -> Result<Vec<Outcome>> {
    let each = batches.len() / replicas.len();
    let sums = at_once(replicas.iter_mut().enumerate(), |(place, replica)| {
        replica.sums(batches, place * each..(place + 1) * each, of)
    })?;
    let shards: Vec<&[u8]> = replicas.iter().flat_map(|replica| replica.shards.iter().map(Vec::as_slice)).collect();
    let per_device = shards.len() / replicas.len();
    let ready = at_once(replicas.iter().zip(&sums).enumerate(), |(place, (replica, sums))| {
        Ok((replica.total(&sums.shards, place * per_device, &shards)?, replica.rest(of)?))
    })?;
    let mut outcomes = Vec::with_capacity(replicas.len());
    for ((replica, sums), (total, rest)) in replicas.iter().zip(sums).zip(ready) {
        let outcome = replica.update.apply(sums.losses, total, &rest).map_err(|error| match outcomes.is_empty() {
            true => error,
            false => {
                let device = replica.engine.device();
                Error::Unusable(format!(
                    "{device} was not updated as others were: {error}; resume from the last checkpoint"
                ))
            }
        })?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Calls `work` for each item, for the first in this thread and for each other in one of its own, and returns the results in the
/// items' order, or the first error.
fn at_once<T: Send, R: Send>(
    mut items: impl Iterator<Item = T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let request = Request::current();
    thread::scope(|scope| {
        let first = items.next();
        let start = |item| {
            let (request, work) = (&request, &work);
            scope.spawn(move || request.serve(|| work(item)))
        };
        let started: Vec<_> = items.map(start).collect();
        let own = first.map(&work);
        // All are waited for, also after an error.
        let join = |thread: thread::ScopedJoinHandle<'_, Result<R>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        let ended: Vec<Result<R>> = own.into_iter().chain(started.into_iter().map(join)).collect();
        ended.into_iter().collect()
    })
}
