//! Checkpoints that are complete, damaged or cannot be written.

use super::*;

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
    fs::write(&path, String::from_utf8(record).unwrap().replace("\"format\": 1", "\"format\": 2")).unwrap();
    fails("has format 2, this version reads 1");
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

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_checkpoints_before() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(1).write(folder.path()).unwrap();
    for end in [TENSORS, RECORD] {
        let unfinished = unfinished(&file(folder.path(), 2, end));
        std::os::unix::fs::symlink("/dev/full", &unfinished).unwrap();
        let error = checkpoint(2).write(folder.path()).unwrap_err().to_string();
        assert!(error.contains("No space left on device") && error.contains(end), "{error}");
        assert_eq!(Checkpoint::newest(folder.path()).unwrap().unwrap().step, 1);
    }
    checkpoint(2).write(folder.path()).unwrap();
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().unwrap().step, 2);
}
