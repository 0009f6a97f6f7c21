// The end of an elementwise shader: main and, with SINGLY, `four` as the work on each of its elements.
#ifdef SINGLY
void four(uint quad) {
    for (uint i = 0u; i < 4u; i++) {
        one(4u * quad + i);
    }
}
#endif

void main() {
    walk(own_elements(push.rows_of, push.rows, push.columns, push.rows_per_group));
}
