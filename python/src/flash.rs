//! Configurations of flash attention as tuples `(block_q, block_kv, head_dim, half_precision)`.

use pyo3::prelude::*;

use crate::error::PyResult;
use crate::info::listed;
use grilly::Error;
use grilly::backend::vulkan::Capabilities;
use grilly::kernels::flash::{self, FlashAttentionConfig, TunedConfigs};
use grilly::settings::Settings;

type Blocks = (u32, u32, u32, bool);

fn config((block_q, block_kv, head_dim, half_precision): Blocks) -> FlashAttentionConfig {
    FlashAttentionConfig { block_q, block_kv, head_dim, half_precision }
}

fn blocks(config: FlashAttentionConfig) -> Blocks {
    (config.block_q, config.block_kv, config.head_dim, config.half_precision)
}

/// Name and blocks of every tuned row, then of the default.
#[pyfunction]
pub(crate) fn flash_rows() -> Vec<(&'static str, Blocks)> {
    let default = ("default", flash::DEFAULT_CONFIG);
    TunedConfigs::ALL.into_iter().chain([default]).map(|(name, row)| (name, blocks(row))).collect()
}

/// Bytes of shared memory that a configuration requires, and that its compiled shader declares.
#[pyfunction]
pub(crate) fn flash_shared_memory(blocks: Blocks) -> (u64, u32) {
    (flash::required_shared_memory(config(blocks)), flash::reflected_shared_memory(config(blocks)))
}

/// Rejects a configuration that does not fit.
#[pyfunction]
pub(crate) fn flash_validate(blocks: Blocks, limit: u64) -> PyResult<()> {
    Ok(flash::validate_config(config(blocks), limit)?)
}

/// Vendor, architecture and configuration of the device at an index in Vulkan's own order, or of the device of
/// `"vulkan"`; without a usable device those of an unknown device.
#[pyfunction]
pub(crate) fn flash_select(
    py: Python<'_>,
    index: Option<usize>,
    head_dim: u32,
) -> PyResult<(&'static str, &'static str, Blocks)> {
    let (devices, chosen) = listed(py, &Settings::from_env()?)?;
    let mut devices = devices.into_iter();
    let found = match index {
        Some(index) => devices.find(|device| device.index == index),
        None => chosen.ok().and_then(|(place, _)| devices.nth(place)),
    };
    let device = match (found, index) {
        (Some(device), _) => device.capabilities,
        (None, None) => Capabilities::floor(),
        (None, Some(index)) => {
            return Err(Error::IndexOutOfRange(format!("select_config: there is no device {index}")).into());
        }
    };
    let selected = flash::select_config(&device, head_dim)?;
    Ok((flash::vendor(&device), flash::architecture(&device), blocks(selected)))
}
