//! HybridEncoder: a vector of each text, and a vector and a weight of each of its tokens, from one pass of the encoder.

use std::path::Path;

use super::{Bare, Chosen, Class, USUAL};
use crate::model::heads::{Feature, Head};
use crate::model::spec::NameRules;
use crate::model::weights::Weights;
use crate::ops::PoolMode;
use crate::{Error, Result};

pub(super) static CLASS: Class = Class { name: "HybridEncoder", bare, reads_others: true, prompts: &[], ..USUAL };

/// The files of the products that give the tokens' vectors and their weights.
const FILES: [&str; 2] = ["colbert_linear.pt", "sparse_linear.pt"];

/// The first token's vector, and the products of the folder's files beside its checkpoint.
fn bare(folder: &Bare<'_>) -> Result<Chosen> {
    let folder = folder.path.parent().unwrap_or(Path::new(""));
    if let Some(missing) = FILES.iter().find(|name| !folder.join(name).is_file()) {
        let problem = format!(
            "holds no {missing}, which a model of sparse and multi-vector results has beside its checkpoint: fetch the \
             repository anew with all files, or load the folder with SentenceTransformer for the vectors of texts alone"
        );
        return Err(Error::format(folder, problem));
    }
    let [vectors, weights] = FILES.map(|name| rows(folder, name));
    let (vectors, weights) = (vectors?, weights?);
    if weights != 1 {
        let problem = format!("weight has {weights} rows, expected 1, a weight of each token: fetch the file anew");
        return Err(Error::format(&folder.join(FILES[1]), problem));
    }
    let products = [(FILES[0].to_owned(), vectors), (FILES[1].to_owned(), weights)];
    let pooling = Head::Pooling { modes: vec![PoolMode::Cls], include_prompt: true };
    Ok((None, vec![pooling, Head::Normalize { of: Feature::Sentence }, Head::Products(products.into())]))
}

/// The rows of the matrix in a file.
fn rows(folder: &Path, name: &str) -> Result<usize> {
    let file = Weights::open(folder, name, &[], &NameRules::default())?;
    match file.shape("weight") {
        Some(&[rows, columns]) if rows > 0 && columns > 0 => Ok(rows),
        found => {
            let found = found.map_or("is missing".into(), |shape| format!("has shape {shape:?}"));
            let problem = format!("weight {found}, expected the matrix of a torch.nn.Linear: fetch the file anew");
            Err(Error::format(&folder.join(name), problem))
        }
    }
}
