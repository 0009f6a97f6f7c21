// Interface of the builds of max-sim: where the vectors of each query and document begin; larger numbers.
layout(std430, binding = 2) readonly buffer QueryStarts { uint query_starts[]; };
layout(std430, binding = 3) readonly buffer DocumentStarts { uint document_starts[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint queries;
    uint documents;
    // Columns of a vector.
    uint depth;
} push;

// Rows of a query that are met together.
#define TILE 32u
#define NONE uintBitsToFloat(0xff800000u)
// The score of a document without rows.
#define EMPTY -1e9

// The larger of two, or NaN.
float larger(float a, float b) {
    bool is_nan = (floatBitsToUint(b) & 0x7fffffffu) > 0x7f800000u;
    return b > a || is_nan ? b : a;
}
