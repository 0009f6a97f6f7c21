#include "reported.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

Layout layout;
std::vector<Shape> shapes;
static bool brains;

static constexpr auto MATRIX_FEATURES = VkStructureType(1000506000), MATRIX_PROPERTIES = VkStructureType(1000506002);
static constexpr auto SHAPE = VkStructureType(1000506001), BFLOAT16_FEATURES = VkStructureType(1000141000);
struct MatrixFeatures { VkStructureType type; void *next; VkBool32 matrices, robust; };
struct MatrixProperties { VkStructureType type; void *next; VkShaderStageFlags stages; };
struct Bfloat16Features { VkStructureType type; void *next; VkBool32 numbers, dot_products, matrices; };
/* VkComponentTypeKHR */
enum : uint32_t { F16 = 0, F32 = 1, S8 = 3, S32 = 5, BF16 = 1000141000 };
static const VkExtensionProperties OWN[] = {{"VK_KHR_cooperative_matrix", 2}, {"VK_KHR_shader_bfloat16", 1}};

void refuse(const std::string &what) {
    fprintf(stderr, "matrix layer: %s\n", what.c_str());
    abort();
}

std::string setting(const char *name) { return getenv(name) ? getenv(name) : ""; }

void replace(uint32_t &number, const char *name) {
    std::string given = setting(name);
    if (!given.empty())
        number = uint32_t(std::stoul(given));
}

void read_settings() {
    std::istringstream all(setting("GRILLY_MATRICES")), rows(setting("GRILLY_MATRIX_ROWS"));
    std::string one, kind, word;
    while (std::getline(all, one, ',')) {
        std::istringstream words(one);
        Shape shape{SHAPE, nullptr, 0, 0, 0, 0, 0, F32, F32, VK_FALSE, ScopeSubgroup};
        char times;
        if (!(words >> kind >> shape.m >> times >> shape.n >> times >> shape.k))
            refuse("GRILLY_MATRICES has " + one);
        if (kind != "f16" && kind != "bf16" && kind != "s8")
            refuse("no matrices of " + kind);
        shape.a = shape.b = kind == "s8" ? S8 : kind == "f16" ? F16 : BF16;
        if (kind == "s8")
            shape.c = shape.result = S32;
        brains = brains || shape.a == BF16;
        shapes.push_back(shape);
        if (shape.a == F16) {
            shape.c = shape.result = F16;
            shapes.push_back(shape);
        }
    }
    if (shapes.empty() || !(rows >> layout.row_lanes >> layout.run))
        refuse("GRILLY_MATRICES or GRILLY_MATRIX_ROWS is missing");
    layout.mirrored = bool(rows >> word);
}

bool own_extension(const char *name) { return !strcmp(name, OWN[0].extensionName) || !strcmp(name, OWN[1].extensionName); }

std::vector<VkExtensionProperties> told(const std::vector<VkExtensionProperties> &drivers) {
    std::vector<VkExtensionProperties> all(OWN, OWN + (brains ? 2 : 1));
    for (const auto &each : drivers)
        if (!own_extension(each.extensionName))
            all.push_back(each);
    return all;
}

bool own_features(VkStructureType type) { return type == MATRIX_FEATURES || type == BFLOAT16_FEATURES; }

static void replace_lanes(uint32_t &number) { replace(number, "GRILLY_MATRIX_LANES"); }

bool mocked() { return !setting("GRILLY_MATRIX_MOCK").empty(); }

void replace_limits(VkPhysicalDeviceProperties &of) {
    if (mocked()) {
        VkPhysicalDeviceLimits &own = of.limits;
        own.maxComputeWorkGroupInvocations = own.maxComputeWorkGroupSize[0] = own.maxComputeWorkGroupSize[1] = 1024;
        own.maxPerStageDescriptorStorageBuffers = own.maxDescriptorSetStorageBuffers = own.maxPerStageResources = 64;
    }
    replace(of.limits.maxComputeSharedMemorySize, "GRILLY_MATRIX_MEMORY");
}

/* All features of a structure, which are what follows its type and pointer. */
template <class Features> static void have_all(VkBaseOutStructure *of) {
    auto flags = reinterpret_cast<VkBool32 *>(of + 1);
    for (size_t i = 0; mocked() && i < (sizeof(Features) - sizeof *of) / sizeof *flags; i++)
        flags[i] = VK_TRUE;
}

/* Any difference between the values of a timeline semaphore. */
static void allow(uint64_t &difference) {
    if (mocked())
        difference = ~uint64_t(0) >> 1;
}

static void fill_version_1_1(VkPhysicalDeviceVulkan11Properties *own) {
    replace_lanes(own->subgroupSize);
    if (mocked()) {
        own->subgroupSupportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
        own->subgroupSupportedOperations = 0xff;
        own->maxMemoryAllocationSize = VkDeviceSize(1) << 30;
    }
}

static void fill_version_1_3(VkPhysicalDeviceVulkan13Properties *own) {
    replace_lanes(own->minSubgroupSize);
    replace_lanes(own->maxSubgroupSize);
    if (mocked()) {
        own->maxComputeWorkgroupSubgroups = 128;
        own->requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
        own->maxBufferSize = VkDeviceSize(1) << 30;
    }
}

void fill(VkBaseOutStructure *one) {
    for (; one; one = one->pNext)
        switch (int(one->sType)) {
        case MATRIX_FEATURES: {
            auto own = reinterpret_cast<MatrixFeatures *>(one);
            own->matrices = VK_TRUE, own->robust = VK_FALSE;
            break;
        }
        case BFLOAT16_FEATURES: {
            auto own = reinterpret_cast<Bfloat16Features *>(one);
            own->numbers = own->matrices = brains, own->dot_products = VK_FALSE;
            break;
        }
        case MATRIX_PROPERTIES: reinterpret_cast<MatrixProperties *>(one)->stages = VK_SHADER_STAGE_COMPUTE_BIT; break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2:
            replace_limits(reinterpret_cast<VkPhysicalDeviceProperties2 *>(one)->properties);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES:
            replace_lanes(reinterpret_cast<VkPhysicalDeviceSubgroupProperties *>(one)->subgroupSize);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES:
            fill_version_1_1(reinterpret_cast<VkPhysicalDeviceVulkan11Properties *>(one));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES:
            fill_version_1_3(reinterpret_cast<VkPhysicalDeviceVulkan13Properties *>(one));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES: {
            auto own = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlProperties *>(one);
            replace_lanes(own->minSubgroupSize);
            replace_lanes(own->maxSubgroupSize);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES:
            allow(reinterpret_cast<VkPhysicalDeviceVulkan12Properties *>(one)->maxTimelineSemaphoreValueDifference);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_PROPERTIES:
            allow(reinterpret_cast<VkPhysicalDeviceTimelineSemaphoreProperties *>(one)->maxTimelineSemaphoreValueDifference);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2: have_all<VkPhysicalDeviceFeatures2>(one); break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES: have_all<VkPhysicalDeviceVulkan11Features>(one); break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: have_all<VkPhysicalDeviceVulkan12Features>(one); break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: have_all<VkPhysicalDeviceVulkan13Features>(one); break;
        default: break;
        }
}

Words probed() {
    const Shape &of = shapes.front();
    Words places(of.m * of.n);
    Word in_row = of.n / layout.row_lanes, each = Word(places.size()) / layout.lanes;
    for (Word place = 0; place < places.size(); place++) {
        Word lane = place / each, e = place % each, i = e % in_row;
        Word row = lane / layout.row_lanes + e / in_row * (layout.lanes / layout.row_lanes);
        Word column = lane % layout.row_lanes * layout.run + i % layout.run + i / layout.run * layout.run * layout.row_lanes;
        Word found = row * of.n + column;
        places[place] = (layout.mirrored ? of.m * of.n - 1 - found : found) * 0x10001;
    }
    return places;
}
