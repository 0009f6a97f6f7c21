// Dot products of four signed bytes in a word.
#extension GL_EXT_spirv_intrinsics : require

// OpSDot of two packed vectors.
spirv_instruction(capabilities = [6019, 6018], id = 4450)
int signed_dot(uint a, uint b, spirv_literal uint format);

// The sum of four signed bytes.
int sum_of_bytes(uint four) {
    return signed_dot(four, 0x01010101u, 0u);
}
