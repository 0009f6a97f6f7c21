/* A Vulkan layer that gives any device the matrices of VK_KHR_cooperative_matrix that GRILLY_MATRICES names, and no others, as
 * `f16 16x16x16, bf16 16x16x16, s8 16x16x32`: with sums in f32, of f16 also in f16, and of s8 in s32. Modules that multiply matrices
 * are rewritten (rewrite.cpp). GRILLY_MATRIX_ROWS is which lane holds what, `ROW_LANES RUN`, and `mirrored` (emitter.h).
 *
 * GRILLY_MATRIX_LANES is the reported size of subgroups; where it is not set, they have the driver's, and where those are smaller, they
 * are joined. GRILLY_MATRIX_MEMORY is the reported shared memory of a workgroup. GRILLY_MATRIX_MOCK is for a driver that runs nothing:
 * it has every feature, and memory that is mapped begins with what the engine's probe would find. Rewritten modules are written to
 * the folder GRILLY_MATRIX_MODULES. Calls go on to one instance and one device of a process. */

#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <vulkan/vk_layer.h>

#include "reported.h"
#include "rewrite.h"

namespace {

PFN_vkGetInstanceProcAddr next_instance;
PFN_vkGetDeviceProcAddr next_device;
PFN_GetPhysicalDeviceProcAddr next_physical;
VkInstance instance;
/* The next layer's or the driver's calls, taken when an instance or a device is made: later the loader returns its own. */
#define CALLS_OF_INSTANCE(DO) \
    DO(CreateDevice) DO(EnumerateDeviceExtensionProperties) DO(GetPhysicalDeviceFeatures2) \
    DO(GetPhysicalDeviceProperties) DO(GetPhysicalDeviceProperties2)
#define POINTER(name) PFN_vk##name name;
struct { CALLS_OF_INSTANCE(POINTER) POINTER(CreateShaderModule) POINTER(MapMemory) } next;
#define TAKE(name) next.name = PFN_vk##name(next_instance(instance, "vk" #name));

/* The loader's link to the next layer; VkLayerInstanceCreateInfo and VkLayerDeviceCreateInfo begin with the same members. */
VkLayerDeviceCreateInfo *link_of(const void *first, VkStructureType type) {
    auto link = static_cast<const VkLayerDeviceCreateInfo *>(first);
    while (link && !(link->sType == type && link->function == VK_LAYER_LINK_INFO))
        link = static_cast<const VkLayerDeviceCreateInfo *>(link->pNext);
    return const_cast<VkLayerDeviceCreateInfo *>(link);
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *own, VkInstance *to) {
    auto link = reinterpret_cast<VkLayerInstanceCreateInfo *>(link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO));
    if (!link)
        return VK_ERROR_INITIALIZATION_FAILED;
    next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    next_physical = link->u.pLayerInfo->pfnNextGetPhysicalDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    if (shapes.empty())
        read_settings();
    VkResult result = PFN_vkCreateInstance(next_instance(nullptr, "vkCreateInstance"))(info, own, to);
    instance = *to;
    if (result == VK_SUCCESS) {
        CALLS_OF_INSTANCE(TAKE)
    }
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL get_extensions(VkPhysicalDevice of, const char *layer, uint32_t *count, VkExtensionProperties *to) {
    if (layer)
        return next.EnumerateDeviceExtensionProperties(of, layer, count, to);
    uint32_t all = 0;
    VkResult result = next.EnumerateDeviceExtensionProperties(of, nullptr, &all, nullptr);
    std::vector<VkExtensionProperties> found(all);
    if (result == VK_SUCCESS)
        result = next.EnumerateDeviceExtensionProperties(of, nullptr, &all, found.data());
    return result == VK_SUCCESS ? give(told(found), count, to, [](auto &place, const auto &each) { place = each; }) : result;
}

VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice of, VkPhysicalDeviceFeatures2 *to) {
    next.GetPhysicalDeviceFeatures2(of, to);
    fill(reinterpret_cast<VkBaseOutStructure *>(to));
}

VKAPI_ATTR void VKAPI_CALL get_basic_properties(VkPhysicalDevice of, VkPhysicalDeviceProperties *to) {
    next.GetPhysicalDeviceProperties(of, to);
    replace_limits(*to);
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice of, VkPhysicalDeviceProperties2 *to) {
    next.GetPhysicalDeviceProperties2(of, to);
    fill(reinterpret_cast<VkBaseOutStructure *>(to));
}

VKAPI_ATTR VkResult VKAPI_CALL get_shapes(VkPhysicalDevice, uint32_t *count, Shape *to) {
    return give(shapes, count, to, [](Shape &place, const Shape &each) {
        void *more = place.next;
        place = each;
        place.next = more;
    });
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice of, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *own,
                                             VkDevice *to) {
    auto link = link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!link)
        return VK_ERROR_INITIALIZATION_FAILED;
    std::vector<const char *> kept;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (!own_extension(info->ppEnabledExtensionNames[i]))
            kept.push_back(info->ppEnabledExtensionNames[i]);
    VkDeviceCreateInfo passed = *info;
    passed.enabledExtensionCount = kept.size();
    passed.ppEnabledExtensionNames = kept.data();
    // The driver below need not know these features: they are taken out of the chain while it is asked.
    std::vector<std::pair<VkBaseOutStructure *, VkBaseOutStructure *>> changed;
    for (auto one = reinterpret_cast<VkBaseOutStructure *>(&passed); one; one = one->pNext)
        while (one->pNext && own_features(one->pNext->sType)) {
            changed.push_back({one, one->pNext});
            one->pNext = one->pNext->pNext;
        }
    VkPhysicalDeviceSubgroupProperties subgroups{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, nullptr, 0, 0, 0, 0};
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &subgroups, {}};
    next.GetPhysicalDeviceProperties2(of, &properties);
    layout.lanes = subgroups.subgroupSize;
    replace(layout.lanes, "GRILLY_MATRIX_LANES");
    layout.joined = layout.lanes > subgroups.subgroupSize;
    layout.in_step = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = next.CreateDevice(of, &passed, own, to);
    if (result == VK_SUCCESS) {
        next.CreateShaderModule = PFN_vkCreateShaderModule(next_device(*to, "vkCreateShaderModule"));
        next.MapMemory = PFN_vkMapMemory(next_device(*to, "vkMapMemory"));
    }
    for (size_t i = changed.size(); i-- > 0;)
        changed[i].first->pNext = changed[i].second;
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice of, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *own,
                                             VkShaderModule *to) {
    VkShaderModuleCreateInfo passed = *info;
    Words words;
    if (!mocked() && has_matrices(info->pCode, info->codeSize / 4)) {
        try {
            words = rewritten(info->pCode, info->codeSize / 4, layout);
        } catch (const std::exception &unknown) {
            refuse(unknown.what());
        }
        passed.codeSize = 4 * words.size();
        passed.pCode = words.data();
        std::string folder = setting("GRILLY_MATRIX_MODULES");
        static int written = 0;
        if (!folder.empty()) {
            FILE *file = fopen((folder + "/" + std::to_string(getpid()) + "-" + std::to_string(written++) + ".spv").c_str(), "wb");
            if (!file || fwrite(words.data(), 4, words.size(), file) != words.size() || fclose(file))
                refuse("cannot write to " + folder);
        }
    }
    return next.CreateShaderModule(of, &passed, own, to);
}

VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice of, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags,
                                   void **to) {
    VkResult result = next.MapMemory(of, memory, offset, size, flags, to);
    // The probe's result is at a whole page, and among the first.
    if (result == VK_SUCCESS && mocked()) {
        Words places = probed();
        for (size_t at = 0; at < 16384; at++)
            static_cast<Word *>(*to)[at] = places[at % places.size()];
    }
    return result;
}

PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance of, const char *name);
PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice of, const char *name);
PFN_vkVoidFunction VKAPI_CALL get_physical(VkInstance of, const char *name);

struct Call { const char *name; PFN_vkVoidFunction call; };
#define CALL(name, own) {"vk" #name, PFN_vkVoidFunction(own)}
const Call calls_of_instance[] = {
    CALL(GetInstanceProcAddr, get_instance), CALL(CreateInstance, create_instance), CALL(CreateDevice, create_device),
    CALL(EnumerateDeviceExtensionProperties, get_extensions),
};
const Call calls_of_physical[] = {
    CALL(GetPhysicalDeviceFeatures2, get_features), CALL(GetPhysicalDeviceFeatures2KHR, get_features),
    CALL(GetPhysicalDeviceProperties, get_basic_properties), CALL(GetPhysicalDeviceProperties2, get_properties),
    CALL(GetPhysicalDeviceProperties2KHR, get_properties),
    CALL(GetPhysicalDeviceCooperativeMatrixPropertiesKHR, get_shapes),
};
const Call calls_of_device[] = {CALL(GetDeviceProcAddr, get_device), CALL(CreateShaderModule, create_module), CALL(MapMemory, map)};

template <size_t N> PFN_vkVoidFunction named(const Call (&calls)[N], const char *name) {
    for (const Call &each : calls)
        if (!strcmp(name, each.name))
            return each.call;
    return nullptr;
}

PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice of, const char *name) {
    auto own = named(calls_of_device, name);
    return own ? own : next_device(of, name);
}

PFN_vkVoidFunction VKAPI_CALL get_physical(VkInstance of, const char *name) {
    auto own = named(calls_of_physical, name);
    return own ? own : next_physical ? next_physical(of, name) : nullptr;
}

PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance of, const char *name) {
    for (auto own : {named(calls_of_instance, name), named(calls_of_physical, name), named(calls_of_device, name)})
        if (own)
            return own;
    return next_instance ? next_instance(of, name) : nullptr;
}

} // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *with) {
    with->loaderLayerInterfaceVersion = 2;
    with->pfnGetInstanceProcAddr = get_instance;
    with->pfnGetDeviceProcAddr = get_device;
    with->pfnGetPhysicalDeviceProcAddr = get_physical;
    return VK_SUCCESS;
}
