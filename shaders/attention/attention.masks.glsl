// What hides keys and changes scores: whether a query sees only the keys up to its position, only those near it, whether
// there is a table of biases, and the soft cap of the scores, 0 for none. Built without MASKS and DISTANCES a query sees
// all keys: SwiftShader takes minutes to compile the masking code.
#if defined(MASKS) || defined(DISTANCES)
layout(constant_id = 2) const bool CAUSAL = false;
layout(constant_id = 3) const bool WINDOW = false;
layout(constant_id = 8) const float SOFT_CAP = 0.0;
#else
const bool CAUSAL = false;
const bool WINDOW = false;
const float SOFT_CAP = 0.0;
#endif
#ifdef MASKS
layout(constant_id = 4) const bool BIAS = false;
#else
const bool BIAS = false;
#endif
const bool HIDES = CAUSAL || WINDOW;
