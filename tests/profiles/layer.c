/* The layer's calls: instance, device, and the memory of a device. What is reported instead of the driver's is in reported.h. */

#include "reported.h"
#include "watchdog.h"

static int lists(const char *name) {
    for (int i = 0; i < extension_count; i++)
        if (!strcmp(extensions[i], name))
            return 1;
    return 0;
}

/* The layer's own: the driver need not have them. */
static int emulated(const char *name) {
    return !strcmp(name, "VK_KHR_portability_subset") || !strcmp(name, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
}

/* The loader's link to the next layer; VkLayerInstanceCreateInfo and VkLayerDeviceCreateInfo begin with the same members. */
static void *link_of(const void *first, VkStructureType type) {
    VkLayerDeviceCreateInfo *link = (void *)first;
    while (link && !(link->sType == type && link->function == VK_LAYER_LINK_INFO))
        link = (void *)link->pNext;
    return link;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *own, VkInstance *to) {
    VkLayerInstanceCreateInfo *link = link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (!link)
        return VK_ERROR_INITIALIZATION_FAILED;
    next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    if (!memory.memoryHeapCount)
        read_profile();
    VkResult result = ((PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance"))(info, own, to);
    instance = *to;
    if (result == VK_SUCCESS) {
        CALLS_OF_INSTANCE(TAKE_OF_INSTANCE)
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice of, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *own, VkDevice *to) {
    VkLayerDeviceCreateInfo *link = link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!link)
        return VK_ERROR_INITIALIZATION_FAILED;
    const char *kept[MOST];
    VkDeviceCreateInfo passed = *info;
    passed.enabledExtensionCount = 0;
    passed.ppEnabledExtensionNames = kept;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
        const char *name = info->ppEnabledExtensionNames[i];
        if (!lists(name) || passed.enabledExtensionCount == MOST)
            return VK_ERROR_EXTENSION_NOT_PRESENT;
        if (!emulated(name))
            kept[passed.enabledExtensionCount++] = name;
    }
    VkPhysicalDeviceFeatures2 wanted = {.sType = FEATURES_1_0};
    if (info->pEnabledFeatures)
        wanted.features = *info->pEnabledFeatures;
    int lacks = mask((void *)&wanted);
    for (const VkBaseInStructure *more = info->pNext; more; more = more->pNext) {
        uint32_t copy[256];
        size_t bytes = bytes_of(more->sType);
        memcpy(copy, more, bytes);
        lacks += bytes && mask((void *)copy);
    }
    if (lacks)
        return VK_ERROR_FEATURE_NOT_PRESENT;
    next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = next.CreateDevice(of, &passed, own, to);
    device = *to;
    if (result == VK_SUCCESS) {
        CALLS_OF_DEVICE(TAKE_OF_DEVICE)
        start_watchdog();
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice of, const VkBufferCreateInfo *info,
                                                    const VkAllocationCallbacks *own, VkBuffer *to) {
    const double *most = number("maxBufferSize");
    if (most && (double)info->size > *most)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return next.CreateBuffer(of, info, own, to);
}

/* Every type of the profile; the driver has one, which is all of them. */
static void any_type(VkMemoryRequirements *of) { of->memoryTypeBits = (1u << memory.memoryTypeCount) - 1; }

static VKAPI_ATTR void VKAPI_CALL get_requirements(VkDevice of, VkBuffer buffer, VkMemoryRequirements *to) {
    next.GetBufferMemoryRequirements(of, buffer, to);
    any_type(to);
}

static VKAPI_ATTR void VKAPI_CALL get_requirements_2(VkDevice of, const VkBufferMemoryRequirementsInfo2 *info,
                                                     VkMemoryRequirements2 *to) {
    next.GetBufferMemoryRequirements2(of, info, to);
    any_type(&to->memoryRequirements);
}

static VKAPI_ATTR void VKAPI_CALL get_requirements_of(VkDevice of, const VkDeviceBufferMemoryRequirements *info,
                                                      VkMemoryRequirements2 *to) {
    next.GetDeviceBufferMemoryRequirements(of, info, to);
    any_type(&to->memoryRequirements);
}

static size_t place_of(VkDeviceMemory handle) {
    size_t place = 0;
    while (place < allocation_count && allocations[place].handle != handle)
        place++;
    return place;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice of, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *own, VkDeviceMemory *to) {
    uint32_t type = info->memoryTypeIndex, heap = memory.memoryTypes[type].heapIndex;
    const double *most = number("maxMemoryAllocationSize"), *count = number("maxMemoryAllocationCount");
    VkMemoryAllocateInfo passed = *info;
    passed.memoryTypeIndex = 0;
    pthread_mutex_lock(&lock);
    VkResult result = VK_SUCCESS;
    if ((most && (double)info->allocationSize > *most) || used[heap] + info->allocationSize > rooms[heap])
        result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    else if (count && (double)allocation_count >= *count)
        result = VK_ERROR_TOO_MANY_OBJECTS;
    else
        result = next.AllocateMemory(of, &passed, own, to);
    if (result == VK_SUCCESS) {
        if (allocation_count == allocation_room) {
            allocation_room = 2 * allocation_room + 64;
            allocations = realloc(allocations, allocation_room * sizeof *allocations);
        }
        allocations[allocation_count].handle = *to;
        allocations[allocation_count].bytes = info->allocationSize;
        allocations[allocation_count++].type = type;
        used[heap] += info->allocationSize;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL release(VkDevice of, VkDeviceMemory handle, const VkAllocationCallbacks *own) {
    pthread_mutex_lock(&lock);
    size_t place = place_of(handle);
    if (place < allocation_count) {
        used[memory.memoryTypes[allocations[place].type].heapIndex] -= allocations[place].bytes;
        allocations[place] = allocations[--allocation_count];
    }
    next.FreeMemory(of, handle, own);
    pthread_mutex_unlock(&lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice of, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size,
                                          VkMemoryMapFlags flags, void **to) {
    pthread_mutex_lock(&lock);
    size_t place = place_of(handle);
    int visible = place < allocation_count &&
                  memory.memoryTypes[allocations[place].type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    pthread_mutex_unlock(&lock);
    return visible ? next.MapMemory(of, handle, offset, size, flags, to) : VK_ERROR_MEMORY_MAP_FAILED;
}

/* Whether a module knows of subgroups. */
static int has_subgroups(const uint32_t *code, size_t count) {
    for (size_t at = 5; at < count && (code[at] & 0xffff) == Capability; at += code[at] >> 16)
        if (code[at + 1] >= GroupNonUniform && code[at + 1] <= GroupNonUniformQuad)
            return 1;
    return 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice of, const VkShaderModuleCreateInfo *info,
                                                     const VkAllocationCallbacks *own, VkShaderModule *to) {
    const double *lanes = number("lanes");
    if (lanes && !*lanes && has_subgroups(info->pCode, info->codeSize / 4)) {
        fprintf(stderr, "profile layer: the driver's subgroups have no size of the device\n");
        return VK_ERROR_FEATURE_NOT_PRESENT;
    }
    if (!counters)
        return next.CreateShaderModule(of, info, own, to);
    Words words = counted(info->pCode, info->codeSize / 4);
    VkShaderModuleCreateInfo passed = *info;
    passed.codeSize = 4 * words.count;
    passed.pCode = words.words;
    VkResult result = next.CreateShaderModule(of, &passed, own, to);
    free(words.words);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos, VkFence fence) {
    const double *more = number("submitMicroseconds");
    if (more)
        usleep((useconds_t)*more);
    VkResult result = lost ? VK_ERROR_DEVICE_LOST : next.QueueSubmit2(queue, count, infos, fence);
    if (result == VK_SUCCESS && counters)
        result = next.QueueWaitIdle(queue);
    return result == VK_SUCCESS && counters ? watch() : result;
}

static PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance of, const char *name);
static PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice of, const char *name);

#define CALL(name, own) {"vk" #name, (PFN_vkVoidFunction)own}
static const struct { const char *name; PFN_vkVoidFunction call; } of_instance[] = {
    CALL(GetInstanceProcAddr, get_instance), CALL(CreateInstance, create_instance), CALL(CreateDevice, create_device),
    CALL(GetPhysicalDeviceProperties, get_properties), CALL(GetPhysicalDeviceFeatures, get_features),
    CALL(GetPhysicalDeviceProperties2, get_properties_2), CALL(GetPhysicalDeviceProperties2KHR, get_properties_2),
    CALL(GetPhysicalDeviceFeatures2, get_features_2), CALL(GetPhysicalDeviceFeatures2KHR, get_features_2),
    CALL(GetPhysicalDeviceMemoryProperties, get_memory), CALL(GetPhysicalDeviceMemoryProperties2, get_memory_2),
    CALL(GetPhysicalDeviceMemoryProperties2KHR, get_memory_2), CALL(EnumerateDeviceExtensionProperties, get_extensions),
}, of_device[] = {
    CALL(GetDeviceProcAddr, get_device), CALL(CreateBuffer, create_buffer), CALL(AllocateMemory, allocate),
    CALL(FreeMemory, release), CALL(MapMemory, map), CALL(GetBufferMemoryRequirements, get_requirements),
    CALL(GetBufferMemoryRequirements2, get_requirements_2), CALL(GetBufferMemoryRequirements2KHR, get_requirements_2),
    CALL(GetDeviceBufferMemoryRequirements, get_requirements_of), CALL(GetDeviceBufferMemoryRequirementsKHR, get_requirements_of),
    CALL(CreateShaderModule, create_module), CALL(QueueSubmit2, submit), CALL(QueueSubmit2KHR, submit),
};

static PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice of, const char *name) {
    for (size_t i = 0; i < sizeof of_device / sizeof *of_device; i++)
        if (!strcmp(name, of_device[i].name))
            return of_device[i].call;
    return next_device(of, name);
}

static PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance of, const char *name) {
    for (size_t i = 0; i < sizeof of_instance / sizeof *of_instance; i++)
        if (!strcmp(name, of_instance[i].name))
            return of_instance[i].call;
    for (size_t i = 0; i < sizeof of_device / sizeof *of_device; i++)
        if (!strcmp(name, of_device[i].name))
            return of_device[i].call;
    return next_instance ? next_instance(of, name) : NULL;
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *with) {
    with->loaderLayerInterfaceVersion = 2;
    with->pfnGetInstanceProcAddr = get_instance;
    with->pfnGetDeviceProcAddr = get_device;
    with->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
