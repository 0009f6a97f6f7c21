// How the subgroups of a workgroup share its tile of TILE_M x TILE_N results: two columns of subgroups, of which each computes
// HEIGHT x WIDTH elements, ROWS x COLUMNS matrices, from DEPTH matrices per step of TILE_K. After
// cooperative-matrix.glsl.
const uint DOWN = SUBGROUPS / 2u;
const uint HEIGHT = TILE_M / DOWN;
const uint WIDTH = TILE_N / 2u;
const uint ROWS = HEIGHT / 16u;
const uint COLUMNS = WIDTH / 16u;
const uint DEPTH = TILE_K / uint(TERMS);
