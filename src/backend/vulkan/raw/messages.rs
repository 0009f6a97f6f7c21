//! Logs and stores the validation layer's messages, and shows the output of shader prints.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;

use ash::vk;

use super::lock;

static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Enough to diagnose a fault; a message from every dispatch must not exhaust the memory.
const MOST_KEPT: usize = 1000;

/// Validation warnings and errors so far; empty unless `GRILLY_DEBUG` is set and the layer is installed.
pub fn validation_messages() -> Vec<String> {
    lock(&MESSAGES).clone()
}

pub(super) fn create_info() -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    use vk::{DebugUtilsMessageSeverityFlagsEXT as Severity, DebugUtilsMessageTypeFlagsEXT as Type};
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::INFO | Severity::WARNING | Severity::ERROR)
        .message_type(Type::GENERAL | Type::VALIDATION | Type::PERFORMANCE)
        .pfn_user_callback(Some(receive))
}

unsafe extern "system" fn receive(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    types: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _user: *mut c_void,
) -> vk::Bool32 {
    if data.is_null() {
        return vk::FALSE;
    }
    // SAFETY: the layer passes a valid structure for the length of the call; its strings are null or terminated.
    let (id, message) = unsafe { (text((*data).p_message_id_name), text((*data).p_message)) };
    if id.contains("DEBUG-PRINTF") {
        log::info!(target: "grilly", "shader: {}", printed(&message));
        return vk::FALSE;
    }
    if severity == vk::DebugUtilsMessageSeverityFlagsEXT::INFO {
        return vk::FALSE;
    }
    let line = if id.is_empty() { message } else { format!("{id}: {message}") };
    if !types.contains(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION) {
        log::debug!(target: "grilly", "vulkan: {line}");
        return vk::FALSE;
    }
    let error = severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR);
    let level = if error { log::Level::Error } else { log::Level::Warn };
    log::log!(target: "grilly", level, "vulkan validation: {line}");
    let mut kept = lock(&MESSAGES);
    if kept.len() < MOST_KEPT {
        kept.push(line);
    }
    stops()
}

/// Whether the call that a message is about is skipped. Set by tests, so that no driver receives deliberately invalid
/// calls.
#[cfg(test)]
pub static STOPS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[cfg(test)]
fn stops() -> vk::Bool32 {
    vk::Bool32::from(STOPS.load(std::sync::atomic::Ordering::SeqCst))
}

#[cfg(not(test))]
fn stops() -> vk::Bool32 {
    vk::FALSE
}

/// The output of a shader, without the prefix added by the layer: `... | MessageID = 0x92394c89 | text`.
fn printed(message: &str) -> &str {
    let after = |text| message.split_once(text).map(|(_, rest): (_, &str)| rest);
    let rest = after("MessageID = 0x").and_then(|rest| rest.split_once(" | ")).map(|(_, rest)| rest);
    rest.unwrap_or(message).trim_end()
}

/// # Safety
/// `pointer` is null or a terminated string.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::device::open_device;
    use crate::settings::{Settings, test_requires};

    /// Counterpart of every test that expects no messages: a violation is reported.
    #[test]
    fn a_wrong_call_is_reported() {
        let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
        let device = match open_device(None, &settings) {
            Ok((opened, _)) => opened.device.clone(),
            Err(error) if test_requires("vulkan") => panic!("{error}"),
            Err(error) => return println!("skipped: a_wrong_call_is_reported: {error}"),
        };
        if !crate::backend::vulkan::validated() {
            assert!(!test_requires("vulkan"), "the validation layer is not installed");
            return println!("skipped: a_wrong_call_is_reported: no validation layer");
        }
        let empty = vk::BufferCreateInfo::default().size(0).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
        // SAFETY: a size of 0 violates the Vulkan rules on purpose; no memory is bound, and the buffer is never used.
        unsafe {
            if let Ok(buffer) = device.handle.create_buffer(&empty, None) {
                device.handle.destroy_buffer(buffer, None);
            }
        }
        let messages = validation_messages();
        assert!(messages.iter().any(|line| line.contains("VUID-VkBufferCreateInfo-size")), "{messages:?}");
    }

    #[test]
    fn printed_text_is_separated_from_what_the_layer_adds() {
        let message = "Validation Information: [ UNASSIGNED-DEBUG-PRINTF ] Object 0: handle = 0x55, type = \
                       VK_OBJECT_TYPE_DEVICE; | MessageID = 0x92394c89 | x is 3.5 | y is 4";
        assert_eq!(printed(message), "x is 3.5 | y is 4");
        assert_eq!(printed("x is 3.5\n"), "x is 3.5");
    }
}
