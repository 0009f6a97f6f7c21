//! Shared memory against the compiled shaders, and the choice for devices as drivers report them.

use super::*;

#[test]
fn what_a_configuration_needs_is_what_its_shader_declares() {
    for half_precision in [true, false] {
        for block_q in [16, 32, 64, 128] {
            for block_kv in [16, 32, 64, 128, 256] {
                for head_dim in [16, 32, 64, 96, 128, 256] {
                    let config = config(block_q, block_kv, head_dim, half_precision);
                    assert_eq!(required_shared_memory(config), u64::from(reflected_shared_memory(config)), "{config}");
                }
            }
        }
    }
    for (name, config) in TunedConfigs::ALL.into_iter().chain([("default", DEFAULT_CONFIG)]) {
        assert_eq!(required_shared_memory(config), u64::from(reflected_shared_memory(config)), "{name}");
    }
}

#[test]
fn matrix_cores_need_the_arrays_of_their_layout() {
    let mut device = Capabilities { features: vec![Feature::MatrixF16], ..Capabilities::floor() };
    let need = |device: &Capabilities| {
        [TunedConfigs::AMPERE, TunedConfigs::HOPPER, TunedConfigs::RDNA3].map(|row| matrix_shared_memory(row, device))
    };
    assert_eq!(need(&device), [104_960, 272_896, 36_096]);
    device.features.push(Feature::MatrixRowsInLanes);
    // Scores stay in registers; a word marks a block with NaN.
    assert_eq!(need(&device), [36_868, 139_268, 18_436]);
}

#[test]
fn the_nearest_has_half_the_keys_and_then_half_the_queries() {
    let of = |limit| nearest_config(TunedConfigs::HOPPER, limit);
    assert_eq!(of(128 << 10), Some(TunedConfigs::HOPPER));
    assert_eq!(of(99 << 10), Some(config(128, 128, 128, true)));
    assert_eq!(of(48 << 10), Some(config(128, 64, 128, true)));
    assert_eq!(of(8 << 10), Some(config(128, 16, 128, true)));
    assert_eq!(nearest_config(config(48, 48, 64, true), 10 << 10), Some(config(48, 32, 64, true)));
    assert_eq!((of(7 << 10), nearest_config(DEFAULT_CONFIG, 4 << 10)), (None, None));
    assert_eq!(nearest_config(DEFAULT_CONFIG, 20 << 10), Some(config(64, 32, 64, false)));
    assert_eq!(nearest_config(DEFAULT_CONFIG, 12 << 10), Some(config(32, 16, 64, false)));
    for (name, config) in TunedConfigs::ALL {
        for limit in [32 << 10, 48 << 10, 64 << 10, 227 << 10] {
            let nearest = nearest_config(config, limit).unwrap();
            assert!(validate_config(nearest, limit).is_ok(), "{name} in {limit}");
            assert_eq!(validate_config(config, limit).is_ok(), nearest == config, "{name} in {limit}");
        }
    }
    let error = validate_config(TunedConfigs::HOPPER, 48 << 10).unwrap_err();
    assert!(matches!(&error, Error::SharedMemory { limit: 49_152, nearest: Some([128, 64]), .. }), "{error}");
    for wrong in [
        config(0, 64, 64, false),
        config(48, 64, 64, false),
        config(16, 512, 64, false),
        config(64, 24, 64, true),
        config(64, 64, 40, true),
    ] {
        assert!(matches!(validate_config(wrong, 1 << 20), Err(Error::InvalidArgument(_))), "{wrong}");
    }
}

/// Devices as reported by drivers: name, vendor, subgroup size, shared memory, matrix cores; and the expected row.
///
/// The H200's values are from benchmarks/results/gpu-float16-minilm-nvidia-h200-2026-11-22.json, llvmpipe's from
/// the device on which the tests run. The others are lines printed by ggml's Vulkan backend, in the
/// ggml-org/llama.cpp threads with the given numbers; matrix cores where it found KHR_coopmat or NV_coopmat2;
/// vendors by the PCI registry. Not recorded: A100, H100.
#[rustfmt::skip]
const RECORDED: [(&str, u32, u32, u32, bool, &str); 14] = [
    ("NVIDIA H200", 0x10de, 32, 49_152, true, "hopper"),
    ("NVIDIA GeForce RTX 4070", 0x10de, 32, 49_152, true, "hopper"), // 14903
    ("NVIDIA GeForce RTX 3070", 0x10de, 32, 49_152, true, "ampere"), // 12833
    ("NVIDIA GeForce RTX 3090", 0x10de, 32, 49_152, true, "ampere"), // 11595
    ("NVIDIA GeForce RTX 5090", 0x10de, 32, 49_152, true, "blackwell"), // 15427
    ("AMD Radeon RX 7900 XTX (RADV NAVI31)", 0x1002, 64, 65_536, true, "rdna3"), // 27952
    ("Radeon 8060S Graphics (RADV GFX1151)", 0x1002, 64, 65_536, true, "rdna3"), // 18749
    ("AMD Radeon RX 9070 XT", 0x1002, 64, 32_768, true, "rdna4"), // 13326, AMD's own driver
    ("AMD Radeon (TM) Pro VII (RADV VEGA20)", 0x1002, 64, 65_536, false, "fallback"), // 12015
    ("Intel(R) Arc(tm) A770 Graphics (DG2)", 0x8086, 32, 65_536, false, "intel_xe"), // 11595, Mesa
    ("Intel(R) Arc(TM) A770 Graphics", 0x8086, 32, 32_768, false, "intel_xe"), // 14001, Intel's own driver
    ("Intel(R) Graphics (LNL)", 0x8086, 32, 131_072, false, "intel_xe"), // 14001
    ("Apple M4 Max", 0x106b, 32, 32_768, false, "apple"), // 14316
    ("llvmpipe (LLVM 15.0.6, 256 bits)", 0x10005, 8, 32_768, false, "fallback"),
];

#[test]
fn recorded_devices_take_their_row_or_the_nearest_that_fits() {
    for (name, vendor, subgroup_size, shared_memory, matrices, row) in RECORDED {
        let mut device =
            Capabilities { name: name.into(), vendor, subgroup_size, shared_memory, ..Capabilities::floor() };
        if matrices {
            device.features.push(Feature::MatrixF16);
        }
        assert_eq!(architecture(&device), row, "{name}");
        for head_dim in [32, 64, 80, 128, 256] {
            let found = select_config(&device, head_dim).unwrap();
            assert!(validate_config(found, shared_memory.into()).is_ok(), "{name}: {found}");
            assert_eq!((found.head_dim, found.half_precision), (head_dim, matrices && head_dim <= 128), "{name}");
            if found.half_precision {
                assert!(found.block_q <= 16 * (128 / subgroup_size), "{name}: {found}");
                assert!(matrix_shared_memory(found, &device) <= shared_memory.into(), "{name}: {found}");
            }
            let Selection { row, config, reason } = select(&device, head_dim).unwrap();
            assert_eq!(config, found);
            let differs = FlashAttentionConfig { head_dim, ..tuned(row).unwrap() } != found;
            assert_eq!(!reason.is_empty(), differs, "{name}: {reason}");
            assert!(!differs || reason.contains(name), "{name}: {reason}");
        }
    }
    let unknown = select_config(&Capabilities::floor(), 64).unwrap();
    assert_eq!(unknown, TunedConfigs::FALLBACK);
    assert!(select_config(&Capabilities::floor(), 0).is_err());
}
