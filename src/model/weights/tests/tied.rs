use super::*;
use crate::model::task_head::{HeadStep, Task, TaskHead};

/// Sizes of the tensors that a head with a decoder reads, in a checkpoint of tensors with 1, 2, 3, ... elements.
fn sizes(names: &[&str]) -> Result<Vec<(String, usize)>> {
    let tied = [["pooler.decoder.weight", "words"], ["pooler.decoder.bias", "pooler.bias"]];
    let head = TaskHead {
        tied: tied.map(|pair| pair.map(str::to_owned)).into(),
        ..TaskHead::of(Task::Words, vec![HeadStep::linear("pooler.decoder", 3)])
    };
    let shapes: Vec<_> = (1..=names.len()).map(|size| [size]).collect();
    let tensors: Vec<_> = names.iter().zip(&shapes).map(|(name, shape)| (*name, "F32", &shape[..])).collect();
    let folder = folder(&[("model.safetensors", &honest(&tensors))]);
    let weights = Weights::open(folder.path(), "", &[], &rules().with_head(&head))?;
    let sizes = weights.tensors.iter().map(|(name, entry)| (name.clone(), entry.stored.shape[0]));
    Ok(sizes.filter(|(name, _)| name.contains("decoder") || name == "words").collect())
}

#[test]
fn a_missing_tensor_of_a_head_is_the_one_it_is_tied_to() {
    let of = |names: &[&str]| -> Vec<usize> { sizes(names).unwrap().into_iter().map(|(_, size)| size).collect() };
    // By name: the bias, the weight, the table.
    assert_eq!(of(&["words", "pooler.bias"]), [2, 1, 1]);
    assert_eq!(of(&["words", "pooler.bias", "pooler.decoder.weight", "pooler.decoder.bias"]), [4, 3, 1]);
    let lacking = sizes(&["words"]).unwrap();
    assert_eq!(lacking, [("pooler.decoder.weight".to_owned(), 1), ("words".to_owned(), 1)]);
}

#[test]
fn tensors_of_other_heads_are_skipped() {
    let steps = vec![HeadStep::Linear { name: "head.decoder".into(), bias: false, columns: 3 }];
    let head = TaskHead {
        tied: vec![["head.decoder.weight".to_owned(), "head.table".to_owned()]],
        ..TaskHead::of(Task::Words, steps)
    };
    let check = |names: &[&str]| {
        let tensors: Vec<_> = names.iter().map(|name| (*name, "F32", &[1usize][..])).collect();
        let folder = folder(&[("model.safetensors", &honest(&tensors))]);
        let weights = Weights::open(folder.path(), "", &[], &rules().with_head(&head)).unwrap();
        let all = needed(&[("words.weight", &[1]), ("head.decoder.weight", &[1])]);
        weights.check(&all, |_| true).map(|skipped| skipped.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    // What the decoder is tied to is read.
    let names = ["words.weight", "head.table", "head.other.weight", "head.decoder.bias"];
    assert_eq!(check(&names[..3]).unwrap(), ["head.other.weight"]);
    let Err(Error::Weights { problems, .. }) = check(&names) else { panic!() };
    assert_eq!(problems, ["unexpected head.decoder.bias [1]"]);
}
