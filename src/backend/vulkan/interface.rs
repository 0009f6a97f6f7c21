//! The interface of a module as plain data, found by reflection in the build script and at run time.

/// How a shader uses a storage buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `readonly`
    Read,
    /// `writeonly`
    Write,
    /// Neither qualifier.
    ReadWrite,
}

/// The scalar type of a push constant or specialization constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// `float`
    F32,
    /// `int`
    I32,
    /// `uint`
    U32,
    /// `bool`
    Bool,
}

#[allow(dead_code)] // the build script names no uses in messages
impl Access {
    /// `"readonly"`, `"writeonly"` or `"readwrite"`.
    pub fn name(self) -> &'static str {
        match self {
            Access::Read => "readonly",
            Access::Write => "writeonly",
            Access::ReadWrite => "readwrite",
        }
    }
}

#[allow(dead_code)] // the build script names no types in messages
impl Scalar {
    /// The type's name in GLSL.
    pub fn glsl(self) -> &'static str {
        match self {
            Scalar::F32 => "float",
            Scalar::I32 => "int",
            Scalar::U32 => "uint",
            Scalar::Bool => "bool",
        }
    }
}

/// The kind of number of which a storage buffer is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Whether it is a floating-point number.
    pub float: bool,
    /// Its size.
    pub bits: u32,
}

/// One storage buffer of set 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding<Name = String> {
    /// The block's instance name, or the name of its only member if the block has none.
    pub name: Name,
    /// Its binding index.
    pub index: u32,
    /// Derived from `readonly` and `writeonly`.
    pub access: Access,
}

/// One member of the push-constant block, 4 bytes; its position in the list determines its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushMember<Name = String> {
    /// As in GLSL.
    pub name: Name,
    /// Its type.
    pub scalar: Scalar,
}

/// One specialization constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant<Name = String> {
    /// As in GLSL; in a `Variant` in lower case.
    pub name: Name,
    /// `constant_id`
    pub id: u32,
    /// Its type.
    pub scalar: Scalar,
    /// Bits of its default.
    pub default: u32,
}

/// What the host needs to dispatch a module.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// By index, from 0 without gaps.
    pub bindings: Vec<Binding>,
    /// By offset, from 0 without gaps.
    pub push: Vec<PushMember>,
    /// By id.
    pub constants: Vec<Constant>,
    /// Workgroup size at the constants' defaults.
    pub local_size: [u32; 3],
    /// Bytes of shared memory at the constants' defaults.
    pub shared_bytes: u32,
}
