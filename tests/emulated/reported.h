/* What the layer reports in place of the driver's: the settings, extensions, features, limits and shapes. */

#pragma once

#include <vector>
#include <vulkan/vulkan.h>

#include "emitter.h"

/* VkCooperativeMatrixPropertiesKHR: the headers of Debian's stable release lack it. */
struct Shape { VkStructureType type; void *next; uint32_t m, n, k, a, b, c, result; VkBool32 saturating; uint32_t scope; };

/* The layout that the settings name, in subgroups of no size yet. */
extern Layout layout;
extern std::vector<Shape> shapes;

[[noreturn]] void refuse(const std::string &what);
std::string setting(const char *name);
/* What a variable says in place of the driver's number. */
void replace(uint32_t &number, const char *name);
void read_settings();
/* Whether the driver runs nothing, and is to have every feature. */
bool mocked();

bool own_extension(const char *name);
/* The extensions of the layer instead of the driver's of these names. */
std::vector<VkExtensionProperties> told(const std::vector<VkExtensionProperties> &drivers);
bool own_features(VkStructureType type);
/* Changes a chain of features or properties. */
void fill(VkBaseOutStructure *chain);
void replace_limits(VkPhysicalDeviceProperties &of);
/* What matrix-layout.glsl finds of the layout, for the first matrices of float16. */
Words probed();

/* Vulkan's way to return a list: as many as there is room for, or, without a place, their number. */
template <class Each, class Copy> VkResult give(const std::vector<Each> &all, uint32_t *count, Each *to, Copy copy) {
    uint32_t room = to && *count < all.size() ? *count : uint32_t(all.size());
    for (uint32_t i = 0; to && i < room; i++)
        copy(to[i], all[i]);
    *count = room;
    return room < all.size() ? VK_INCOMPLETE : VK_SUCCESS;
}
