// The push block of products on matrix cores and in integers, x [rows, k] and weight [n, k].
layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint n;
    uint k;
#ifdef EXPERTS
    EXPERT_MEMBERS
#endif
} push;
