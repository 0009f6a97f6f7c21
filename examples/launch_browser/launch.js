// Runs an exported kernel on a browser's GPU: README.md says how. `grilly` is the module grilly.js, by the page's import map.
import { Program } from "grilly";

/** Numbers between -1 and 1 that are the same every time. */
export function numbers(count, seed) {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

/** Operands for an interface's buffers: random numbers, offsets of one text for two integers, and otherwise zeros. */
export function operandsOf(buffers) {
  const given = buffers.filter(({ kind }) => kind === "operand").sort((one, other) => one.place - other.place);
  const rows = given[0].shape[0];
  return given.map(({ dtype, shape, bytes }, place) => {
    const count = shape.reduce((a, b) => a * b, 1);
    if (dtype === "float32") return numbers(count, place + 1);
    return count === 2 ? Uint32Array.from([0, rows]) : new Uint8Array(bytes);
  });
}

/** The results of a kernel on operands, typed arrays in order: `name`, `dtype`, `shape` and `values` each. */
async function run(program, operands) {
  const { buffers } = program.interface;
  buffers.forEach(({ kind, bytes }, at) => {
    if (kind !== "result" && kind !== "scratch") return;
    // NaN, so that what is not written shows.
    program.hold(at, bytes);
    program.device.queue.writeBuffer(program.buffers[at], 0, new Uint8Array(Math.max(bytes, 4)).fill(255));
  });
  try {
    const results = await program.run(operands);
    const rows = buffers.filter(({ kind }) => kind === "result").sort((one, other) => one.place - other.place);
    return rows.map(({ name, dtype, shape }, at) => ({ name, dtype, shape, values: results[at] }));
  } finally {
    program.device.destroy();
  }
}

/** Runs an interface whose code is at hand: `codeOf` returns the text of a dispatch. */
export async function launch(interface_, codeOf, operands) {
  return run(await Program.create(null, interface_, codeOf), operands);
}

/** Runs the interface file at a URL, with the code beside it; operands are by default those above. */
export async function launchFile(url, operands) {
  const program = await Program.load(null, url);
  return run(program, operands ?? operandsOf(program.interface.buffers));
}
