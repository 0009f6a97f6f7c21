//! Bytes written out by hand, and every value there and back.

use super::*;

/// Ternary values that repeat with no period of a format's.
fn values(levels: Levels, count: usize) -> Vec<i8> {
    let value = |i: usize| match levels {
        Levels::Binary => 2 * (i * i / 3 % 2) as i8 - 1,
        _ => (i * i / 5 % 3) as i8 - 1,
    };
    (0..count).map(value).collect()
}

#[test]
fn bytes_are_those_that_are_drawn() {
    assert_eq!(Format::Binary.pack(2, 9, &[[1; 9], [-1; 9]].concat()).unwrap(), [0xff, 1, 0, 0]);
    assert_eq!(Format::Ternary.pack(2, 3, &[1, 0, -1, 0, 0, 1]).unwrap(), [0b00_01_10, 0b10_01_01]);
    // Rows 0, 2, 4 and 6 of eight share bytes 0 to 1, in this order from the lowest bits.
    let rows: Vec<i8> = [[-1, 1], [0, 0], [0, 1], [0, 0], [1, 1], [0, 0], [-1, 0], [0, 0]].concat();
    let half = 0b01_01_01_01;
    assert_eq!(Format::HuggingFace.pack(8, 2, &rows).unwrap(), [0b00_10_01_00, 0b01_10_10_10, half, half]);
    let mut block = [0; 128];
    (block[0], block[32], block[64], block[96], block[31]) = (1, -1, 0, 1, -1);
    let bytes = Format::I2S.pack(1, 128, &block).unwrap();
    assert_eq!((bytes.len(), bytes[0], bytes[1], bytes[31]), (64, 0b10_00_01_10, half, 0b00_01_01_01));
    assert_eq!(bytes[32..], [0; 32]);
}

#[test]
fn every_value_returns_and_conversions_lose_nothing() {
    for (format, name) in Format::ALL {
        for (rows, columns) in [(4, 128), (12, 384), (8, 256)] {
            let own = values(format.levels(), rows * columns);
            let bytes = format.pack(rows, columns, &own).unwrap();
            assert_eq!(format.unpack(rows, columns, &bytes).unwrap(), own, "{name} [{rows}, {columns}]");
            for (other, _) in Format::ALL.iter().filter(|(other, _)| other.levels() == format.levels()) {
                let through = other.pack(rows, columns, &own).unwrap();
                let back = format.pack(rows, columns, &other.unpack(rows, columns, &through).unwrap()).unwrap();
                assert_eq!(back, bytes, "{name} through {}", other.name());
            }
        }
    }
    for (format, rows, columns) in [(Format::Binary, 3, 13), (Format::Ternary, 5, 7), (Format::HuggingFace, 4, 1)] {
        let own = values(format.levels(), rows * columns);
        let bytes = format.pack(rows, columns, &own).unwrap();
        assert_eq!(format.unpack(rows, columns, &bytes).unwrap(), own);
    }
    for (format, _) in Format::ALL {
        assert_eq!(format.unpack(0, 128, &format.pack(0, 128, &[]).unwrap()).unwrap(), [0i8; 0]);
    }
}

#[test]
fn what_is_not_of_the_format_is_refused() {
    let refused = |found: Result<Vec<u8>>, expected: &str| {
        let error = found.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.to_string().contains(expected), "{error}");
    };
    refused(Format::HuggingFace.pack(6, 2, &[0; 12]), "huggingface: 6 rows, expected a multiple of 4");
    refused(Format::I2S.pack(4, 100, &[0; 400]), "i2_s: 100 columns, expected a multiple of 128");
    refused(Format::Ternary.pack(2, 3, &[0; 5]), "ternary: 5 values, expected [2, 3]");
    refused(Format::Ternary.pack(2, 3, &[0, 0, 0, 0, 2, 0]), "value 2 at [1, 1], expected -1, 0 or 1");
    refused(Format::Binary.pack(1, 1, &[0]), "value 0 at [0, 0], expected -1 or 1");
    refused(Format::Ternary.pack(usize::MAX, 2, &[]), "more values than memory");
    for (format, rows, columns, bytes) in
        [(Format::Ternary, 2, 4, vec![0x55; 3]), (Format::I2S, 1, 128, vec![0x55; 32]), (Format::Binary, 1, 9, vec![0])]
    {
        let error = format.unpack(rows, columns, &bytes).unwrap_err().to_string();
        assert!(error.contains(&format!("{} bytes, expected", bytes.len())), "{error}");
    }
    let error = Format::Ternary.unpack(1, 6, &[0x55, 0b11_00]).unwrap_err().to_string();
    assert_eq!(error, "ternary: code 3 at [0, 5], which no value has");
    // Bits after the last column of a row belong to no value.
    assert_eq!(Format::Ternary.unpack(1, 5, &[0x55, 0b11_11_11_01]).unwrap(), [0; 5]);
}

#[test]
fn scales_are_finite_and_say_what_they_do() {
    let mut bytes = Format::I2S.pack(2, 128, &[1; 256]).unwrap();
    for wrong in [f32::NAN, f32::INFINITY] {
        assert!(Format::I2S.set_scale(2, 128, &mut bytes, wrong).is_err());
        bytes[64..68].copy_from_slice(&wrong.to_le_bytes());
        assert!(Format::I2S.scale(2, 128, &bytes).unwrap_err().to_string().contains("finite"), "{wrong}");
    }
    assert!(Format::Ternary.set_scale(2, 128, &mut [0; 64], 1.0).is_err());
    assert_eq!(Format::Ternary.scale(2, 128, &[0; 64]).unwrap(), None);
    let three = WeightScale::Divides(3.0);
    assert_eq!((three.divisor().unwrap(), three.factor().unwrap()), (3.0, 1.0 / 3.0));
    for wrong in [0.0, -1.0, f32::INFINITY, 1e-40] {
        assert!(WeightScale::Multiplies(wrong).divisor().is_err(), "{wrong}");
    }
}
