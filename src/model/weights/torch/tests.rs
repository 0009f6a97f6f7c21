use std::panic::catch_unwind;

use safetensors::Dtype;

use super::*;

/// A zip archive of stored entries.
fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut rows) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let local = (file.len() as u32).to_le_bytes();
        let sizes = [[0; 4], (content.len() as u32).to_le_bytes(), (content.len() as u32).to_le_bytes()].concat();
        let lengths = [(name.len() as u16).to_le_bytes(), 3u16.to_le_bytes()].concat();
        // Version, flags, method, time, then sizes and lengths; three bytes of padding.
        file.extend([b"PK\x03\x04", &[0; 10][..], &sizes, &lengths, name.as_bytes(), b"FBZ", content].concat());
        let lengths = [(name.len() as u16).to_le_bytes(), [0; 2], [0; 2]].concat();
        rows.extend([b"PK\x01\x02", &[0; 12][..], &sizes, &lengths, &[0; 8], &local, name.as_bytes()].concat());
    }
    let count = (entries.len() as u16).to_le_bytes();
    let place = [(rows.len() as u32).to_le_bytes(), (file.len() as u32).to_le_bytes()].concat();
    [file, rows, [b"PK\x05\x06", &[0; 4][..], &count, &count, &place, &[0; 2]].concat()].concat()
}

/// The same with the numbers of the end record, and of each row, in 64 bits.
fn zip_64(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let narrow = zip(entries);
    let end = narrow.len() - 22;
    let start = u32::from_le_bytes(narrow[end + 16..end + 20].try_into().unwrap()) as usize;
    let mut file = narrow[..start].to_vec();
    let mut row = &narrow[start..end];
    while !row.is_empty() {
        let name = u16::from_le_bytes([row[28], row[29]]) as usize;
        let wide = |at: usize| [&row[at..at + 4], &[0; 4]].concat();
        let field = [&[9, 0, 1, 0, 7, 1, 0, 24, 0][..], &wide(24), &wide(20), &wide(42)].concat();
        let head = [&row[..20], &[0xff; 8], &row[28..30], &(field.len() as u16).to_le_bytes(), &row[32..42]].concat();
        file.extend([&head[..], &[0xff; 4], &row[46..46 + name], &field].concat());
        row = &row[46 + name..];
    }
    let long = |number: usize| (number as u64).to_le_bytes();
    let (count, bytes, after) = (long(entries.len()), long(file.len() - start), file.len());
    file.extend([b"PK\x06\x06", &[0; 28][..], &count, &bytes, &long(start)].concat());
    file.extend([b"PK\x06\x07", &[0; 4][..], &long(after), &[0; 4]].concat());
    file.extend([b"PK\x05\x06", &[0; 4][..], &[0xff; 12], &[0; 2]].concat());
    file
}

fn int(number: i64) -> Vec<u8> {
    [&[0x8a, 8][..], &number.to_le_bytes()].concat()
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn ints(numbers: &[i64]) -> Vec<u8> {
    [b"(".to_vec(), numbers.iter().flat_map(|number| int(*number)).collect(), b"t".to_vec()].concat()
}

/// The storage `key` of `elements` numbers.
fn storage(class: &str, key: &str, elements: i64) -> Vec<u8> {
    let class = format!("ctorch\n{class}\nq\x01").into_bytes();
    [b"(".to_vec(), text("storage"), class, text(key), text("cpu"), int(elements), b"tQ".to_vec()].concat()
}

/// A tensor of a storage, as torch calls for it.
fn tensor(storage: Vec<u8>, first: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let hooks = b"\x89ccollections\nOrderedDict\n)RtR".to_vec();
    [b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec(), storage, int(first), ints(shape), ints(strides), hooks].concat()
}

/// A whole tensor that is all of storage `key`.
fn plain(key: &str, shape: &[i64]) -> Vec<u8> {
    let mut strides: Vec<i64> = vec![1; shape.len()];
    (1..shape.len()).rev().for_each(|axis| strides[axis - 1] = strides[axis] * shape[axis]);
    tensor(storage("FloatStorage", key, shape.iter().product()), 0, shape, &strides)
}

/// The pickle of a state dict, with attributes as torch gives them.
fn pickle(tensors: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs: Vec<u8> = tensors.iter().flat_map(|(name, tensor)| [text(name), tensor.clone()].concat()).collect();
    let attributes = [b"}".to_vec(), text("_metadata"), b"}".to_vec(), b"sb".to_vec()].concat();
    [b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x02(".to_vec(), pairs, b"u".to_vec(), attributes, b".".to_vec()]
        .concat()
}

/// Twelve float32 numbers in storage 0, and this pickle.
fn file(pickle: &[u8]) -> Vec<u8> {
    zip(&[("m/data.pkl", pickle), ("m/byteorder", b"little"), ("m/data/0", &[7; 48]), ("m/version", b"3\n")])
}

fn refusal(pickle: &[u8]) -> String {
    read(&file(pickle)).unwrap_err()
}

fn one(tensor: Vec<u8>) -> Vec<u8> {
    pickle(&[("a", tensor)])
}

#[test]
fn tensors_are_ranges_of_their_storages() {
    let parameter = [b"ctorch._utils\n_rebuild_parameter\n(".to_vec(), plain("0", &[12]), b"\x88}tR".to_vec()].concat();
    let half = tensor(storage("HalfStorage", "1", 3), 1, &[2], &[1]);
    let pickle = pickle(&[
        ("a", plain("0", &[3, 4])),
        ("b", tensor(storage("FloatStorage", "0", 12), 4, &[2, 1, 3], &[3, 99, 1])),
        ("c", parameter),
        ("d", half),
        ("e", tensor(storage("LongStorage", "2", 0), 0, &[0, 5], &[1, 1])),
        ("f", tensor(storage("FloatStorage", "0", 12), 11, &[], &[])),
    ]);
    let entries: [(&str, &[u8]); 4] =
        [("x/data.pkl", &pickle), ("x/data/0", &[7; 48]), ("x/data/1", &[8; 6]), ("x/data/2", &[])];
    for file in [zip(&entries), zip_64(&entries)] {
        let found = read(&file).unwrap();
        let start = file.windows(48).position(|bytes| bytes == [7; 48]).unwrap();
        let half = file.windows(6).position(|bytes| bytes == [8; 6]).unwrap();
        let expected = [
            ("a", Dtype::F32, vec![3, 4], start..start + 48),
            ("b", Dtype::F32, vec![2, 1, 3], start + 16..start + 40),
            ("c", Dtype::F32, vec![12], start..start + 48),
            ("d", Dtype::F16, vec![2], half + 2..half + 6),
            ("e", Dtype::I64, vec![0, 5], found[4].bytes.clone()),
            ("f", Dtype::F32, vec![], start + 44..start + 48),
        ];
        let expected = expected.map(|(name, dtype, shape, bytes)| {
            let name = name.into();
            Stored { name, dtype, shape, bytes, unread: None }
        });
        assert_eq!(found, expected);
        assert!(found[4].bytes.is_empty());
    }
}

#[test]
fn nothing_is_executed() {
    let nested = |call: &[u8]| {
        pickle(&[("a", plain("0", &[12])), ("b", [b"(]".to_vec(), call.to_vec(), b"at".to_vec()].concat())])
    };
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("torch", "load"),
        ("a\u{e9}", "b"),
    ] {
        let call = [format!("c{module}\n{name}\n(").into_bytes(), text("exit 1"), b"tR".to_vec()].concat();
        for pickle in [[b"\x80\x02".to_vec(), call.clone(), b".".to_vec()].concat(), one(call.clone()), nested(&call)] {
            let message = refusal(&pickle);
            let named = format!("names {module}.{name}; this reader executes nothing; {REMEDY}");
            assert!(message.contains(&named), "{message}");
        }
    }
    for (pickle, part) in [
        (&b"\x80\x02ctorch\nFloatStorage\n)R."[..], "calls what is not a function"),
        (b"\x80\x02ccollections\nOrderedDict\n(Nt\x52.", "OrderedDict has other arguments than torch writes"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.", "RebuildTensor has other arguments"),
        (b"\x80\x02ctorch._utils\n_rebuild_parameter\n(NNNtR.", "RebuildParameter has other arguments"),
        (b"\x80\x02)}b.", "sets the state of an object"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "instruction 0x81"),
        (b"\x80\x02(S'os'\nios\nsystem\n.", "instruction 0x53"),
        (b"\x80\x02U\x02os\x93.", "instruction 0x55"),
        (b"\x80\x02(ios\nsystem\n.", "instruction 0x69"),
        (b"\x80\x02P1\n.", "instruction 0x50"),
        (b"\x80\x02\x82\x01.", "instruction 0x82"),
        (b"\x80\x04.", "protocol 4, expected 2"),
        (b"\x80\x02N.", "no dictionary of tensors"),
    ] {
        let message = refusal(pickle);
        assert!(message.contains(part), "{part} not in {message}");
    }
}

#[test]
fn lying_tensors_are_refused() {
    let of = |elements: i64| storage("FloatStorage", "0", elements);
    let huge = i64::MAX;
    for (tensor, part) in [
        (
            tensor(of(12), 1, &[12], &[1]),
            "a: of shape [12] from element 1 on exceeds its storage of 12 elements of F32",
        ),
        (tensor(of(12), 13, &[0], &[1]), "exceeds its storage"),
        (tensor(of(12), huge, &[1], &[1]), "exceeds its storage"),
        (tensor(of(12), -1, &[1], &[1]), "exceeds its storage"),
        (tensor(of(12), 0, &[huge, 1], &[1, 1]), "exceeds its storage"),
        (tensor(of(12), 0, &[huge, huge], &[huge, 1]), "exceeds its storage"),
        (tensor(of(12), 0, &[4, huge, 0], &[1, 1, 1]), "exceeds its storage"),
        (tensor(of(12), 0, &[-3], &[1]), "not up to 8 non-negative integers"),
        (tensor(of(12), 0, &[1; 9], &[1; 9]), "not up to 8 non-negative integers"),
        (tensor(of(12), 0, &[3], &[-1]), "not up to 8 non-negative integers"),
        (tensor(of(12), 0, &[3, 4], &[1]), "has other axes than its strides"),
        (tensor(of(12), 0, &[3, 4], &[1, 3]), "strides [1, 3], expected adjacent elements"),
        (tensor(of(12), 0, &[2, 3], &[0, 1]), "expected adjacent elements"),
        (tensor(of(12), 0, &[2, 3], &[huge, huge]), "expected adjacent elements"),
        (tensor(of(11), 0, &[3], &[1]), "its storage has 48 bytes, not 11 elements of F32"),
        (tensor(of(huge), 0, &[3], &[1]), "its storage has 48 bytes"),
        (tensor(of(-12), 0, &[3], &[1]), "its storage has 48 bytes"),
        (tensor(storage("FloatStorage", "1", 12), 0, &[3], &[1]), "no entry m/data/1"),
        (tensor(storage("FloatStorage", "../version", 12), 0, &[3], &[1]), "no entry m/data/../version"),
        (tensor(storage("QInt8Storage", "0", 12), 0, &[3], &[1]), "names torch.QInt8Storage"),
        (b"K\x03".to_vec(), "a is not a tensor"),
        (b"}".to_vec(), "a is not a tensor"),
        (b"X\x01\0\0\0\xff".to_vec(), "a text is not UTF-8"),
        (b"\x8a\x09\0\0\0\0\0\0\0\0\0".to_vec(), "an integer of 9 bytes"),
        (b"h\x63".to_vec(), "nothing was stored as 99"),
        (b"Na".to_vec(), "added to what is not a list"),
        (b"NNs".to_vec(), "not a dictionary"),
        (b"]}(Nu".to_vec(), "not a dictionary"),
        (b"NQ".to_vec(), "not a storage"),
        (b"NNR".to_vec(), "arguments that are not a tuple"),
        (b"(\x85".to_vec(), "lacks its operands"),
        (b"ttt".to_vec(), "lacks its operands"),
    ] {
        let message = refusal(&one(tensor));
        assert!(message.contains(part), "{part} not in {message}");
    }
    let twice = pickle(&[("a", plain("0", &[12])), ("a", plain("0", &[12]))]);
    assert_eq!(refusal(&twice), "the name a stands there twice");
    assert!(refusal(b"\x80\x02}K\x01Ns.").contains("a tensor has no name"));
}

/// A tensor of bytes of storage 0, with a type and what follows it.
fn typed(dtype: &str, first: i64, shape: &[i64], strides: &[i64], more: &[u8]) -> Vec<u8> {
    let bytes = b"(X\x07\0\0\0storagectorch.storage\nUntypedStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x30tQ".to_vec();
    let hooks = format!("Nccollections\nOrderedDict\n)Rctorch\n{dtype}\n").into_bytes();
    let called = b"ctorch._utils\n_rebuild_tensor_v3\n(".to_vec();
    [called, bytes, int(first), ints(shape), ints(strides), hooks, more.to_vec(), b"tR".to_vec()].concat()
}

#[test]
fn types_without_a_class_of_storages() {
    let pickle = pickle(&[
        ("a", typed("float8_e4m3fn", 3, &[2, 3], &[3, 1], b"")),
        ("b", typed("float8_e5m2fnuz", 0, &[48], &[1], b"")),
        ("c", typed("uint16", 4, &[20], &[1], b"N")),
    ]);
    let file = file(&pickle);
    let found = read(&file).unwrap();
    let start = file.windows(48).position(|bytes| bytes == [7; 48]).unwrap();
    let of = |tensor: &Stored| (tensor.dtype, tensor.bytes.start - start, tensor.bytes.len());
    let expected = [(Dtype::F8_E4M3, 3, 6), (Dtype::F8_E5M2FNUZ, 0, 48), (Dtype::U16, 8, 40)];
    assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected);
    for (tensor, part) in [
        (typed("uint16", 5, &[20], &[1], b""), "exceeds its storage of 48 elements of U8"),
        (typed("float4_e2m1fn_x2", 0, &[20], &[1], b""), "names torch.float4_e2m1fn_x2; this reader"),
    ] {
        let message = refusal(&one(tensor));
        assert!(message.contains(part), "{part} not in {message}");
    }
}

#[test]
fn what_cannot_be_read_is_a_fault_of_its_own_tensor() {
    let marked = |mark: &str| {
        let plain = plain("0", &[12]);
        let (start, marks) = (&plain[..plain.len() - 2], [b"}".to_vec(), text(mark), b"\x88s".to_vec()].concat());
        [start, &marks, b"tR"].concat()
    };
    let parameter = b"ctorch._utils\n_rebuild_parameter_with_state\n(".to_vec();
    let pickle = pickle(&[
        ("epoch", b"K\x03".to_vec()),
        ("neg", marked("neg")),
        ("turned", tensor(storage("FloatStorage", "0", 12), 0, &[3, 4], &[1, 3])),
        ("plain", [parameter, plain("0", &[12]), b"\x88}}tR".to_vec()].concat()),
        ("eight", typed("float8_e5m2", 0, &[2], &[1], &[b"}".to_vec(), text("conj"), b"\x88s".to_vec()].concat())),
    ]);
    let found = read(&file(&pickle)).unwrap();
    let unread: Vec<&str> =
        found.iter().map(|tensor| tensor.unread.as_ref().map_or("", |unread| &unread.reason)).collect();
    let strides = "of shape [3, 4] has strides [1, 3], expected adjacent elements";
    assert_eq!(unread, ["is not a tensor", "has torch's mark \"neg\"", strides, "", "has torch's mark \"conj\""]);
    assert!(found.iter().all(|tensor| tensor.bytes.is_empty() == tensor.unread.is_some()));
}

#[test]
fn broken_archives_are_refused() {
    let good = one(plain("0", &[12]));
    let whole = file(&good);
    assert_eq!(read(&whole).unwrap().len(), 1);
    let wide = zip_64(&[("m/data.pkl", &good), ("m/data/0", &[7; 48])]);
    for whole in [&whole, &wide] {
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length} bytes");
        }
    }
    for length in 0..good.len() {
        assert!(read(&file(&good[..length])).is_err(), "{length} bytes of the pickle");
    }
    let refused = |entries: &[(&str, &[u8])]| read(&zip(entries)).unwrap_err();
    assert!(refused(&[]).contains("not a zip archive as PyTorch 1.6"));
    assert!(refused(&[("m/version", b"3")]).contains("without one data.pkl"));
    assert!(refused(&[("m/data.pkl", &good), ("n/data.pkl", &good)]).contains("without one data.pkl"));
    assert!(refused(&[("m/data.pkl", &good), ("m/data.pkl", &good)]).contains("two zip entries are called m/data.pkl"));
    assert!(refused(&[("m/data.pkl", &good), ("m/byteorder", b"big")]).contains("byte order"));
    assert!(refused(&[("m/data.pkl", &vec![b'N'; LONGEST_PICKLE + 1])]).contains("data.pkl has 4194305 bytes"));
    let row = whole.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    for (at, value, part) in [
        (10, 8, "zip entry m/data.pkl is compressed, method 8"),
        (8, 1, "zip entry m/data.pkl is encrypted"),
        (0, 0, "entry 0 of the zip directory"),
        (42, 1, "truncated or corrupt: zip entry m/data.pkl"),
        (27, 1, "truncated or corrupt: zip entry m/data.pkl"),
        (46, 0xff, "name of zip entry 0"),
    ] {
        let mut damaged = whole.clone();
        damaged[row + at] = value;
        let message = read(&damaged).unwrap_err();
        assert!(message.contains(part), "{part} not in {message}");
    }
    // As torch wrote before 1.6.
    assert!(read(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.").unwrap_err().contains("perhaps an older file"));
    assert!(read(b"version https://git-lfs.github.com/spec/v1\n").unwrap_err().contains("git lfs pull"));
}

#[test]
fn depth_and_cycles_cost_no_recursion() {
    let deep = [b"\x80\x02N".to_vec(), vec![0x85; 1_000_000], b".".to_vec()].concat();
    assert!(refusal(&deep).contains("no dictionary"));
    let itself = [b"\x80\x02}q\x00".to_vec(), text("a"), b"h\x00s.".to_vec()].concat();
    assert!(refusal(&itself).contains("a is not a tensor"));
}

/// Random damage with a fixed seed: never a panic, and what is accepted is inside the file.
#[test]
fn random_damage_never_panics() {
    let pickle = pickle(&[("a", plain("0", &[3, 4])), ("b", tensor(storage("HalfStorage", "1", 3), 1, &[2], &[1]))]);
    let entries: [(&str, &[u8]); 3] = [("x/data.pkl", &pickle), ("x/data/0", &[7; 48]), ("x/data/1", &[8; 6])];
    let mut state = 7u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % limit.max(1)
    };
    for whole in [zip(&entries), zip_64(&entries)] {
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut file = whole.clone();
            for _ in 0..1 + below(3) {
                let place = below(file.len());
                match below(5) {
                    0 => file[place] = 0xff,
                    1 => file[place] = below(256) as u8,
                    2 if below(8) == 0 => file.truncate(place + 1),
                    _ => file[place] ^= 1 << below(8),
                }
            }
            match catch_unwind(|| read(&file)).expect("no panic") {
                Ok(tensors) => {
                    accepted += 1;
                    assert!(tensors.iter().all(|tensor| file.get(tensor.bytes.clone()).is_some()));
                }
                Err(problem) => {
                    refused += 1;
                    assert!(!problem.is_empty());
                }
            }
        }
        assert!(accepted > 1_000 && refused > 1_000, "{accepted} accepted, {refused} refused");
    }
}
