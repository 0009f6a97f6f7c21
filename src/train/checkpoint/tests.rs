//! Checkpoints that are complete, damaged or cannot be written.

use super::*;
use crate::Error;

fn checkpoint(step: u64) -> Checkpoint {
    let tensor = |name: &str, n: usize| Tensor {
        name: name.into(),
        shape: vec![n, 2],
        bytes: (0..8 * n).map(|i| (i as u64 * step) as u8).collect(),
    };
    Checkpoint {
        step,
        config: TransformerConfig::tiny(),
        options: TrainOptions::default(),
        data: Some(sha256(b"text")),
        loss_scale: (step > 50).then(LossScale::default),
        tokenizer: None,
        metrics: None,
        tensors: vec![tensor("a.weight", 3), tensor("m.a.weight", 3), tensor("v.a.weight", 3)],
    }
}

#[test]
fn what_was_written_is_read_and_the_newest_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("made");
    assert_eq!(Checkpoint::newest(&inner).unwrap(), None);
    for step in [9, 100, 20] {
        checkpoint(step).write(&inner).unwrap();
    }
    let newest = Checkpoint::newest(&inner).unwrap().unwrap();
    assert_eq!((newest.step, newest.hashes()), (100, checkpoint(100).hashes()));
    assert_eq!(newest.loss_scale, Some(LossScale::default()));
    keep_newest(&inner, 2).unwrap();
    assert_eq!(steps(&inner).unwrap(), [20, 100]);
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 4);
    // Tensors alone are no checkpoint.
    fs::remove_file(file(&inner, 100, RECORD)).unwrap();
    assert_eq!(Checkpoint::newest(&inner).unwrap().unwrap().step, 20);
}

#[test]
fn damaged_files_are_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = checkpoint(7).write(folder.path()).unwrap();
    let stored = path.with_extension(TENSORS);
    let whole = fs::read(&stored).unwrap();
    let fails = |part: &str| {
        let error = Checkpoint::newest(folder.path()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Checkpoint { .. }), "{text}");
        assert!(text.contains(part) && text.contains("step-00000007"), "{text}");
    };
    for length in [0, 5, whole.len() - 1] {
        fs::write(&stored, &whole[..length]).unwrap();
        fails("to resume from the checkpoint before it");
    }
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(&stored, &changed).unwrap();
    fails("does not have its SHA-256");
    fs::remove_file(&stored).unwrap();
    fails("cannot be read");
    let record = fs::read(&path).unwrap();
    fs::write(&path, &record[..record.len() / 2]).unwrap();
    fails("is no checkpoint");
    fs::write(&path, String::from_utf8(record).unwrap().replace("\"format\": 2", "\"format\": 4")).unwrap();
    fails("has format 4, this version reads 2");
}

#[test]
fn a_record_has_its_own_hash_but_for_how_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = checkpoint(7).write(folder.path()).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&whole).unwrap();
    // Other spaces, another order.
    fs::write(&path, record.to_string()).unwrap();
    let is_read = || {
        let read = Checkpoint::read(&path).unwrap();
        assert_eq!((&read.options, read.hashes()), (&checkpoint(7).options, checkpoint(7).hashes()));
    };
    is_read();
    fs::write(&path, whole.replace("\"eps\": 1e-8", "\"eps\": 1e-9")).unwrap();
    let error = Checkpoint::read(&path).unwrap_err().to_string();
    assert!(error.contains("step-00000007.json: is damaged: it does not have its SHA-256"), "{error}");
    // Without its hash it is of another format; that of earlier builds had none.
    record.as_object_mut().unwrap().remove("record_sha256");
    fs::write(&path, record.to_string()).unwrap();
    assert!(Checkpoint::read(&path).is_err());
    record["format"] = 1.into();
    fs::write(&path, record.to_string()).unwrap();
    is_read();
}

#[test]
fn learned_tokens_are_beside_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let with = |tokens: &str| Checkpoint { tokenizer: Some(tokens.into()), ..checkpoint(3) };
    with("one").write(folder.path()).unwrap();
    with("one").write(folder.path()).unwrap();
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().unwrap().tokenizer.unwrap(), "one");
    let fails = |found: Result<Option<Checkpoint>>, part: &str| {
        let error = found.unwrap_err().to_string();
        assert!(error.contains("tokenizer.json") && error.contains(part), "{error}");
    };
    fails(with("other").write(folder.path()).map(|_| None), "belongs to another run");
    fs::write(folder.path().join(TOKENIZER), "other").unwrap();
    fails(Checkpoint::newest(folder.path()), "it does not have its SHA-256");
    fs::remove_file(folder.path().join(TOKENIZER)).unwrap();
    fails(Checkpoint::newest(folder.path()), "cannot be read");
}

#[test]
fn other_names_and_folders_are_no_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(7).write(folder.path()).unwrap();
    for name in ["step-5.json", "step-99.json", "step-000000099.json", "step-+0000099.json", "step-00000099.json.old"] {
        fs::write(folder.path().join(name), "{}").unwrap();
    }
    fs::create_dir(folder.path().join("step-00000099.json")).unwrap();
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().unwrap().step, 7);
    keep_newest(folder.path(), 1).unwrap();
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().unwrap().step, 7);
}

#[test]
fn what_a_writer_left_unfinished_is_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["step-00000007.json.1-0", "step-00000007.safetensors", "metrics.jsonl.1-3", "tokenizer.json.12-0"];
    let others = ["step-7.json.1-0", "mine", "step-00000007.json.copy"];
    for name in names.iter().chain(&others) {
        fs::write(folder.path().join(format!("{name}.unfinished")), "").unwrap();
    }
    checkpoint(8).write(folder.path()).unwrap();
    let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let ends = ["mine", "step-00000007.json.copy", "step-7.json.1-0"].map(|name| format!("{name}.unfinished"));
    assert_eq!(left[..1], [ends[0].as_str()]);
    assert_eq!(left[1], ends[1].as_str());
    assert_eq!(left[2..], ["step-00000008.json", "step-00000008.safetensors", ends[2].as_str()]);
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = Folder::take(folder.path()).unwrap();
    let error = checkpoint(1).write(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is used by another Trainer of this process"), "{error}");
    checkpoint(1).write_to(&own).unwrap();
    drop(own);
    checkpoint(2).write(folder.path()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_that_fails_leaves_the_checkpoints_before() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(1).write(folder.path()).unwrap();
    // A folder cannot be replaced by a file.
    for end in [TENSORS, RECORD] {
        let place = file(folder.path(), 2, end);
        fs::create_dir(&place).unwrap();
        let error = checkpoint(2).write(folder.path()).unwrap_err().to_string();
        assert!(error.contains("cannot be written: Is a directory") && error.contains(end), "{error}");
        assert_eq!(Checkpoint::newest(folder.path()).unwrap().unwrap().step, 1);
        assert!(!fs::read_dir(folder.path()).unwrap().any(|entry| entry.unwrap().path().ends_with(".unfinished")));
        fs::remove_dir(&place).unwrap();
    }
    checkpoint(2).write(folder.path()).unwrap();
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().unwrap().step, 2);
}
