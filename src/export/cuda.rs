//! CUDA C++, from MSL: the same functions over a small header of vectors, with pointers for the buffers.

use super::architectures::dynamic_memory;
use super::matrix_text::{packed, unrolled};

/// The vectors and functions that MSL has and C++ does not.
const HEADER: &str = include_str!("cuda.h");
/// What a kernel on matrix cores has besides.
const MATRICES: &str = include_str!("cuda-matrix.h");
/// Where the shader's own declarations begin, behind helpers that the header replaces.
const DECLARATIONS: &str = "\nstruct ";
const MAIN: &str = "\nkernel void main0(";

/// A built-in value of MSL and the expression that gives it.
const BUILTINS: [(&str, &str); 9] = [
    ("threadgroup_position_in_grid", "uint3(blockIdx.x, blockIdx.y, blockIdx.z)"),
    ("threadgroups_per_grid", "uint3(gridDim.x, gridDim.y, gridDim.z)"),
    ("thread_position_in_threadgroup", "uint3(threadIdx.x, threadIdx.y, threadIdx.z)"),
    ("thread_index_in_threadgroup", "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"),
    (
        "thread_position_in_grid",
        "uint3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y, blockIdx.z * blockDim.z + \
         threadIdx.z)",
    ),
    ("threads_per_threadgroup", "uint3(blockDim.x, blockDim.y, blockDim.z)"),
    ("thread_index_in_simdgroup", "threadIdx.x % 32u"),
    ("simdgroup_index_in_threadgroup", "threadIdx.x / 32u"),
    ("threads_per_simdgroup", "32u"),
];

/// CUDA C++ with one kernel, `main0`, that takes a pointer per binding, in order, then the parameters by value; `shared` memory
/// of more bytes than may be static is dynamic, and the launch gives it. `blocks`, of a kernel on matrix cores, are those that a
/// multiprocessor is to have registers for.
///
/// # Errors
/// A helper or a built-in value that the header does not have.
pub(super) fn cuda(
    msl: &str,
    bindings: u32,
    invocations: u32,
    blocks: Option<u32>,
    shared: u32,
) -> Result<String, String> {
    let start = msl.find(DECLARATIONS).ok_or("it declares nothing")?;
    let main = msl.find(MAIN).ok_or("it has no kernel")?;
    let declared = &msl[start..main];
    let (signature, body) = msl[main + MAIN.len()..].split_once(")\n{\n").ok_or("its kernel has no body")?;
    for helper in ["ToThreadGroup(", "FromThreadGroup", "ToDevice(", "FromDevice", "spvSubgroup", "simd_"] {
        let known = blocks.is_some() && (helper == "simd_" || helper == "spvSubgroup");
        if !known && (declared.contains(helper) || body.contains(helper)) {
            return Err(format!("it uses {helper}"));
        }
    }
    let mut own = String::new();
    let mut parameters = String::new();
    for argument in signature.split(", ") {
        let (declared, attribute) = argument.split_once(" [[").ok_or("an argument without an attribute")?;
        let attribute = attribute.trim_end_matches("]]");
        let (kind, name) = declared.rsplit_once(' ').ok_or("an argument without a type")?;
        if let Some((_, value)) = BUILTINS.iter().find(|(known, _)| *known == attribute) {
            own += &format!("    {kind} {name} = {value};\n");
            continue;
        }
        let number = attribute.strip_prefix("buffer(").and_then(|rest| rest.trim_end_matches(')').parse::<u32>().ok());
        let number = number.ok_or_else(|| format!("it needs {attribute}"))?;
        let kind = kind.trim_start_matches("const ").trim_start_matches("device ").trim_start_matches("constant ");
        if number == bindings {
            parameters = format!(", const {} own_parameters", kind.trim_end_matches('&'));
            own += &format!("    {kind} {name} = const_cast<{kind}>(own_parameters);\n");
        } else if let Some(kind) = kind.strip_suffix('&') {
            own += &format!("    {kind}& {name} = *({kind}*)binding_{number};\n");
        } else {
            own += &format!("    {kind} {name} = binding_{number};\n");
        }
    }
    let pointers: Vec<String> = (0..bindings).map(|index| format!("void* binding_{index}")).collect();
    let (mut declared, mut body) = (in_cpp(declared), in_cpp(body));
    if blocks.is_some() {
        (declared, body) = (packed(&unrolled(&declared)), unrolled(&body));
    }
    let more = if blocks.is_some() { MATRICES } else { "" };
    let bounds = blocks.filter(|blocks| *blocks > 1).map_or(String::new(), |blocks| format!(", {blocks}"));
    let body = dynamic_memory(shared).map_or_else(|| body.clone(), |bytes| dynamic(&body, bytes));
    let pointers = pointers.join(", ");
    Ok(format!(
        "// Compile with NVRTC or nvcc, without fast math. One block per workgroup.\n{HOST}namespace grilly {{\n{HEADER}{more}\n\
         #define threadgroup_barrier(...) __syncthreads()\n{declared}\n\
         extern \"C\" __global__ void __launch_bounds__({invocations}{bounds}) main0({pointers}{parameters})\n{{\n{own}{body}\
         }}  // namespace grilly\n"
    ))
}

/// The start of an array in shared memory, in CUDA.
const SHARED: &str = "    __shared__ ";

/// A kernel whose arrays in shared memory are members of a struct over one dynamic array of so many bytes, the widest elements
/// first, so that none is moved to a multiple of its size.
fn dynamic(body: &str, bytes: u32) -> String {
    let (arrays, rest): (Vec<&str>, Vec<&str>) = body.lines().partition(|line| line.starts_with(SHARED));
    let mut members: Vec<&str> = arrays.iter().filter_map(|line| line.strip_prefix(SHARED)).collect();
    let width = |member: &str| member.split(' ').next()?.chars().last()?.to_digit(10);
    members.sort_by_key(|member| std::cmp::Reverse(width(member)));
    let name = |member: &str| {
        let declared = member.split_once(['[', ';']).map_or(member, |(declared, _)| declared);
        declared.rsplit(' ').next().unwrap_or(declared).to_owned()
    };
    let names = members.iter().map(|member| name(member)).map(|name| format!("    auto& {name} = arrays.{name};\n"));
    format!(
        "    struct Arrays\n    {{\n{}    }};\n    static_assert(sizeof(Arrays) <= {bytes}, \"bytes that the launch \
         gives\");\n    extern __shared__ uint4 dynamic_memory[];\n    Arrays& arrays = *(Arrays*)dynamic_memory;\n{}{}\n",
        members.iter().map(|member| format!("        {member}\n")).collect::<String>(),
        names.collect::<String>(),
        rest.join("\n")
    )
}

/// What another compiler than CUDA's includes.
const HOST: &str = "#ifndef __CUDACC__\n#include <cmath>\n#include <cstring>\n#endif\n";

/// What CUDA writes otherwise; of the kernel's own arrays first, then of arguments, where address spaces mean nothing.
const WORDS: [(&str, &str); 10] = [
    ("static inline __attribute__((always_inline))", "FUNCTION"),
    ("precise::", ""),
    ("\n    threadgroup ", "\n    __shared__ "),
    ("\nconstant ", "\nCONSTANT "),
    ("(thread ", "("),
    (" thread ", " "),
    ("device ", ""),
    ("constant ", ""),
    ("threadgroup ", ""),
    // MSL has lost the hints of GLSL, and an array whose index is a counter is in registers only where the loop is unrolled.
    ("for (uint unrolled_", "_Pragma(\"unroll\") for (uint unrolled_"),
];

/// Functions for the device, arrays in shared memory, numbers of 32 bits, and methods in place of several components.
fn in_cpp(text: &str) -> String {
    let text = WORDS.iter().fold(format!("\n{text}"), |text, (msl, cuda)| text.replace(msl, cuda));
    let mut out = String::with_capacity(text.len() + 1024);
    let mut parts = text.split('.');
    out += parts.next().unwrap_or_default();
    for part in parts {
        let number = out.ends_with(|c: char| c.is_ascii_digit()) && part.starts_with(|c: char| c.is_ascii_digit());
        let in_number = |(at, c): &(usize, char)| {
            c.is_ascii_alphanumeric() || (number && "+-".contains(*c) && part[..*at].ends_with('e'))
        };
        let name: String = part.char_indices().take_while(in_number).map(|(_, c)| c).collect();
        out.push('.');
        out += &name;
        if number {
            // MSL has no double.
            out.push('f');
        } else if name.len() > 1 && name.chars().all(|c| "xyzw".contains(c)) {
            out += "()";
        }
        out += &part[name.len()..];
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn large_arrays_are_dynamic() {
        let body =
            "    uint a = 0;\n    __shared__ uint4 keys[8192];\n    __shared__ uint tainted;\n    keys[0] = x;\n}\n";
        let text = super::dynamic(body, 131_088);
        let arrays = "    struct Arrays\n    {\n        uint4 keys[8192];\n        uint tainted;\n    };\n";
        assert!(text.starts_with(arrays), "{text}");
        for part in [
            "static_assert(sizeof(Arrays) <= 131088,",
            "    extern __shared__ uint4 dynamic_memory[];\n",
            "    auto& keys = arrays.keys;\n    auto& tainted = arrays.tainted;\n    uint a = 0;\n    keys[0] = x;\n}\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(text.matches("__shared__").count(), 1);
    }
}
