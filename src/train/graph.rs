//! The graphs of training, over the same states: parameters, then their mean gradients and mean squared gradients.

use super::{Parameter, TrainOptions, TransformerConfig};
use crate::Result;
use crate::dtype::DType;
use crate::graph::{Graph, ValueId};
use crate::model::encoder::{Built, Input, build_decoding_step, build_stack};
use crate::ops::{
    Activation, ActivationKind, Adam, Binary, BinaryKind, CrossEntropy, Dim, Linear, Reduce, ReduceKind, Shape,
};
use crate::tensor::Part;

/// Added to the norm of the gradients before it divides, as torch's `clip_grad_norm_` does.
const NORM_EPS: f32 = 1e-6;

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
    parameters: Vec<ValueId>,
    logits: ValueId,
}

impl Model {
    /// The logits `[T, vocab_size]`, with dropout if `config` has it; the states are the parameters.
    pub(super) fn new(config: &TransformerConfig) -> Result<Self> {
        config.check()?;
        Model::of(config, build_stack(&config.spec())?)
    }

    /// The logits of the last tokens of a text of which caches have the keys and values: states after the parameters. After
    /// the boundaries of the tokens come, as an input, those of the keys.
    pub(super) fn decoding(config: &TransformerConfig) -> Result<Self> {
        Model::of(config, build_decoding_step(&config.without_dropout().spec(), config.max_seq_len)?)
    }

    fn of(config: &TransformerConfig, built: Built) -> Result<Self> {
        let mut graph = built.graph;
        let hidden = graph.outputs[0];
        let matrix = Shape::fixed(&[config.vocab_size, config.d_model]);
        let matrix = graph.weight(vec![config.output().into()], matrix);
        let logits = graph.node("output", Linear::default(), &[hidden, matrix])?;
        let parameters = graph.weights_as_states();
        let tables = graph.weights_as_inputs().into_iter().flat_map(|(_, parts)| parts).collect();
        graph.outputs = vec![logits];
        let key = built.inputs.iter().position(|input| *input == Input::DropoutKey);
        Ok(Model { graph, tables, key, parameters, logits })
    }

    /// The parameters, in the order of the states.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let parameter = |id: &ValueId| {
            let value = self.graph.value(*id);
            Parameter { name: value.name.clone(), shape: value.shape.sizes(Default::default()) }
        };
        self.parameters.iter().map(parameter).collect()
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

    /// The mean loss, and the gradients of `share` times the sum of the losses. Adds the inputs `targets` and `share`.
    fn backward(&mut self) -> Result<(ValueId, Vec<ValueId>)> {
        let [losses, loss] = self.losses()?;
        let share = self.graph.input("share", scalar(), DType::F32);
        let ones = self.graph.filled(1.0, Shape::vector(Dim::Tokens));
        let shares = self.graph.node("shares", Binary::from(BinaryKind::Multiply), &[ones, share])?;
        let gradients = self.graph.gradients(losses, shares, &self.parameters)?;
        Ok((loss, gradients))
    }

    /// A whole step. Inputs: those of the model, then `targets`, `share`, `rates` and `max_norm`. Outputs: the mean
    /// loss and the norm of the gradients.
    pub(super) fn training(mut self, options: &TrainOptions) -> Result<Graph> {
        let (loss, gradients) = self.backward()?;
        let norm = self.update(&gradients, options)?;
        self.graph.outputs = vec![loss, norm];
        Ok(self.graph)
    }

    /// Gradients added to earlier ones. Inputs: those of the model, then `targets`, `share` and the earlier gradients.
    /// Outputs: the mean loss and the sums.
    pub(super) fn accumulation(mut self) -> Result<Graph> {
        let (loss, gradients) = self.backward()?;
        self.graph.outputs = vec![loss];
        for (parameter, gradient) in self.parameters.iter().zip(gradients) {
            let name = format!("{} gradient", self.graph.value(*parameter).name);
            let earlier = self.graph.input(&name, self.graph.value(*parameter).shape.clone(), DType::F32);
            let sum = self.graph.node(&name, Binary::from(BinaryKind::Add), &[earlier, gradient])?;
            self.graph.outputs.push(sum);
        }
        Ok(self.graph)
    }

    /// The update by given gradients. Inputs: the gradients, `rates` and `max_norm`. Output: their norm.
    pub(super) fn application(config: &TransformerConfig, options: &TrainOptions) -> Result<Graph> {
        let mut graph = Graph::new();
        let known = Model::new(config)?.parameters();
        let shape = |parameter: &Parameter| Shape::fixed(&parameter.shape);
        let parameters = known.iter().map(|of| graph.state(&of.name, shape(of), DType::F32)).collect();
        let gradient = |of: &Parameter| graph.input(&format!("{} gradient", of.name), shape(of), DType::F32);
        let gradients: Vec<ValueId> = known.iter().map(gradient).collect();
        // It has no logits; nothing reads this place.
        let mut model = Model { graph, tables: Vec::new(), key: None, parameters, logits: gradients[0] };
        let norm = model.update(&gradients, options)?;
        model.graph.outputs = vec![norm];
        Ok(model.graph)
    }

    /// Adam with the gradients scaled to a norm of at most `max_norm`; returns their norm. Adds the inputs `rates [3]`
    /// and `max_norm`, infinite for none.
    fn update(&mut self, gradients: &[ValueId], options: &TrainOptions) -> Result<ValueId> {
        let graph = &mut self.graph;
        let rates = graph.input("rates", Shape::fixed(&[3]), DType::F32);
        let max_norm = graph.input("max_norm", scalar(), DType::F32);
        let [beta1, beta2] = options.betas.map(|beta| beta as f32);
        let adam = Adam { beta1, beta2, eps: options.eps as f32, decay: options.weight_decay as f32 };
        let binary = |kind| Binary::from(kind);
        let mut total = None;
        for gradient in gradients {
            let value = graph.value(*gradient);
            let (name, elements) = (format!("{} squares", value.name), value.shape.elements(Default::default()));
            let flat = graph.view(&name, *gradient, Shape::fixed(&[elements]));
            let own = graph.node(&name, Reduce::rows(ReduceKind::Sum), &[flat, flat])?;
            total = Some(match total {
                None => own,
                Some(sum) => graph.node("squares", binary(BinaryKind::Add), &[sum, own])?,
            });
        }
        let total = total.expect("a model has parameters");
        let norm = graph.node("gradient norm", Activation::from(ActivationKind::Sqrt), &[total])?;
        // 1 / max(1, (norm + eps) / max_norm), where max(1, x) = 1 + relu(x - 1), which is exact where it is 1.
        let [eps, one] = [NORM_EPS, 1.0].map(|number| graph.filled(number, scalar()));
        let mut scale = graph.node("gradient scale", binary(BinaryKind::Add), &[norm, eps])?;
        for (kind, by) in [(BinaryKind::Divide, max_norm), (BinaryKind::Subtract, one)] {
            scale = graph.node("gradient scale", binary(kind), &[scale, by])?;
        }
        scale = graph.node("gradient scale", Activation::from(ActivationKind::Relu), &[scale])?;
        scale = graph.node("gradient scale", binary(BinaryKind::Add), &[scale, one])?;
        scale = graph.node("gradient scale", binary(BinaryKind::Divide), &[one, scale])?;
        let moments = ["m", "v"].map(|moment| {
            let state = |id: &ValueId| {
                let (name, shape) = (format!("{moment}.{}", graph.value(*id).name), graph.value(*id).shape.clone());
                graph.state(&name, shape, DType::F32)
            };
            self.parameters.iter().map(state).collect::<Vec<_>>()
        });
        for (place, (parameter, gradient)) in self.parameters.iter().zip(gradients).enumerate() {
            let name = graph.value(*parameter).name.clone();
            let clipped = format!("{name} gradient scaled");
            let gradient = graph.node(&clipped, binary(BinaryKind::Multiply), &[*gradient, scale])?;
            let operands = [*parameter, moments[0][place], moments[1][place], gradient, rates];
            graph.apply(&format!("{name} adam"), adam.clone(), &operands)?;
        }
        Ok(norm)
    }
}

fn scalar() -> Shape {
    Shape::fixed(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
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
            assert_eq!(build_stack(&config.without_dropout().spec()).unwrap().inputs, expected);
            expected.insert(place, Input::DropoutKey);
            assert_eq!(build_stack(&config.spec()).unwrap().inputs, expected);
            assert_eq!(Model::new(&config).unwrap().key, Some(place));
        }
    }

    #[test]
    fn a_decoding_step_has_a_cache_for_what_holds_keys_and_values() {
        for (kind, columns) in
            [(PositionKind::Learned, vec![768, 768]), (PositionKind::Rotary, vec![512, 768, 512, 768])]
        {
            let config = TransformerConfig { positions: kind, num_layers: 2, ..TransformerConfig::tiny() };
            let model = Model::decoding(&config).unwrap();
            let (states, parameters) = (&model.graph.states, model.parameters());
            let caches = states[parameters.len()..].iter().map(|id| model.graph.value(*id).shape.clone());
            let expected: Vec<Shape> = columns.into_iter().map(|columns| Shape::fixed(&[128, columns])).collect();
            assert_eq!(caches.collect::<Vec<_>>(), expected);
            assert_eq!(parameters, Model::new(&config).unwrap().parameters());
            let places = [Input::Words, Input::Positions(PositionRows::Counted), Input::Offsets, Input::KeyOffsets];
            assert_eq!(build_decoding_step(&config.spec(), 128).unwrap().inputs, places);
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

    #[test]
    fn the_states_are_the_parameters_that_are_counted() {
        for (tied_output, positions) in
            [(false, PositionKind::Learned), (true, PositionKind::Learned), (false, PositionKind::Rotary)]
        {
            let config = TransformerConfig { num_layers: 2, tied_output, positions, ..TransformerConfig::tiny() };
            let parameters = Model::new(&config).unwrap().parameters();
            let counted: usize = parameters.iter().map(|of| of.shape.iter().product::<usize>()).sum();
            assert_eq!(counted, config.parameter_count().unwrap());
            let tables = 1 + usize::from(!tied_output) + usize::from(positions == PositionKind::Learned);
            assert_eq!(parameters.len(), tables + 2 * 12 + 2);
            assert_eq!((parameters[0].name.as_str(), &parameters[0].shape[..]), ("embedding.weight", &[256, 256][..]));
        }
    }
}
