//! `VK_KHR_shader_bfloat16`, which the bindings do not have yet.

use std::ffi::{CStr, c_void};

use ash::vk;

/// The extension.
pub(super) const BFLOAT16: &CStr = c"VK_KHR_shader_bfloat16";

/// `VK_COMPONENT_TYPE_BFLOAT16_KHR`
pub(super) const BFLOAT16_COMPONENT: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_141_000);

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`
#[repr(C)]
pub(super) struct Bfloat16Features {
    pub(super) s_type: vk::StructureType,
    pub(super) next: *mut c_void,
    /// bfloat16 numbers.
    pub(super) numbers: vk::Bool32,
    /// Their dot products.
    pub(super) dot_products: vk::Bool32,
    /// Their matrices.
    pub(super) matrices: vk::Bool32,
}

impl Default for Bfloat16Features {
    fn default() -> Self {
        Bfloat16Features {
            s_type: vk::StructureType::from_raw(1_000_141_000),
            next: std::ptr::null_mut(),
            numbers: vk::FALSE,
            dot_products: vk::FALSE,
            matrices: vk::FALSE,
        }
    }
}

// SAFETY: the structure begins with its type and a pointer to the next one, and extends both by its extension.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Bfloat16Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsDeviceCreateInfo for Bfloat16Features {}
