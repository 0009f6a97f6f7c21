use super::*;

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

#[test]
fn files_are_listed_in_order() {
    let root = folder(&[("b.txt", b"b"), ("a/c/d.txt", b"long"), ("a.txt", b""), (".hidden", b""), (".git/e", b"")]);
    let found = walk(root.path()).unwrap();
    assert_eq!(found.files, ["a.txt", "a/c/d.txt", "b.txt"]);
    assert!(found.problems.is_empty());
    let states = states(root.path(), &[&found.files[..], &["gone".into()]].concat()).unwrap();
    let sizes: Vec<Option<u64>> = states.iter().map(|state| state.map(|(size, _)| size)).collect();
    assert_eq!(sizes, [Some(0), Some(4), Some(1), None]);
    assert!(states.iter().flatten().all(|(_, changed)| *changed > 0));
    let missing = walk(&root.path().join("missing")).unwrap();
    assert_eq!(missing.problems[0].0, ".");
    assert!(!missing.problems[0].1.contains("os error"));
}

#[test]
fn texts_are_utf_8_or_marked_utf_16() {
    let long = [b"x".repeat(9000), b"\0".to_vec()].concat();
    let root = folder(&[
        ("plain", "Ä\r\nb".as_bytes()),
        ("marked", b"\xef\xbb\xbfa"),
        ("little", b"\xff\xfea\0\x00\xd8b\0c"),
        ("big", b"\xfe\xff\0a"),
        ("latin", b"K\xe4tzchen"),
        ("binary", b"a\0"),
        ("long", &long),
        ("empty", b""),
    ]);
    let read = |name| text(&root.path().join(name));
    assert_eq!(read("plain").unwrap().unwrap(), "Ä\nb");
    assert_eq!(read("marked").unwrap().unwrap(), "a");
    assert_eq!(read("little").unwrap().unwrap(), "a\u{fffd}b\u{fffd}");
    assert_eq!(read("big").unwrap().unwrap(), "a");
    assert_eq!(read("long").unwrap().unwrap().len(), 9001);
    assert_eq!(read("empty").unwrap().unwrap(), "");
    assert!(read("binary").unwrap().is_none());
    assert!(matches!(read("latin"), Err(Unread::Text(Error::InvalidArgument(text))) if text.starts_with("byte 2 is")));
    assert!(matches!(read("missing"), Err(Unread::File(_))));
}

#[test]
fn results_are_in_the_order_of_files_and_few_where_they_are_large() {
    let root = folder(&[("a", b"A cat."), ("b", b"\xff"), ("c", &b"word ".repeat(MOST / 5 + 1))]);
    let cutter = Cutter { limit: 100, count: &|texts| Ok(vec![1; texts.len()]) };
    let paths = ["a", "missing", "b", "c"].map(String::from);
    let found = read(root.path(), &paths, &cutter).unwrap();
    assert_eq!(found[0].passages.as_ref().unwrap()[0].text, "A cat.");
    assert!(matches!(found[1].passages, Err(Unread::File(_))) && matches!(found[2].passages, Err(Unread::Text(_))));
    let sizes: Vec<Option<u64>> = found[..3].iter().map(|own| own.state.map(|(size, _)| size)).collect();
    assert_eq!(sizes, [Some(6), None, Some(1)]);
    let large = vec![String::from("c"); 100];
    assert!((1..=THREADS).contains(&read(root.path(), &large, &cutter).unwrap().len()));
}
