// Matrices of which four neighbouring lanes hold two whole rows: element e of lane l is in row l / 4 + 8 (e / 4) and column
// 2 (l % 4) + e % 2 + 8 (e / 2 % 2), in sums as in left operands (matrix-layout.glsl).

uint row_of(uint h) {
    return gl_SubgroupInvocationID / 4u + 8u * h;
}

uint column_of(uint e) {
    return gl_SubgroupInvocationID % 4u * 2u + e % 2u + e / 2u % 2u * 8u;
}
