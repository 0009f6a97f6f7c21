//! The Rust structs from which push blocks and constants are made: of those that many shaders have, the members come from
//! the include that declares them; of those that a few kernels name in their manifests, from the kernels.

use std::collections::BTreeMap;

use super::emit::{Kernel, constants, rust};
use super::interface::Scalar;

/// A Rust struct whose fields fill the members that an include declares in many blocks.
pub struct Source {
    /// Path in `backend::vulkan::kernels`.
    path: &'static str,
    /// Their names.
    members: Vec<String>,
}

/// The structs by their include: of push blocks that begin with its macro, which is a list of members, or of the
/// constants that it declares. A block is made from the first of which it has all members.
const SOURCES: [(&str, &str, &str); 3] = [
    ("elementwise::Elements", "elements.glsl", "ELEMENT_MEMBERS"),
    ("rows::Rows", "counts.glsl", "ROW_MEMBERS"),
    ("rows::Held", "rows/held-rows.glsl", ""),
];

/// [`SOURCES`] with the members that the includes declare, whose path and text stand by name.
pub fn sources(includes: &BTreeMap<String, (String, String)>) -> Result<Vec<Source>, String> {
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Lists are read before those that contain them.
    for (_, include, _) in SOURCES.iter().rev() {
        let (_, text) = includes.get(*include).ok_or(format!("nothing is included as {include}"))?;
        declared(text, &mut listed);
    }
    let source = |(path, include, list): &(&'static str, &str, &str)| {
        let members = listed.get(*list).filter(|members| !members.is_empty());
        members.map(|members| Source { path, members: members.clone() }).ok_or(format!("{include} declares no {list}"))
    };
    SOURCES.iter().map(source).collect()
}

/// Adds the lists of members that a text defines as macros, and as that without a name its specialization constants.
fn declared(text: &str, lists: &mut BTreeMap<String, Vec<String>>) {
    let words = |text: &str| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    for line in text.replace("\\\n", " ").lines() {
        if let Some(macro_text) = line.strip_prefix("#define ").filter(|rest| rest.contains("_MEMBERS ")) {
            let (name, body) = macro_text.split_once(' ').expect("a space");
            let each = words(body).into_iter().filter(|word| !["uint", "int", "float", "bool"].contains(&&**word));
            let members = each.flat_map(|word| lists.get(&word).cloned().unwrap_or_else(|| vec![word])).collect();
            lists.insert(name.into(), members);
        }
        // `layout(constant_id = 0) const uint LANES = 32;` and `ALIGNED_ROWS(VECTOR, 3);`
        let place = if line.starts_with("layout(constant_id") { 5 } else { 1 };
        if line.starts_with("layout(constant_id") || line.starts_with("ALIGNED_ROWS(") {
            lists.entry(String::new()).or_default().extend(words(line).get(place).map(|name| name.to_lowercase()));
        }
    }
}

/// A struct that several kernels name in their manifests: its members, and their types.
pub type Shared<'a> = BTreeMap<&'a str, BTreeMap<String, Scalar>>;

/// The shared structs, with the members of the blocks of all kernels that name them.
pub fn shared(kernels: &[Kernel]) -> Result<Shared<'_>, String> {
    let mut found = Shared::new();
    for kernel in kernels {
        let push =
            kernel.variants[0].interface.push.iter().map(|member| (member.name.clone(), member.scalar)).collect();
        let constants = constants(kernel)?.into_iter().map(|constant| (constant.name, constant.scalar)).collect();
        for (name, members) in [(&kernel.made_of.push, push), (&kernel.made_of.constants, constants)] {
            let (Some(name), members): (_, Vec<(String, Scalar)>) = (name, members) else { continue };
            for (member, scalar) in members {
                let known = *found.entry(name).or_default().entry(member.clone()).or_insert(scalar);
                if known != scalar {
                    return Err(format!("{}: error: {member} of {name} is of two types", kernel.file.display()));
                }
            }
        }
    }
    Ok(found)
}

/// The text of a shared struct.
pub fn shared_struct((name, members): (&&str, &BTreeMap<String, Scalar>)) -> String {
    let field = |(name, scalar): (&String, &Scalar)| {
        format!("/// `{name}` of the shaders.\npub {name}: {},\n", rust(*scalar, 0, name).0)
    };
    let fields: String = members.iter().map(field).collect();
    format!(
        "/// The members of the blocks of all kernels that are made of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct {name} {{ {fields} }}\n"
    )
}

/// The conversion to a block: from the struct that the manifest names, or from the first source that matches.
pub fn conversion(sources: &[Source], made_of: &Option<String>, block: &str, names: &[&String]) -> String {
    let has = |source: &&Source| source.members.iter().all(|member| names.contains(&member));
    let (path, given) = match (made_of, sources.iter().find(has)) {
        (Some(name), _) if !names.is_empty() => (format!("super::{name}"), names.to_vec()),
        (None, Some(source)) => {
            (format!("crate::backend::vulkan::kernels::{}", source.path), source.members.iter().collect())
        }
        _ => return String::new(),
    };
    let fields = given.iter().map(|name| format!("{name}: from.{name}")).collect::<Vec<_>>().join(", ");
    let rest = if given.len() < names.len() { ", ..Self::default()" } else { "" };
    format!("impl From<{path}> for {block} {{ fn from(from: {path}) -> Self {{ {block} {{ {fields}{rest} }} }} }}")
}
