// The page: kernels beside the CPU, then the encoder and a search over its vectors.
import { Encoder, Program, requestDevice } from "grilly";
import { Tokenizer } from "./tokenizers.mjs";
import { KERNELS, minilm } from "./cpu.js";
import { operandsOf } from "./launch.js";

const element = (id) => document.getElementById(id);
const shown = (number) => (number < 1 ? number.toPrecision(2) : number.toFixed(number < 100 ? 1 : 0));

/** Runs a kernel on both and returns times in ms and the largest difference. */
export async function compare(device, { name, heads }) {
  const program = await Program.load(device, new URL(`kernels/${name}.json`, location.href));
  const operands = operandsOf(program.interface.buffers);
  const [found] = await program.run(operands);
  const timed = async (count) => {
    const start = performance.now();
    const commands = device.createCommandEncoder();
    for (let i = 0; i < count; i++) program.record(commands);
    device.queue.submit([commands.finish()]);
    await device.queue.onSubmittedWorkDone();
    return (performance.now() - start) / count;
  };
  // As many dispatches as fill a fifth of a second: one alone is mostly the time to start it.
  const gpu = await timed(Math.min(Math.max(Math.round(200 / (await timed(1))), 1), 100));
  const start = performance.now();
  const expected = KERNELS[name](operands, { columns: 384, heads });
  const cpu = performance.now() - start;
  program.destroy();
  return { name, gpu, cpu, difference: differenceOf(found, expected) };
}

/** The largest difference as a part of the largest number; infinite for NaN and other lengths. */
function differenceOf(found, expected) {
  const most = (numbers) => numbers.reduce((one, other) => Math.max(one, Math.abs(other)), 0);
  const difference = most(Array.from(found, (value, at) => value - expected[at])) / most(expected);
  return found.length === expected.length && !Number.isNaN(difference) ? difference : Infinity;
}

async function showKernels(device) {
  const list = await (await fetch("kernels/list.json")).json();
  const results = [];
  for (const row of list) {
    const result = await compare(device, row);
    results.push(result);
    const cells = [shown(result.gpu), shown(result.cpu), shown(result.cpu / result.gpu), result.difference.toExponential(1)];
    const line = document.createElement("tr");
    line.innerHTML = `<td><code></code></td><td><code></code></td>${cells.map((c) => `<td class="number">${c}</td>`).join("")}`;
    line.querySelectorAll("code").forEach((code, at) => (code.textContent = [row.name, row.formula][at]));
    element("kernels").append(line);
  }
  return results;
}

const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);

async function showSearch(device) {
  const encoder = await Encoder.load("model/", Tokenizer, device);
  const rows = await (await fetch("text.json")).json();
  const texts = rows.map(({ text }) => text);
  const timed = async (work) => {
    const start = performance.now();
    const result = await work();
    return { result, seconds: (performance.now() - start) / 1000 };
  };
  // A device's first run takes longer.
  await encoder.embed(texts.slice(0, 2));
  const { result: vectors, seconds } = await timed(() => encoder.embed(texts));
  const bytes = await (await fetch("model/weights.bin")).arrayBuffer();
  const weight = (name) => {
    const row = encoder.plan.buffers.find((buffer) => buffer.name === name);
    return new Float32Array(bytes, row.offset, row.bytes / 4);
  };
  const cpu = await timed(() => minilm(weight, encoder.tokenize(texts[0])));
  const difference = differenceOf(vectors[0], cpu.result);
  element("encoder").textContent =
    `all-MiniLM-L6-v2: ${texts.length} sentences became vectors of ${vectors[0].length} numbers in ${seconds.toFixed(2)} s, ` +
    `tokenizer included: ${((seconds / texts.length) * 1000).toFixed(1)} ms each. The first takes ` +
    `${(cpu.seconds * 1000).toFixed(0)} ms in plain JavaScript on one core of the CPU; the largest difference of its numbers is ` +
    `${difference.toExponential(1)} of the largest.`;
  const search = async (query, most = 5) => {
    const [vector] = await encoder.embed([query]);
    const hits = vectors.map((other, at) => ({ ...rows[at], score: dot(vector, other) }));
    return hits.sort((one, other) => other.score - one.score).slice(0, most);
  };
  element("search").addEventListener("submit", async (event) => {
    event.preventDefault();
    element("hits").replaceChildren();
    for (const { place, text, score } of await search(element("query").value)) {
      const line = document.createElement("li");
      line.textContent = `${text} `;
      const small = document.createElement("small");
      small.textContent = [place, score.toFixed(3)].filter(Boolean).join(" · ");
      line.append(small);
      element("hits").append(line);
    }
  });
  element("query").disabled = element("go").disabled = false;
  element("search").requestSubmit();
  return { encoder, search, seconds, difference };
}

async function main() {
  const device = await requestDevice();
  element("status").textContent = `Running on ${device.description || "this browser's GPU"}.`;
  const kernels = await showKernels(device);
  return { device, kernels, ...(await showSearch(device)) };
}

/** What the page has done; a test waits for it. */
globalThis.page = main();
globalThis.page.catch((error) => {
  element("status").textContent = `${error.message}.`;
  element("status").className = "failed";
  element("encoder").textContent = "Without a GPU there is no search here; grilly itself runs on the CPU, too.";
});
