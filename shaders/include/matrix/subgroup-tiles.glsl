// How the subgroups of a workgroup share its tile of TILE_M x TILE_N results: BESIDE columns of subgroups, of which each computes
// HEIGHT x WIDTH elements, ROWS x COLUMNS matrices, from DEPTH matrices per step of TILE_K. After
// cooperative-matrix.glsl.
const uint BESIDE = SUBGROUPS > 16u ? 4u : 2u;
const uint DOWN = SUBGROUPS / BESIDE;
const uint HEIGHT = TILE_M / DOWN;
const uint WIDTH = TILE_N / BESIDE;
const uint ROWS = HEIGHT / MATRIX_M;
const uint COLUMNS = WIDTH / MATRIX_N;
const uint DEPTH = TILE_K / MATRIX_K;
