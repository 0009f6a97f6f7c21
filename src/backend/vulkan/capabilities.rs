//! What a Vulkan device supports, as plain numbers: the only input to the choice between shader variants.

/// The kind of hardware of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceType {
    /// A discrete graphics card.
    Discrete,
    /// A GPU integrated into the processor.
    Integrated,
    /// A virtual GPU provided by a hypervisor.
    Virtual,
    /// Any other kind.
    #[default]
    Other,
    /// A software rasteriser.
    Software,
}

macro_rules! features {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// An optional feature that a shader variant may need; the names are those in the shaders.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Feature { $($(#[$doc])* $variant,)* }

        impl Feature {
            /// Every feature.
            pub const ALL: &'static [Feature] = &[$(Feature::$variant),*];

            /// The name used in shaders and messages.
            pub fn name(self) -> &'static str { match self { $(Feature::$variant => $name,)* } }

            /// The feature of this name.
            pub fn named(name: &str) -> Option<Feature> { Self::ALL.iter().copied().find(|f| f.name() == name) }
        }
    };
}

features! {
    /// Full subgroups of the device's size, where a pipeline requires them. A driver may otherwise choose another size for each.
    SubgroupSizeControl = "subgroup_size_control",
    /// Subgroup reductions in compute shaders.
    SubgroupArithmetic = "subgroup_arithmetic",
    /// Votes of a subgroup in compute shaders.
    SubgroupVote = "subgroup_vote",
    /// Shuffles between the lanes of a subgroup in compute shaders.
    SubgroupShuffle = "subgroup_shuffle",
    /// Arithmetic on 16-bit floats.
    Float16 = "float16",
    /// 16-bit elements in storage buffers.
    Storage16 = "storage16",
    /// Arithmetic on 8-bit integers.
    Int8 = "int8",
    /// 8-bit elements in storage buffers.
    Storage8 = "storage8",
    /// Packed 4x8-bit dot products.
    IntegerDotProduct = "integer_dot_product",
    /// `VK_KHR_cooperative_matrix`, as all of that begin: products of f16 with sums in f32, of a subgroup; rows, columns and terms.
    /// Of those of a type, a variant takes the first that the device has.
    MatrixF16 = "coopmat_f16_f32_16x16x16",
    /// 8 rows: Intel.
    MatrixF16Rows8 = "coopmat_f16_f32_8x16x16",
    /// Squares of 8: Mesa's software device.
    MatrixF16Squares8 = "coopmat_f16_f32_8x8x8",
    /// The same of bf16, by `VK_KHR_shader_bfloat16`.
    MatrixBf16 = "coopmat_bf16_f32_16x16x16",
    /// 8 rows.
    MatrixBf16Rows8 = "coopmat_bf16_f32_8x16x16",
    /// Squares of 8.
    MatrixBf16Squares8 = "coopmat_bf16_f32_8x8x8",
    /// Products of 8-bit integers with sums in 32 bits: NVIDIA.
    MatrixS8 = "coopmat_s8_s32_16x16x32",
    /// 16 terms: AMD.
    MatrixS8Terms16 = "coopmat_s8_s32_16x16x16",
    /// 8 rows: Intel.
    MatrixS8Rows8 = "coopmat_s8_s32_8x16x32",
    /// Squares of 8: Mesa's software device.
    MatrixS8Squares8 = "coopmat_s8_s32_8x8x8",
    /// Lanes hold rows of the device's first matrices of float16 as `matrix-rows.glsl` has them: probed on the open device.
    MatrixRowsInLanes = "matrix_rows_in_lanes",
    /// As NVIDIA has them, for builds with numbers in place of constants: of 16 x 16, 4 lanes a row, in runs of 2.
    MatrixRowsInQuads = "matrix_rows_in_quads",
    /// `packHalf2x16` rounds to the nearest float16, ties to even: probed on the open device.
    PacksToNearest = "packs_to_nearest",
    /// Operations on float32 that round to the nearest, ties to even, where a shader asks for it.
    RoundsToEven = "rounding_mode_rte_float32",
    /// Signs of zeros, infinities and NaN of float32 that are kept where a shader asks for it.
    KeepsSpecialFloats = "signed_zero_inf_nan_preserve_float32",
    /// 64-bit buffer addresses.
    BufferDeviceAddress = "buffer_device_address",
    /// Arithmetic on 64-bit floats.
    Float64 = "float64",
    /// Arithmetic on 64-bit integers.
    Int64 = "int64",
    /// Arithmetic on 16-bit integers.
    Int16 = "int16",
}

/// What starts the names of features of `VK_KHR_cooperative_matrix`.
const MATRIX: &str = "coopmat_";

impl Feature {
    /// The features of products of matrices of these types, as `f16_f32`, those first that a variant takes first.
    pub fn matrices(types: &str) -> impl Iterator<Item = Feature> {
        let of = move |feature: &Feature| {
            let rest = feature.name().strip_prefix(MATRIX).and_then(|name| name.strip_prefix(types));
            rest.is_some_and(|rest| rest.starts_with('_'))
        };
        Self::ALL.iter().copied().filter(of)
    }

    /// The type of the operands of matrices, as `f16`.
    pub fn matrix_type(self) -> Option<&'static str> {
        self.name().strip_prefix(MATRIX)?.split('_').next()
    }

    /// Rows, columns and terms of the product of two matrices, of a feature of `VK_KHR_cooperative_matrix`: its name has them.
    pub fn matrix(self) -> Option<[u32; 3]> {
        let sizes = self.name().rsplit('_').next()?.split('x').map(str::parse);
        sizes.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()
    }
}

/// The words of a condition under which a shader variant is chosen: of a product the columns of the result, `n`, or the terms
/// of a sum, `k`, or the device's `subgroup_size`, compared (`>=`, `<=`, or `%`: a multiple of) with a number, or a fact of
/// the device, `software_device` or a feature; `None` for any other text.
pub fn condition(text: &str) -> Option<(&str, &str, usize)> {
    match text.split(' ').collect::<Vec<_>>()[..] {
        [of @ ("n" | "k" | "subgroup_size"), is @ (">=" | "<=" | "%"), number] => Some((of, is, number.parse().ok()?)),
        [fact] if fact == "software_device" || Feature::named(fact).is_some() => Some((fact, "", 0)),
        _ => None,
    }
}

/// Which lane of a subgroup holds which element of a matrix, as `matrix-rows.glsl` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixRows {
    /// Neighbouring lanes that share rows.
    pub row_lanes: u32,
    /// Neighbouring columns that a lane holds.
    pub run: u32,
}

/// NVIDIA's.
impl Default for MatrixRows {
    fn default() -> Self {
        MatrixRows { row_lanes: 4, run: 2 }
    }
}

impl MatrixRows {
    /// Row and column of element `e` of `lane`, of a matrix with so many columns in a subgroup of so many lanes.
    pub fn place(self, [lane, e]: [u32; 2], columns: u32, lanes: u32) -> [u32; 2] {
        let MatrixRows { row_lanes, run } = self;
        let in_row = columns / row_lanes;
        let i = e % in_row;
        let row = lane / row_lanes + e / in_row * (lanes / row_lanes);
        [row, lane % row_lanes * run + i % run + i / run * run * row_lanes]
    }
}

/// Limits and features of one device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capabilities {
    /// The driver's name for the device.
    pub name: String,
    /// PCI vendor number.
    pub vendor: u32,
    /// The driver's name and version.
    pub driver: String,
    /// Vulkan version as (major, minor, patch).
    pub api: (u32, u32, u32),
    /// Kind of hardware.
    pub device_type: DeviceType,
    /// Bytes of device-local memory.
    pub memory: u64,
    /// Largest range of one binding, bytes.
    pub storage_buffer_range: u64,
    /// Alignment of a binding's offset, bytes.
    pub storage_buffer_alignment: u64,
    /// Largest single allocation, bytes.
    pub allocation: u64,
    /// Shared memory per workgroup, bytes.
    pub shared_memory: u32,
    /// Most invocations per workgroup.
    pub invocations: u32,
    /// Most invocations per workgroup along each axis.
    pub workgroup_size: [u32; 3],
    /// Most workgroups along each axis.
    pub workgroup_count: [u32; 3],
    /// Bytes of push constants.
    pub push_constants: u32,
    /// Most storage buffers one shader may bind.
    pub storage_buffers: u32,
    /// Invocations per subgroup.
    pub subgroup_size: u32,
    /// The least that a pipeline may require instead.
    pub least_subgroup_size: u32,
    /// Most subgroups per workgroup where their size is required.
    pub workgroup_subgroups: u32,
    /// Nanoseconds per timestamp tick; 0 when timestamps are not supported.
    pub timestamp_period: f32,
    /// The supported optional features.
    pub features: Vec<Feature>,
    /// Which lane holds what of the matrices of `MatrixRowsInLanes`.
    pub matrix_rows: MatrixRows,
    /// Missing requirements; empty for a usable device.
    pub missing: Vec<String>,
}

impl Capabilities {
    /// Whether it is a `software_device`, or has the feature of this name.
    pub fn is(&self, fact: &str) -> bool {
        Feature::named(fact).map_or(self.device_type == DeviceType::Software, |feature| self.has(feature))
    }

    /// The lanes of subgroups that split float32 products on matrix cores: 32 take 0.7 of the estimate of 64 on RDNA 3, and 0.5 on
    /// RDNA 3.5, whose registers then hold a larger tile (benchmarks/README.md).
    pub fn lanes_of_splits(&self) -> u32 {
        let narrower = self.has(Feature::SubgroupSizeControl) && self.least_subgroup_size <= 32;
        if narrower { self.subgroup_size.min(32) } else { self.subgroup_size }
    }

    /// The first products of matrices of these types, as `f16_f32`, that the device has.
    pub fn matrices(&self, types: &str) -> Option<Feature> {
        Feature::matrices(types).find(|feature| self.has(*feature))
    }

    /// Whether the device has a feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// What a workgroup needs that the device limits: its name, how much, and the limit.
    pub(super) fn of_workgroup(&self, local: [u32; 3], shared_bytes: u32) -> [(&'static str, u64, u32); 5] {
        let most = self.workgroup_size;
        [
            ("bytes of shared memory", shared_bytes.into(), self.shared_memory),
            ("invocations", local.iter().fold(1, |all, n| u64::saturating_mul(all, (*n).into())), self.invocations),
            ("invocations along x", local[0].into(), most[0]),
            ("invocations along y", local[1].into(), most[1]),
            ("invocations along z", local[2].into(), most[2]),
        ]
    }

    /// Says which of the limits is the first that is exceeded, if one is.
    pub(super) fn exceeded(&self, needs: impl IntoIterator<Item = (&'static str, u64, u32)>) -> Option<String> {
        let (what, needs, has) = needs.into_iter().find(|(_, needs, has)| *needs > u64::from(*has))?;
        Some(format!("it needs {needs} {what}, {} has {has}", self.name))
    }

    /// The portable floor that every kernel must run on: exactly what Vulkan guarantees.
    pub fn floor() -> Self {
        Capabilities {
            name: "floor".into(),
            api: (1, 3, 0),
            memory: 1 << 30,
            storage_buffer_range: 128 << 20,
            storage_buffer_alignment: 256,
            allocation: 1 << 30,
            shared_memory: 32 << 10,
            invocations: 256,
            workgroup_size: [256, 256, 64],
            workgroup_count: [65535; 3],
            push_constants: 128,
            storage_buffers: 8,
            subgroup_size: 4,
            ..Capabilities::default()
        }
    }
}
