/* The watchdog: a device is lost once a submission takes it longer than Windows waits, 2 seconds, by estimate.
 *
 * The estimate is what the submission executes, counted: modules are rewritten so that every invocation adds up its
 * instructions. A scalar operation of arithmetic, and a component read or written in shared memory or buffers, take a lane one
 * clock; a sum of a product is one operation with it; a root, an exponential or the like takes four. The profile's `gigaflops`
 * are two for each clock of each lane. So it depends on shaders and data alone: not on this machine, nor on the engine's own
 * count. Waiting for memory, idle lanes and slower clocks are not in it: a real device takes longer. */

#include <sys/mman.h>

#include "counted.h"

enum { WATCHDOG_SECONDS = 2 };
/* In units of so many instructions, by the number of the invocation in its workgroup. */
static uint32_t *counters;
static int lost;
static struct { unsigned long submissions; double longest, all; } seconds;

static void start_watchdog(void) {
    if (counters || !number("gigaflops"))
        return;
    counters = mmap((void *)COUNTERS_AT, sizeof *counters * COUNTERS, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (counters != (void *)COUNTERS_AT)
        abort();
}

/* After a submission has run, and before the next one. */
static VkResult watch(void) {
    double count = 0, own;
    for (int i = 0; i < COUNTERS; i++) {
        count += counters[i];
        counters[i] = 0;
    }
    own = count * UNIT / (*number("gigaflops") * 1e9 / 2);
    seconds.submissions++;
    seconds.all += own;
    seconds.longest = own > seconds.longest ? own : seconds.longest;
    lost = own > WATCHDOG_SECONDS;
    return lost ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

/* For the tests. */
__attribute__((destructor)) static void tell_watchdog(void) {
    if (seconds.submissions)
        fprintf(stderr, "profile layer: %lu submissions, %.6f s, the longest %.6f s\n", seconds.submissions, seconds.all,
                seconds.longest);
}
