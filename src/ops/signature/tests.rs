//! Operands as data.

mod page;

use serde_json::json;

use super::*;
use crate::dtype::DType;
use crate::ops::{Op, Shape};

#[test]
fn operands_point_at_operands_and_optional_ones_come_last() {
    for (op, _) in Op::examples() {
        let name = op.name();
        let operands = op.operands();
        assert!(!operands.is_empty(), "{name}");
        for (place, operand) in operands.iter().enumerate() {
            assert!(operands[..place].iter().all(|other| other.name != operand.name), "{name}: {}", operand.name);
            let after = &operands[place..];
            let kind = |operand: &Operand| std::mem::discriminant(&operand.presence);
            assert!(operand.presence == Presence::Required || after.iter().all(|o| kind(o) == kind(operand)));
            if let Some(Follows::Whole(other) | Follows::Columns(other)) = operand.shape {
                assert!(op.place_of(other, place).is_some(), "{name}: {} has no {other}", operand.name);
            }
            match operand.role {
                Role::Index { into: other, .. } | Role::Offsets { of: other, .. } | Role::Count { of: other } => {
                    assert!(op.place_of(other, place).is_some(), "{name}: {} has no {other}", operand.name);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn groups_of_operands_repeat() {
    let op = Op::from_attributes("embedding_sum", json!({})).unwrap();
    assert_eq!((op.operand(2).name, op.operand(5).name, op.place_of("table", 4)), ("index", "table", Some(5)));
    let tables = [Shape::fixed(&[7, 2]), Shape::fixed(&[9, 2])];
    let shape_of = |name: &str| op.place_of(name, 2).map(|place| tables[place / 2].clone());
    assert_eq!(op.operand(2).limits(shape_of), Some((0, 9)));
}

#[test]
fn types_and_limits_follow_the_role() {
    let shape = |_: &str| Some(Shape::fixed(&[3, 5]));
    assert_eq!(Operand::column_or_none("targets", "logits").limits(shape), Some((-1, 5)));
    assert_eq!(Operand::offsets("offsets", "x").limits(shape), Some((0, 4)));
    assert_eq!(Operand::permutation("order").limits(shape), Some((0, 15)));
    assert_eq!(Operand::offsets_of_elements("starts", "order").limits(shape), Some((0, 16)));
    assert_eq!(Operand::rows("x").limits(shape), None);
    assert_eq!(Operand::rows("x").narrow().dtype(DType::Bf16), DType::Bf16);
    assert_eq!(Operand::vector("w").dtype(DType::F16), DType::F32);
    let error = Operand::new("keep", Role::Mask).check_type("softmax", DType::I8).unwrap_err().to_string();
    assert_eq!(error, "softmax: keep is int8, expected int32");
    for dtype in [DType::Bf16, DType::I32, DType::U8] {
        assert!(Operand::rows("x").check_type("softmax", dtype).is_err(), "{dtype:?}");
    }
}
