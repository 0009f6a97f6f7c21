//! What integers of few bits stand for: their values, and what shares a scale.

use super::{Dim, Shape};
use crate::Error;
use crate::dtype::DType;

/// The values of an integer, and how a matrix of such is stored; formats are drawn in [`crate::quant::format`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Levels {
    /// -128 to 127, int8.
    #[default]
    Int8 = 0,
    /// -1, 0 or 1; four per byte of uint8, each row in whole bytes.
    Ternary = 1,
    /// -1 or 1; eight per byte of uint8, each row in whole bytes.
    Binary = 2,
}

impl std::str::FromStr for Levels {
    type Err = Error;

    /// `int8`, `ternary` or `binary`.
    fn from_str(name: &str) -> Result<Self, Error> {
        serde_json::from_value(name.into()).map_err(|_| {
            Error::InvalidArgument(format!("levels is {name:?}, expected \"int8\", \"ternary\" or \"binary\""))
        })
    }
}

impl Levels {
    /// Values per byte.
    pub fn per_byte(self) -> usize {
        match self {
            Levels::Int8 => 1,
            Levels::Ternary => 4,
            Levels::Binary => 8,
        }
    }

    /// Bytes of a row of so many values.
    pub fn bytes(self, columns: usize) -> usize {
        columns.div_ceil(self.per_byte())
    }

    /// The element type of the stored matrix.
    pub fn dtype(self) -> DType {
        if self == Levels::Int8 { DType::I8 } else { DType::U8 }
    }

    /// The values of a stored row, as many as fit.
    pub fn unpack(self, row: &[u8], values: &mut [i8]) {
        match self {
            Levels::Int8 => values.copy_from_slice(&bytemuck::cast_slice(row)[..values.len()]),
            Levels::Ternary => spread(&const { values_of_bytes::<4>(Levels::Ternary) }, row, values),
            Levels::Binary => spread(&const { values_of_bytes::<8>(Levels::Binary) }, row, values),
        }
    }

    /// Value `column` of a stored row. Code 3 of two bits, which no quantiser writes, is 2.
    #[inline(always)]
    pub const fn value(self, row: &[u8], column: usize) -> i8 {
        match self {
            Levels::Int8 => row[column] as i8,
            Levels::Ternary => (row[column / 4] >> (2 * (column % 4)) & 3) as i8 - 1,
            Levels::Binary => 2 * (row[column / 8] >> (column % 8) & 1) as i8 - 1,
        }
    }
}

/// The values of every byte.
const fn values_of_bytes<const EACH: usize>(levels: Levels) -> [[i8; EACH]; 256] {
    let mut values = [[0; EACH]; 256];
    let mut place = 0;
    while place < 256 * EACH {
        values[place / EACH][place % EACH] = levels.value(&[(place / EACH) as u8], place % EACH);
        place += 1;
    }
    values
}

fn spread<const EACH: usize>(table: &[[i8; EACH]; 256], row: &[u8], values: &mut [i8]) {
    let (whole, rest) = values.as_chunks_mut::<EACH>();
    for (values, byte) in whole.iter_mut().zip(row) {
        *values = table[usize::from(*byte)];
    }
    if let Some(byte) = row.get(whole.len()) {
        rest.copy_from_slice(&table[usize::from(*byte)][..rest.len()]);
    }
}

/// What shares a scale: `"row"`, `"tensor"`, or the number of neighbours in a row, of which the last group may have fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(try_from = "Named")]
pub enum Scope {
    /// A row; the scales have the shape of the tensor without its last axis.
    #[default]
    Row,
    /// All elements; one scale, `[1]`.
    Tensor,
    /// Neighbours in a row, as many as this; the scales' last axis counts the groups of a row.
    Group(usize),
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Named {
    Group(usize),
    Name(String),
}

impl TryFrom<Named> for Scope {
    type Error = String;

    fn try_from(named: Named) -> Result<Self, String> {
        match named {
            Named::Group(group) if group > 0 => Ok(Scope::Group(group)),
            Named::Name(name) if name == "row" => Ok(Scope::Row),
            Named::Name(name) if name == "tensor" => Ok(Scope::Tensor),
            Named::Group(group) => Err(wrong(&group.to_string())),
            Named::Name(name) => Err(wrong(&format!("{name:?}"))),
        }
    }
}

fn wrong(found: &str) -> String {
    format!("scope is {found}, expected \"row\", \"tensor\" or the size of a group, at least 1")
}

impl Scope {
    /// The shape of the scales of rows of this shape, each of `columns` values.
    pub fn scales(self, rows: &Shape, columns: usize) -> Shape {
        let leading = rows.0.split_last().map_or(&[][..], |(_, leading)| leading);
        match self {
            Scope::Row => Shape(leading.to_vec()),
            Scope::Tensor => Shape::fixed(&[1]),
            Scope::Group(group) => Shape([leading, &[Dim::Fixed(columns.div_ceil(group))]].concat()),
        }
    }

    /// Where the scale of an element is.
    pub fn places(self, columns: usize) -> Places {
        match self {
            Scope::Row => Places { group: columns.max(1), per_row: 1 },
            Scope::Tensor => Places { group: columns.max(1), per_row: 0 },
            Scope::Group(group) => Places { group, per_row: columns.div_ceil(group) },
        }
    }
}

/// The place of the scale of `[row, column]` is `row per_row + column / group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Columns of a group.
    pub group: usize,
    /// Scales of a row; 0 where all rows share one.
    pub per_row: usize,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_unpacked_as_they_are_read() {
        let row: Vec<u8> = (0..=255).collect();
        for levels in [Levels::Int8, Levels::Ternary, Levels::Binary] {
            for columns in [0, 1, 7, 8, 9, 255] {
                let mut values = vec![0; columns];
                levels.unpack(&row, &mut values);
                assert!(values.iter().enumerate().all(|(column, value)| *value == levels.value(&row, column)));
            }
        }
    }

    #[test]
    fn a_scope_has_a_name_or_a_size() {
        let parsed = |value| serde_json::from_value::<Scope>(value);
        assert_eq!(parsed(json!("row")).unwrap(), Scope::Row);
        assert_eq!(parsed(json!("tensor")).unwrap(), Scope::Tensor);
        assert_eq!(parsed(json!(64)).unwrap(), Scope::Group(64));
        for wrong in [json!(0), json!("group")] {
            assert!(parsed(wrong).unwrap_err().to_string().contains("or the size of a group"));
        }
        let rows = Shape::fixed(&[2, 3, 10]);
        let axes = [Scope::Row, Scope::Tensor, Scope::Group(4)].map(|scope| scope.scales(&rows, 10));
        assert_eq!(axes, [Shape::fixed(&[2, 3]), Shape::fixed(&[1]), Shape::fixed(&[2, 3, 3])]);
    }
}
