/* A Vulkan layer that makes a software driver appear as another device: it reports the features, extensions, limits, memory and
 * names in the file that GRILLY_PROFILE names, and refuses what such a device refuses. `profiles.py` writes the file, a line for
 * each value, and the manifest. Calls go on to one instance and one device of a process.
 *
 * Subgroups have the driver's size, `value lanes N`, which is between the reported least and most: a driver may choose, and a
 * kernel that trusts the reported number instead of gl_SubgroupSize gives wrong numbers. Where the driver has no such size N is
 * 0, and modules that know of subgroups are refused. The layer cannot offer extensions that the driver lacks, or be as fast.
 * `value submitMicroseconds N` makes the device slower, by so much for each submission; `value gigaflops N` is its speed for the
 * watchdog (watchdog.h). */

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

enum { MOST = 128, NAME = 256 };

/* The file: `value NAME NUMBER...`, `feature NAME`, `extension NAME`, `text NAME ...`, `type HEAP FLAGS`, and
 * `heap BYTES FLAGS BUDGET ROOM`: its size, what the driver reports as left for a process, and what it really gives. */
static struct { char name[NAME]; double numbers[3]; } values[MOST];
static char features[MOST][NAME], extensions[MOST][NAME], texts[2][NAME];
static VkPhysicalDeviceMemoryProperties memory;
static VkDeviceSize budgets[VK_MAX_MEMORY_HEAPS], rooms[VK_MAX_MEMORY_HEAPS], used[VK_MAX_MEMORY_HEAPS];
static int value_count, feature_count, extension_count;

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static VkInstance instance;
static VkDevice device;
/* The next layer's or the driver's calls, taken when an instance or a device is made: later the loader returns its own. */
#define CALLS_OF_INSTANCE(DO) \
    DO(GetPhysicalDeviceProperties) DO(GetPhysicalDeviceProperties2) DO(GetPhysicalDeviceFeatures2) DO(CreateDevice)
#define CALLS_OF_DEVICE(DO) \
    DO(CreateBuffer) DO(GetBufferMemoryRequirements) DO(GetBufferMemoryRequirements2) DO(GetDeviceBufferMemoryRequirements) \
    DO(AllocateMemory) DO(FreeMemory) DO(MapMemory) DO(CreateShaderModule) DO(QueueSubmit2) DO(QueueWaitIdle)
#define POINTER(name) PFN_vk##name name;
static struct { CALLS_OF_INSTANCE(POINTER) CALLS_OF_DEVICE(POINTER) } next;
#define TAKE_OF_INSTANCE(name) next.name = (PFN_vk##name)next_instance(instance, "vk" #name);
#define TAKE_OF_DEVICE(name) next.name = (PFN_vk##name)next_device(device, "vk" #name);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { VkDeviceMemory handle; VkDeviceSize bytes; uint32_t type; } *allocations;
static size_t allocation_count, allocation_room;

static void read_profile(void) {
    const char *path = getenv("GRILLY_PROFILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        fprintf(stderr, "profile layer: GRILLY_PROFILE names no file\n");
        abort();
    }
    char line[1024], name[NAME];
    unsigned long long bytes, budget, room;
    unsigned first, second;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "value %255s %lf %lf %lf", values[value_count].name, &values[value_count].numbers[0],
                   &values[value_count].numbers[1], &values[value_count].numbers[2]) >= 2)
            value_count++;
        else if (sscanf(line, "feature %255s", features[feature_count]) == 1)
            feature_count++;
        else if (sscanf(line, "extension %255s", extensions[extension_count]) == 1)
            extension_count++;
        else if (sscanf(line, "heap %llu %u %llu %llu", &bytes, &first, &budget, &room) == 4) {
            budgets[memory.memoryHeapCount] = budget;
            rooms[memory.memoryHeapCount] = room;
            memory.memoryHeaps[memory.memoryHeapCount++] = (VkMemoryHeap){bytes, first};
        } else if (sscanf(line, "type %u %u", &first, &second) == 2)
            memory.memoryTypes[memory.memoryTypeCount++] = (VkMemoryType){second, first};
        else if (sscanf(line, "text %255s", name) == 1)
            snprintf(texts[strcmp(name, "deviceName") != 0], NAME, "%s", line + 6 + strlen(name));
        else {
            fprintf(stderr, "profile layer: what is %s?\n", line);
            abort();
        }
        if (value_count == MOST || feature_count == MOST || extension_count == MOST)
            abort();
    }
    fclose(file);
}

static const double *number(const char *name) {
    for (int i = 0; i < value_count; i++)
        if (!strcmp(values[i].name, name))
            return values[i].numbers;
    return NULL;
}

/* Members of structures that Vulkan fills: their place, what they are made of, and how many. */
typedef struct { const char *name; VkStructureType of; size_t offset, bytes; char kind; } Member;
#define AT(structure, type, member, kind) {#member, type, offsetof(structure, member), sizeof(((structure *)0)->member), kind}
#define BASIC VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
#define OF(member, kind) AT(VkPhysicalDeviceProperties, BASIC, member, kind)
#define LIMIT(member) \
    {#member, BASIC, offsetof(VkPhysicalDeviceProperties, limits.member), sizeof(((VkPhysicalDeviceLimits *)0)->member), 'u'}
#define OF_11(m) AT(VkPhysicalDeviceVulkan11Properties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, m, 'u')
#define OF_12(m) AT(VkPhysicalDeviceVulkan12Properties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, m, 'u')
#define OF_13(m) AT(VkPhysicalDeviceVulkan13Properties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES, m, 'u')
#define SUBGROUP VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES
#define MAINTENANCE_3 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES
#define MAINTENANCE_4 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES
#define FLOATS VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES
static const Member members[] = {
    OF(apiVersion, 'u'), OF(vendorID, 'u'), OF(deviceID, 'u'), OF(deviceType, 'u'),
    LIMIT(maxStorageBufferRange), LIMIT(minStorageBufferOffsetAlignment), LIMIT(maxPushConstantsSize),
    LIMIT(maxPerStageDescriptorStorageBuffers), LIMIT(maxDescriptorSetStorageBuffers), LIMIT(maxPerStageResources),
    LIMIT(maxMemoryAllocationCount), LIMIT(maxComputeSharedMemorySize), LIMIT(maxComputeWorkGroupInvocations),
    LIMIT(maxComputeWorkGroupSize), LIMIT(maxComputeWorkGroupCount), LIMIT(nonCoherentAtomSize),
    {"timestampPeriod", BASIC, offsetof(VkPhysicalDeviceProperties, limits.timestampPeriod), 4, 'f'},
    OF_11(subgroupSize), OF_11(subgroupSupportedOperations), OF_11(subgroupSupportedStages), OF_11(maxMemoryAllocationSize),
    OF_12(shaderRoundingModeRTEFloat32), OF_12(shaderSignedZeroInfNanPreserveFloat32),
    OF_13(maxBufferSize), OF_13(minSubgroupSize), OF_13(maxSubgroupSize),
    AT(VkPhysicalDeviceSubgroupProperties, SUBGROUP, subgroupSize, 'u'),
    {"subgroupSupportedOperations", SUBGROUP, offsetof(VkPhysicalDeviceSubgroupProperties, supportedOperations), 4, 'u'},
    {"subgroupSupportedStages", SUBGROUP, offsetof(VkPhysicalDeviceSubgroupProperties, supportedStages), 4, 'u'},
    AT(VkPhysicalDeviceMaintenance3Properties, MAINTENANCE_3, maxMemoryAllocationSize, 'u'),
    AT(VkPhysicalDeviceMaintenance4Properties, MAINTENANCE_4, maxBufferSize, 'u'),
    AT(VkPhysicalDeviceFloatControlsProperties, FLOATS, shaderRoundingModeRTEFloat32, 'u'),
    AT(VkPhysicalDeviceFloatControlsProperties, FLOATS, shaderSignedZeroInfNanPreserveFloat32, 'u'),
};

static void fill(VkStructureType of, void *structure) {
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const Member *member = &members[i];
        const double *from = member->of == of ? number(member->name) : NULL;
        char *to = (char *)structure + member->offset;
        if (!from)
            continue;
        if (member->kind == 'f')
            *(float *)to = (float)*from;
        else if (member->bytes == 8)
            *(uint64_t *)to = (uint64_t)*from;
        else
            for (size_t n = 0; n < member->bytes / 4; n++)
                ((uint32_t *)to)[n] = (uint32_t)from[n];
    }
}

/* Features by name; every other one of these structures is reported as absent. */
#define FEATURES_1_0 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
#define F_10(m) {#m, FEATURES_1_0, offsetof(VkPhysicalDeviceFeatures2, features.m), 4, 'u'}
#define F_11(m) AT(VkPhysicalDeviceVulkan11Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, m, 'u')
#define F_12(m) AT(VkPhysicalDeviceVulkan12Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, m, 'u')
#define F_13(m) AT(VkPhysicalDeviceVulkan13Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, m, 'u')
static const Member flags[] = {
    F_10(robustBufferAccess), F_10(shaderFloat64), F_10(shaderInt64), F_10(shaderInt16), F_11(storageBuffer16BitAccess),
    F_12(storageBuffer8BitAccess), F_12(shaderFloat16), F_12(shaderInt8), F_12(timelineSemaphore), F_12(bufferDeviceAddress),
    F_12(vulkanMemoryModel), F_12(vulkanMemoryModelDeviceScope), F_13(synchronization2), F_13(maintenance4),
    F_13(subgroupSizeControl), F_13(shaderIntegerDotProduct),
};

/* Of a structure of features, up to the last. */
#define END(structure, last) offsetof(structure, last) + sizeof(VkBool32)
static size_t bytes_of(VkStructureType of) {
    switch (of) {
    case FEATURES_1_0: return END(VkPhysicalDeviceFeatures2, features.inheritedQueries);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES: return END(VkPhysicalDeviceVulkan11Features, shaderDrawParameters);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        return END(VkPhysicalDeviceVulkan12Features, subgroupBroadcastDynamicId);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: return END(VkPhysicalDeviceVulkan13Features, maintenance4);
    default: return 0;
    }
}

static int may(VkStructureType of, size_t offset) {
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        for (int n = 0; flags[i].of == of && flags[i].offset == offset && n < feature_count; n++)
            if (!strcmp(flags[i].name, features[n]))
                return 1;
    return 0;
}

/* Clears what the profile lacks; returns how much that was. */
static int mask(VkBaseOutStructure *structure) {
    int cleared = 0;
    for (size_t offset = sizeof(VkBaseOutStructure); offset + 4 <= bytes_of(structure->sType); offset += 4) {
        VkBool32 *flag = (VkBool32 *)((char *)structure + offset);
        if (*flag && !may(structure->sType, offset))
            cleared++, *flag = VK_FALSE;
    }
    return cleared;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice of, VkPhysicalDeviceProperties *to) {
    next.GetPhysicalDeviceProperties(of, to);
    fill(BASIC, to);
    snprintf(to->deviceName, sizeof to->deviceName, "%s", texts[0]);
}

static VKAPI_ATTR void VKAPI_CALL get_properties_2(VkPhysicalDevice of, VkPhysicalDeviceProperties2 *to) {
    next.GetPhysicalDeviceProperties2(of, to);
    get_properties(of, &to->properties);
    for (VkBaseOutStructure *more = to->pNext; more; more = more->pNext) {
        fill(more->sType, more);
        if (more->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES) {
            VkPhysicalDeviceVulkan12Properties *names = (void *)more;
            snprintf(names->driverName, sizeof names->driverName, "%s", texts[1]);
            snprintf(names->driverInfo, sizeof names->driverInfo, "as a profile");
        }
    }
}

static VKAPI_ATTR void VKAPI_CALL get_features_2(VkPhysicalDevice of, VkPhysicalDeviceFeatures2 *to) {
    next.GetPhysicalDeviceFeatures2(of, to);
    for (VkBaseOutStructure *more = (void *)to; more; more = more->pNext)
        mask(more);
}

static VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice of, VkPhysicalDeviceFeatures *to) {
    VkPhysicalDeviceFeatures2 all = {.sType = FEATURES_1_0};
    get_features_2(of, &all);
    *to = all.features;
}

static VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice of, VkPhysicalDeviceMemoryProperties *to) { *to = memory; (void)of; }

static VKAPI_ATTR void VKAPI_CALL get_memory_2(VkPhysicalDevice of, VkPhysicalDeviceMemoryProperties2 *to) {
    get_memory(of, &to->memoryProperties);
    for (VkBaseOutStructure *more = to->pNext; more; more = more->pNext) {
        VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)more;
        if (more->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
            continue;
        pthread_mutex_lock(&lock);
        memcpy(budget->heapBudget, budgets, sizeof budgets);
        memcpy(budget->heapUsage, used, sizeof used);
        pthread_mutex_unlock(&lock);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL get_extensions(VkPhysicalDevice of, const char *layer, uint32_t *count,
                                                     VkExtensionProperties *to) {
    uint32_t has = layer ? 0 : (uint32_t)extension_count, room = *count;
    (void)of;
    *count = !to || has < room ? has : room;
    for (uint32_t i = 0; to && i < *count; i++) {
        memcpy(to[i].extensionName, extensions[i], NAME);
        to[i].specVersion = 1;
    }
    return to && room < has ? VK_INCOMPLETE : VK_SUCCESS;
}
