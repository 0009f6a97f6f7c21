/* Modules that multiply matrices, as modules that a driver without matrices takes. */

#pragma once

#include "emitter.h"

/* Whether a module declares matrices. */
bool has_matrices(const Word *words, size_t count);

/* The module with matrices as arrays of each lane's elements. Throws `Unknown` for what it does not know. */
Words rewritten(const Word *words, size_t count, const Layout &layout);
