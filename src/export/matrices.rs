//! Cooperative matrices for languages without them: structures of an invocation's eight elements, and functions on these,
//! whose bodies the text of a language gives (`matrix_text.rs`).

use std::collections::HashMap;

use rspirv::dr::{Function, Instruction, Operand};
use rspirv::spirv::{Capability, Op, StorageClass, Word};

use super::rewriter::Rewriter;

/// Elements of a matrix of 16 x 16 that an invocation of a subgroup of 32 has.
const ELEMENTS: u32 = 8;

/// A function of the module that has no body of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    /// Its name in the module.
    pub name: String,
    /// The function of a language's header that it calls, with the type of its result as the template's.
    pub calls: &'static str,
}

/// The matrices of a module, and what was declared for them.
#[derive(Default)]
pub(super) struct Matrices {
    /// Structures by id: the use of a matrix, and the array in them.
    types: HashMap<Word, (&'static str, Word)>,
    /// Constants whose elements are all this scalar, and their types.
    alike: HashMap<Word, (Word, Word)>,
    /// Constants in place of ids in functions.
    numbers: HashMap<Word, Word>,
    /// Types of the ids in functions and of variables.
    pub kinds: HashMap<Word, Word>,
    /// Elements of arrays in shared memory: the array and the index.
    elements: HashMap<Word, (Word, Word)>,
    /// With the types of their results and arguments.
    pub functions: Vec<(Declared, Vec<Word>, Function)>,
}

impl Rewriter {
    /// Replaces matrices by structures, and operations on them by calls of functions, which are returned.
    ///
    /// # Errors
    /// A matrix of another form or an operation that no function covers.
    pub fn expand_matrices(&mut self) -> Result<Vec<Declared>, String> {
        let mut matrices = Matrices::default();
        self.expand_types(&mut matrices)?;
        if matrices.types.is_empty() {
            return Ok(Vec::new());
        }
        self.module.capabilities.retain(|i| i.operands[0] != Operand::Capability(Capability::CooperativeMatrixKHR));
        let khr = Operand::LiteralString("SPV_KHR_cooperative_matrix".into());
        self.module.extensions.retain(|i| i.operands[0] != khr);
        let functions = self.module.functions.iter();
        let inside = functions.flat_map(|f| f.parameters.iter().chain(f.blocks.iter().flat_map(|b| &b.instructions)));
        let all = inside.chain(&self.module.types_global_values);
        matrices.kinds = all.filter_map(|i| Some((i.result_id?, i.result_type?))).collect();
        self.replace(|rewriter, instruction, out| rewriter.expanded(instruction, &mut matrices, out))?;
        let (declared, functions) = matrices.functions.into_iter().map(|(declared, _, own)| (declared, own)).unzip();
        self.module.functions.splice(0..0, Vec::from_iter::<Vec<_>>(functions));
        Ok(declared)
    }

    /// Types and constants of matrices, in place, since the order of declarations counts.
    fn expand_types(&mut self, matrices: &mut Matrices) -> Result<(), String> {
        let declarations = std::mem::take(&mut self.module.types_global_values);
        let mut numbers: HashMap<Word, (Word, u32)> = HashMap::new();
        let mut floats: HashMap<Word, &'static str> = HashMap::new();
        for i in declarations {
            let id = i.result_id.unwrap_or(0);
            match (i.class.opcode, &i.operands[..]) {
                (Op::Constant, [Operand::LiteralBit32(value)]) => {
                    numbers.insert(id, (i.result_type.unwrap_or(0), *value));
                }
                (Op::TypeFloat, [Operand::LiteralBit32(bits), encoding @ ..]) => {
                    let name = match (bits, encoding.is_empty()) {
                        (32, _) => "Float",
                        (_, true) => "Half",
                        (_, false) => "Bfloat",
                    };
                    floats.insert(id, name);
                }
                (Op::TypeCooperativeMatrixKHR, [Operand::IdRef(component), sizes @ ..]) => {
                    let ids = sizes.iter().filter_map(Operand::id_ref_any);
                    let values: Vec<u32> = ids.filter_map(|id| Some(numbers.get(&id)?.1)).collect();
                    let (Some(float), [_, 16, 16, uses @ 0..=2]) = (floats.get(component), &values[..]) else {
                        return Err(format!("it has matrices of {values:?}, not of 16 x 16 floats"));
                    };
                    let of = ["Left", "Right", "Sum"][*uses as usize];
                    let integer = sizes[1].id_ref_any().and_then(|id| numbers.get(&id)).map_or(0, |(kind, _)| *kind);
                    let [count, array] = [self.id(), self.id()];
                    let parts = [
                        Instruction::new(
                            Op::Constant,
                            Some(integer),
                            Some(count),
                            vec![Operand::LiteralBit32(ELEMENTS)],
                        ),
                        Instruction::new(
                            Op::TypeArray,
                            None,
                            Some(array),
                            [*component, count].map(Operand::IdRef).into(),
                        ),
                        Instruction::new(Op::TypeStruct, None, Some(id), vec![Operand::IdRef(array)]),
                    ];
                    self.module.types_global_values.extend(parts);
                    self.name(id, &format!("{float}{of}"));
                    let member = vec![Operand::IdRef(id), Operand::LiteralBit32(0), Operand::LiteralString("e".into())];
                    self.module.debug_names.push(Instruction::new(Op::MemberName, None, None, member));
                    matrices.types.insert(id, (of, array));
                    continue;
                }
                (Op::ConstantComposite, [Operand::IdRef(one)]) if matrices.is(i.result_type) => {
                    matrices.alike.insert(id, (*one, i.result_type.unwrap_or(0)));
                    continue;
                }
                (Op::SpecConstantOp, [Operand::LiteralSpecConstantOpInteger(Op::CooperativeMatrixLengthKHR), ..]) => {
                    let count = vec![Operand::LiteralBit32(ELEMENTS)];
                    self.module.types_global_values.push(Instruction::new(
                        Op::Constant,
                        i.result_type,
                        Some(id),
                        count,
                    ));
                    continue;
                }
                _ => {}
            }
            self.module.types_global_values.push(i);
        }
        Ok(())
    }

    fn expanded(&mut self, mut i: Instruction, m: &mut Matrices, out: &mut Vec<Instruction>) -> Result<(), String> {
        let op = i.class.opcode;
        for place in 0..i.operands.len() {
            let Operand::IdRef(id) = i.operands[place] else { continue };
            if let Some(number) = m.numbers.get(&id) {
                i.operands[place] = Operand::IdRef(*number);
            } else if let Some((scalar, kind)) = m.alike.get(&id).copied() {
                let own = self.id();
                self.call(m, "all", Some((kind, own)), &[scalar], out)?;
                i.operands[place] = Operand::IdRef(own);
            }
        }
        let ids: Vec<Word> = i.operands.iter().filter_map(Operand::id_ref_any).collect();
        let first = ids.first().copied().unwrap_or(0);
        let result = i.result_type.zip(i.result_id);
        let use_of = |id: &Word| m.kinds.get(id).and_then(|kind| m.types.get(kind)).map(|(of, _)| *of);
        match op {
            Op::AccessChain | Op::InBoundsAccessChain => {
                let base = m.kinds.get(&first).and_then(|pointer| self.part(*pointer, 1));
                let mut kind = base.ok_or("a pointer without a type")?;
                if let ([_, index], true) = (&ids[..], self.is_shared(first)) {
                    m.elements.insert(i.result_id.unwrap_or(0), (first, *index));
                }
                for place in 1..i.operands.len() {
                    if m.types.contains_key(&kind) {
                        let zero = self.zero();
                        i.operands.insert(place, Operand::IdRef(zero));
                        break;
                    }
                    kind = self.inner(kind, &i.operands[place]).ok_or("a pointer into an unknown type")?;
                }
            }
            Op::CompositeExtract if use_of(&first).is_some() => i.operands.insert(1, Operand::LiteralBit32(0)),
            // The number of elements, and the same of another type.
            Op::CooperativeMatrixLengthKHR | Op::Bitcast
                if op != Op::Bitcast || m.numbers.values().any(|number| *number == first) =>
            {
                let count = self.constant(i.result_type.unwrap_or(0), ELEMENTS);
                m.numbers.insert(i.result_id.unwrap_or(0), count);
                return Ok(());
            }
            Op::CooperativeMatrixLoadKHR => {
                let (array, index) = m.elements.get(&first).copied().ok_or("a matrix that is not in shared memory")?;
                let of = i.result_type.and_then(|kind| m.types.get(&kind)).map_or("", |(of, _)| *of);
                let name = match (of, self.number(ids[1])) {
                    ("Left", Some(0)) => "load_left_rows",
                    ("Left", Some(1)) => "load_left_columns",
                    ("Right", Some(0)) => "load_right_rows",
                    ("Right", Some(1)) => "load_right_columns",
                    ("Sum", Some(0)) => "load_sum_rows",
                    ("Sum", Some(1)) => "load_sum_columns",
                    _ => return Err("a matrix of an unknown layout".into()),
                };
                return self.call(m, name, result, &[array, index, ids[2]], out);
            }
            Op::CooperativeMatrixStoreKHR => {
                let (array, index) = m.elements.get(&first).copied().ok_or("a matrix that is not in shared memory")?;
                if use_of(&ids[1]) != Some("Sum") || self.number(ids[2]) != Some(0) {
                    return Err("a matrix that is stored otherwise than sums in rows".into());
                }
                return self.call(m, "store_sum_rows", None, &[array, index, ids[3], ids[1]], out);
            }
            Op::CooperativeMatrixMulAddKHR => return self.call(m, "multiply_add", result, &ids[..3], out),
            _ if m.is(i.result_type) => {
                let name = match op {
                    Op::CompositeConstruct => "all",
                    Op::FConvert => "convert",
                    Op::FAdd => "add",
                    Op::FSub => "subtract",
                    Op::FMul => "multiply",
                    Op::FDiv => "divide",
                    Op::MatrixTimesScalar => "scale",
                    Op::Load | Op::CopyObject | Op::Undef | Op::FunctionCall | Op::Phi => {
                        out.push(i);
                        return Ok(());
                    }
                    _ => return Err(format!("{op:?} of matrices")),
                };
                return self.call(m, name, result, &ids, out);
            }
            _ => {}
        }
        out.push(i);
        Ok(())
    }

    /// Whether a variable is in shared memory.
    fn is_shared(&self, id: Word) -> bool {
        let class = self.declared(id).and_then(|variable| variable.operands.first());
        class == Some(&Operand::StorageClass(StorageClass::Workgroup))
    }

    /// The type of a part of a composite.
    fn inner(&self, kind: Word, index: &Operand) -> Option<Word> {
        match self.declared(kind)?.class.opcode {
            Op::TypeStruct => self.part(kind, self.number(index.id_ref_any()?)? as usize),
            _ => self.part(kind, 0),
        }
    }

    /// The value of a constant.
    pub fn number(&self, id: Word) -> Option<u32> {
        match self.declared(id)?.operands[..] {
            [Operand::LiteralBit32(value)] => Some(value),
            _ => None,
        }
    }

    fn zero(&mut self) -> Word {
        let integer = self.declare(Op::TypeInt, None, [32, 1].map(Operand::LiteralBit32).to_vec());
        self.constant(integer, 0)
    }
}

impl Matrices {
    fn is(&self, kind: Option<Word>) -> bool {
        kind.is_some_and(|kind| self.types.contains_key(&kind))
    }
}
