//! The graphs of training, over the same states: one array each of the parameters, of their gradients, of the mean
//! gradients and of the mean squared gradients, in which all tensors have the same [places](Arena).

use super::arena::{ALIGNMENT, Arena};
use super::optimizer::update;
use super::{Parameter, TrainOptions, TransformerConfig};
use crate::Result;
use crate::dtype::DType;
use crate::graph::{Graph, Source, ValueId};
use crate::model::encoder::{Built, Input, build_stack};
use crate::ops::{Binary, BinaryKind, Cast, Counts, CrossEntropy, Dim, Linear, Reduce, ReduceKind, Shape};
use crate::tensor::Part;

/// The places of the states: parameters, gradients, mean gradients and mean squared gradients.
pub(super) const STATES: [&str; 4] = ["parameters", "gradients", "m", "v"];
/// That of the gradients.
pub(super) const GRADIENTS: usize = 1;

/// A model in construction.
///
/// Its first inputs are the tokens `[T]`, their positions `[T]` and the boundaries of the sequences `[B + 1]`, then the
/// tables; with dropout its key `[4]` is among them.
pub(super) struct Model {
    pub(super) graph: Graph,
    /// Tables that are computed, as of rotary positions.
    pub(super) tables: Vec<Part>,
    /// Place of dropout's key among the inputs.
    pub(super) key: Option<usize>,
    /// Parts of the first state.
    parameters: Vec<ValueId>,
    /// The hidden states before each layer.
    hidden: Vec<ValueId>,
    logits: ValueId,
}

impl Model {
    /// The logits `[T, vocab_size]`, with dropout if `config` has it; the only state has the parameters.
    pub(super) fn new(config: &TransformerConfig) -> Result<Self> {
        Model::stored(config, DType::F32)
    }

    /// As [`Model::new`], with matrices, tables and computed values stored as `dtype`; the logits are float32.
    pub(super) fn stored(config: &TransformerConfig, dtype: DType) -> Result<Self> {
        config.check()?;
        Model::of(config, build_stack(&config.spec(), dtype, None)?)
    }

    /// The logits of the last tokens of a text of which caches have the keys and values: states after the parameters. After
    /// the boundaries of the tokens come, as an input, those of the keys.
    pub(super) fn decoding(config: &TransformerConfig) -> Result<Self> {
        Model::of(config, build_stack(&config.without_dropout().spec(), DType::F32, Some(config.max_seq_len))?)
    }

    fn of(config: &TransformerConfig, built: Built) -> Result<Self> {
        let mut graph = built.graph;
        let hidden = graph.outputs[0];
        let matrix = Shape::fixed(&[config.vocab_size, config.d_model]);
        let matrix = graph.weight_as(graph.value(hidden).dtype, vec![config.output().into()], matrix);
        let mut logits = graph.node("output", Linear::default(), &[hidden, matrix])?;
        if graph.value(logits).dtype != DType::F32 {
            logits = graph.node("logits", Cast::default(), &[logits])?;
        }
        let parameters = graph.weights_as_slices(STATES[0], ALIGNMENT)?;
        let tables = graph.weights_as_inputs().into_iter().flat_map(|(_, parts)| parts).collect();
        graph.outputs = vec![logits];
        let key = built.inputs.iter().position(|input| *input == Input::DropoutKey);
        let hidden = built.states[..config.num_layers].to_vec();
        Ok(Model { graph, tables, key, parameters, hidden, logits })
    }

    /// The parameters, and where they lie in the states.
    pub(super) fn arena(&self) -> Arena {
        let parameter = |id: &ValueId| {
            let value = self.graph.value(*id);
            Parameter { name: value.name.clone(), shape: value.shape.sizes(Counts::default()) }
        };
        let parameters = self.parameters.iter().map(parameter).collect();
        let size = self.graph.value(self.graph.states[0]).shape.elements(Counts::default());
        Arena { parameters, first: self.parameters.iter().map(|id| self.first(*id)).collect(), size }
    }

    /// The first element of a parameter in the states.
    fn first(&self, parameter: ValueId) -> usize {
        match self.graph.value(parameter).source {
            Source::Slice(_, first) => first,
            _ => 0,
        }
    }

    /// The cross entropy of each token `[T]`, and the mean of all. Adds the input `targets [T]`.
    fn losses(&mut self) -> Result<[ValueId; 2]> {
        let graph = &mut self.graph;
        let targets = graph.input("targets", Shape::vector(Dim::Tokens), DType::U32);
        let losses = graph.node("losses", CrossEntropy::default(), &[self.logits, targets])?;
        Ok([losses, graph.node("loss", Reduce::rows(ReduceKind::Mean), &[losses])?])
    }

    /// The loss alone. Inputs: those of the model, then `targets`. Output: the mean loss.
    pub(super) fn evaluation(mut self) -> Result<Graph> {
        let [_, loss] = self.losses()?;
        self.graph.outputs = vec![loss];
        Ok(self.graph)
    }

    /// The mean loss. Writes the gradients of `share` times the sum of the losses to their state. Adds the inputs
    /// `targets` and `share`.
    fn backward(&mut self, options: &TrainOptions) -> Result<ValueId> {
        let [losses, loss] = self.losses()?;
        let share = self.graph.input("share", scalar(), DType::F32);
        let ones = self.graph.filled(1.0, Shape::vector(Dim::Tokens));
        let shares = self.graph.node("shares", Binary::from(BinaryKind::Multiply), &[ones, share])?;
        let checkpointed = if options.gradient_checkpointing { &self.hidden[..] } else { &[] };
        let gradients = self.graph.gradients_from(losses, shares, &self.parameters, checkpointed)?;
        let all = state_like(&mut self.graph, GRADIENTS);
        for (parameter, gradient) in self.parameters.iter().zip(gradients) {
            self.graph.write_to(gradient, all, self.first(*parameter))?;
        }
        Ok(loss)
    }

    /// A whole step. Inputs: those of the model, then `targets`, `share` and those of [`update`]. Outputs: the mean
    /// loss and the norm of the gradients.
    pub(super) fn training(mut self, options: &TrainOptions) -> Result<Graph> {
        let loss = self.backward(options)?;
        let gradients = self.graph.states[GRADIENTS];
        let norm = update(&mut self.graph, gradients, options)?;
        self.graph.outputs = vec![loss, norm];
        Ok(self.graph)
    }

    /// Gradients added to earlier ones. Inputs: those of the model, then `targets`, `share` and the earlier gradients.
    /// Outputs: the mean loss and the sums.
    pub(super) fn accumulation(mut self, options: &TrainOptions) -> Result<Graph> {
        let loss = self.backward(options)?;
        let graph = &mut self.graph;
        let own = graph.states[GRADIENTS];
        let earlier = graph.input("earlier gradients", graph.value(own).shape.clone(), DType::F32);
        let sums = graph.node("sums of gradients", Binary::from(BinaryKind::Add), &[earlier, own])?;
        graph.outputs = vec![loss, sums];
        Ok(self.graph)
    }
}

/// Adds the state at a place of [`STATES`], of the first one's shape.
pub(super) fn state_like(graph: &mut Graph, place: usize) -> ValueId {
    let shape = graph.value(graph.states[0]).shape.clone();
    graph.state(STATES[place], shape, DType::F32)
}

fn scalar() -> Shape {
    Shape::fixed(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Plan;
    use crate::model::spec::PositionRows;
    use crate::ops::Op;
    use crate::train::PositionKind;

    #[test]
    fn the_inputs_have_the_order_that_the_trainer_gives_them() {
        let config = TransformerConfig { dropout: 0.1, ..TransformerConfig::tiny() };
        let [words, positions] = [Input::Words, Input::Positions(PositionRows::Counted)];
        for (kind, place) in [(PositionKind::Learned, 2), (PositionKind::Rotary, 1)] {
            let config = TransformerConfig { positions: kind, ..config.clone() };
            let mut expected = vec![words, positions, Input::Offsets];
            assert_eq!(build_stack(&config.without_dropout().spec(), DType::F32, None).unwrap().inputs, expected);
            expected.insert(place, Input::DropoutKey);
            assert_eq!(build_stack(&config.spec(), DType::F32, None).unwrap().inputs, expected);
            assert_eq!(Model::new(&config).unwrap().key, Some(place));
        }
    }

    #[test]
    fn products_of_ternary_layers_are_of_integers_and_their_parameters_the_same() {
        let config = TransformerConfig { num_layers: 2, ..TransformerConfig::tiny() };
        let ternary = TransformerConfig { bitlinear: true, ..config.clone() };
        let [model, plain] = [&ternary, &config].map(|config| Model::new(config).unwrap());
        let count = |is: fn(&Op) -> bool| model.graph.nodes.iter().filter(|node| is(&node.op)).count();
        assert_eq!(count(|op| matches!(op, Op::QuantizedLinear(_))), 2 * 4);
        assert_eq!(count(|op| matches!(op, Op::Linear(_))), 1, "the output matrix is not rounded");
        let [own, plain] = [model, plain].map(|model| model.arena());
        assert_eq!((own.parameters, own.first, own.size), (plain.parameters, plain.first, plain.size));
    }

    #[test]
    fn a_decoding_step_has_a_cache_for_what_holds_keys_and_values() {
        for (kind, columns) in
            [(PositionKind::Learned, vec![768, 768]), (PositionKind::Rotary, vec![512, 768, 512, 768])]
        {
            let config = TransformerConfig { positions: kind, num_layers: 2, ..TransformerConfig::tiny() };
            let model = Model::decoding(&config).unwrap();
            let caches = model.graph.states[1..].iter().map(|id| model.graph.value(*id).shape.clone());
            let expected: Vec<Shape> = columns.into_iter().map(|columns| Shape::fixed(&[128, columns])).collect();
            assert_eq!(caches.collect::<Vec<_>>(), expected);
            let [own, trained] = [model, Model::new(&config).unwrap()].map(|model| model.arena());
            assert_eq!((own.parameters, own.first), (trained.parameters, trained.first));
            let places = [Input::Words, Input::Positions(PositionRows::Counted), Input::Offsets, Input::KeyOffsets];
            assert_eq!(build_stack(&config.spec(), DType::F32, Some(128)).unwrap().inputs, places);
        }
    }

    #[test]
    fn every_place_of_dropout_has_its_own_numbers() {
        let config = TransformerConfig { dropout: 0.1, num_layers: 2, ..TransformerConfig::tiny() };
        let streams = |config: &TransformerConfig| {
            let stream = |op: &Op| match op {
                Op::Dropout(dropout) => Some(dropout.stream),
                Op::Attention(attention) => (attention.dropout > 0.0).then_some(attention.stream),
                _ => None,
            };
            Model::new(config).unwrap().graph.nodes.iter().filter_map(|node| stream(&node.op)).collect::<Vec<_>>()
        };
        assert_eq!(streams(&config), [0, 1, 2, 3, 4, 5, 6]);
        assert!(streams(&config.without_dropout()).is_empty());
    }

    /// Bytes of the states and of all buffers of a step.
    fn bytes(config: &TransformerConfig, dtype: DType, batch: usize, gradient_checkpointing: bool) -> usize {
        let options = TrainOptions { gradient_checkpointing, ..TrainOptions::default() };
        let graph = Model::stored(config, dtype).unwrap().training(&options).unwrap();
        let counts = Counts::new(batch * config.max_seq_len, batch);
        let states: usize = graph.states.iter().map(|id| graph.value(*id).bytes(counts)).sum();
        states + Plan::new(graph).at(counts).unwrap().buffer_bytes(counts)
    }

    #[test]
    fn checkpointing_takes_a_part_of_the_memory() {
        // What PyTorch 2.11 holds at most in a step of 32 windows, in MiB (benchmarks/training.py), our share of it, and the
        // most bytes of a step of 8 windows.
        for (name, torch, share, most) in [
            ("tiny", 389_u64, 0.6, 200_000_000),
            ("small", 1950, 0.6, 1_000_000_000),
            ("medium", 10_748, 0.4, 1_usize << 31),
        ] {
            let config = TransformerConfig::named(name).unwrap();
            let [whole, less] = [false, true].map(|again| bytes(&config, DType::F32, 32, again));
            assert!(less < whole && less as f64 <= share * (torch << 20) as f64, "{name}: {less} of {whole}");
            assert!(whole as u64 <= torch << 20, "{name}: {whole}");
            let few = bytes(&config, DType::F32, 8, true);
            assert!(few <= most, "{name}: {few}");
        }
        // The same in bfloat16.
        for (name, torch) in [("tiny", 285_u64), ("small", 1322)] {
            let config = TransformerConfig::named(name).unwrap();
            let [whole, less] = [false, true].map(|again| bytes(&config, DType::Bf16, 32, again));
            assert!(less as f64 <= 0.6 * (torch << 20) as f64, "{name}: {less} of {whole}");
            assert!(whole as u64 <= torch << 20, "{name}: {whole}");
        }
    }

    #[test]
    fn the_work_of_the_largest_step_is_known() {
        let config = TransformerConfig::named("medium").unwrap();
        for (gradient_checkpointing, expected) in [(false, 9.2), (true, 12.2)] {
            let options = TrainOptions { gradient_checkpointing, ..TrainOptions::default() };
            let plan = Plan::new(Model::new(&config).unwrap().training(&options).unwrap());
            let flops = plan.flops(Counts::new(32 * config.max_seq_len, 32)) as f64 / 1e12;
            assert!(flops <= expected && flops > 0.9 * expected, "{flops} TFLOP, expected about {expected}");
        }
    }

    #[test]
    fn the_state_has_the_parameters_that_are_counted() {
        for (tied_output, positions) in
            [(false, PositionKind::Learned), (true, PositionKind::Learned), (false, PositionKind::Rotary)]
        {
            let config = TransformerConfig { num_layers: 2, tied_output, positions, ..TransformerConfig::tiny() };
            let Arena { parameters, size, .. } = Model::new(&config).unwrap().arena();
            let counted: usize = parameters.iter().map(Parameter::elements).sum();
            assert_eq!([counted, size], [config.parameter_count().unwrap(); 2]);
            let tables = 1 + usize::from(!tied_output) + usize::from(positions == PositionKind::Learned);
            assert_eq!(parameters.len(), tables + 2 * 12 + 2);
            assert_eq!((parameters[0].name.as_str(), &parameters[0].shape[..]), ("embedding.weight", &[256, 256][..]));
        }
    }
}
