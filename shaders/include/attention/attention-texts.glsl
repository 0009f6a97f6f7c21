// Declares TEXT, the last of TEXTS texts for which BEGINS holds: a condition on `middle` that the first texts meet.
#define LAST_TEXT(TEXT, TEXTS, BEGINS)                                                                                 \
    uint TEXT = 0u;                                                                                                    \
    uint high = TEXTS;                                                                                                 \
    while (high - TEXT > 1u) {                                                                                         \
        uint middle = (TEXT + high) / 2u;                                                                              \
        if (BEGINS) {                                                                                                  \
            TEXT = middle;                                                                                             \
        } else {                                                                                                       \
            high = middle;                                                                                             \
        }                                                                                                              \
    }
