//! The library's tokenizer with a cache of words that ends with it.
//!
//! The library's own cache of BPE is one for each thread, which keeps the words of every tokenizer that the thread has ever
//! run, 10,000 of each: loading and closing models would take more and more memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{DecoderWrapper, Model, Result, Token, TokenizerImpl};

/// The library's tokenizer.
pub(crate) type Library =
    TokenizerImpl<Words, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// Caches, each of a thread or a few.
const CACHES: usize = 64;
/// Words in one.
const MOST: usize = 10_000;
/// Bytes of a word that is kept.
const LONGEST: usize = 256;

/// Ids of a word's tokens, and their bytes in it.
type Tokens = Box<[(u32, (usize, usize))]>;
type Cache = Mutex<HashMap<String, Tokens>>;

/// A model and the words that it has divided.
pub(crate) struct Words {
    model: ModelWrapper,
    /// None of a model whose own cache ends with it, or that has none.
    caches: Option<Box<[Cache; CACHES]>>,
}

impl From<ModelWrapper> for Words {
    fn from(mut model: ModelWrapper) -> Self {
        let caches = match &mut model {
            // Otherwise it draws which merges it leaves out.
            ModelWrapper::BPE(bpe) if bpe.dropout.is_none_or(|share| share == 0.0) => {
                bpe.resize_cache(0);
                Some(Box::new(std::array::from_fn(|_| Mutex::default())))
            }
            _ => None,
        };
        Words { model, caches }
    }
}

impl Words {
    /// Whether it merges pairs.
    pub fn merges(&self) -> bool {
        matches!(self.model, ModelWrapper::BPE(_))
    }
}

impl Model for Words {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, word: &str) -> Result<Vec<Token>> {
        let Some(caches) = &self.caches else { return self.model.tokenize(word) };
        // Threads of no pool share the first.
        let place = rayon::current_thread_index().map_or(0, |index| 1 + index % (CACHES - 1));
        let mut cache = match caches[place].try_lock() {
            Ok(cache) => cache,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.model.tokenize(word),
        };
        if let Some(known) = cache.get(word) {
            let token = |(id, place): &(u32, (usize, usize))| {
                self.model.id_to_token(*id).map(|text| Token::new(*id, text, *place))
            };
            if let Some(tokens) = known.iter().map(token).collect() {
                return Ok(tokens);
            }
        }
        let tokens = self.model.tokenize(word)?;
        if word.len() < LONGEST && cache.len() < MOST {
            cache.insert(word.to_owned(), tokens.iter().map(|token| (token.id, token.offsets)).collect());
        }
        Ok(tokens)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.model.token_to_id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.model.id_to_token(id)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.model.get_vocab()
    }

    fn get_vocab_size(&self) -> usize {
        self.model.get_vocab_size()
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> Result<Vec<PathBuf>> {
        self.model.save(folder, prefix)
    }

    fn get_trainer(&self) -> TrainerWrapper {
        self.model.get_trainer()
    }
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.model.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        ModelWrapper::deserialize(from).map(Words::from)
    }
}
