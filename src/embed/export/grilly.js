// Runs what grilly exports on a WebGPU device: kernels, and whole encoders. One module without dependencies.
//
//   import { Encoder, Program, requestDevice } from "./grilly.js";
//   import { Tokenizer } from "@huggingface/tokenizers";
//   const encoder = await Encoder.load("model/", Tokenizer);
//   const [vector] = await encoder.embed(["A text."]);

/** Most tokens of a batch of several texts. */
const MOST_TOKENS = 4096;
const TYPES = { uint: "setUint32", int: "setInt32", float: "setFloat32" };
const ARRAYS = { float32: Float32Array, uint32: Uint32Array, int32: Int32Array };

/** A device with the limits that every WebGPU device has, and those of an interface; throws an Error that says what is missing. */
export async function requestDevice(limits = []) {
  if (!globalThis.isSecureContext) {
    throw new Error("WebGPU needs a secure context: open the page through https, or from localhost");
  }
  if (!navigator.gpu) {
    throw new Error("this browser has no WebGPU: Chrome and Edge have it from version 113, Safari from 26, Firefox from 141");
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new Error("the browser has WebGPU, but no GPU that it may use: look at chrome://gpu");
  const short = limits.find(({ name, needed }) => adapter.limits[name] < needed);
  if (short) throw new Error(`this GPU has a ${short.name} of ${adapter.limits[short.name]}: ${short.needed}, ${short.reason}`);
  const requiredLimits = Object.fromEntries(limits.map(({ name, needed }) => [name, needed]));
  const device = await adapter.requestDevice({ requiredLimits });
  device.description = [adapter.info.vendor, adapter.info.architecture, adapter.info.description].filter(Boolean).join(" ");
  return device;
}

async function fetched(url, read) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response[read]();
}

/** The pipeline of a dispatch's shader, and the layout of its bindings. */
async function pipelineOf(device, entryPoint, row, code) {
  const entries = row.bindings.map(({ binding, access }) => {
    const type = access === "read" ? "read-only-storage" : "storage";
    return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } };
  });
  entries.push({ binding: row.parameters.binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: "uniform" } });
  const layout = device.createBindGroupLayout({ entries });
  const module = device.createShaderModule({ code, label: row.shader });
  const all = device.createPipelineLayout({ bindGroupLayouts: [layout] });
  const whole = { label: row.step, layout: all, compute: { module, entryPoint } };
  const pipeline = await device.createComputePipelineAsync(whole).catch(async (error) => {
    const { messages } = await module.getCompilationInfo();
    const told = messages.map(({ lineNum, message }) => `line ${lineNum}: ${message}`);
    throw new Error([`${row.step} (${row.shader}): ${error.message}`, ...told].join("\n"));
  });
  return { layout, pipeline };
}

/** The recorded dispatches of a kernel or a plan, with their pipelines and memory. */
export class Program {
  /** From the URL of a kernel's interface or of plan.json; the code is beside it. Without a device it requests one. */
  static async load(device, url) {
    const base = new URL(url, globalThis.location?.href);
    const interface_ = await fetched(base, "json");
    const files = [...new Set(interface_.dispatches.map((row) => row.file))];
    const texts = await Promise.all(files.map((file) => fetched(new URL(file, base), "text")));
    const code = Object.fromEntries(files.map((file, at) => [file, texts[at]]));
    const weights = interface_.weights && (await fetched(new URL(interface_.weights, base), "arrayBuffer"));
    return Program.create(device, interface_, (row) => code[row.file], weights);
  }

  /** From an interface, a function that returns the code of a dispatch, and the bytes of the constants. */
  static async create(device, interface_, codeOf, weights) {
    device ??= await requestDevice(interface_.limits);
    const program = new Program();
    Object.assign(program, { device, interface: interface_, buffers: [], bytes: [] });
    // Dispatches of one shader share its pipeline.
    const pipelines = new Map();
    const prepared = interface_.dispatches.map(async (row) => {
      const text = codeOf(row);
      if (!pipelines.has(text)) pipelines.set(text, pipelineOf(device, interface_.entry_point, row, text));
      const { layout, pipeline } = await pipelines.get(text);
      const { bytes, members } = row.parameters;
      const parameters = new DataView(new ArrayBuffer(bytes));
      for (const { offset, type, value } of members) parameters[TYPES[type]](offset, value, true);
      const uniform = device.createBuffer({ size: bytes, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
      device.queue.writeBuffer(uniform, 0, parameters.buffer);
      return { row, layout, pipeline, uniform };
    });
    program.steps = await Promise.all(prepared);
    interface_.buffers.forEach((row, at) => {
      if (row.kind !== "weight") return;
      program.hold(at, row.bytes);
      device.queue.writeBuffer(program.buffers[at], 0, weights, row.offset, row.bytes);
    });
    return program;
  }

  /** Makes room for so many bytes in a buffer. */
  hold(at, bytes) {
    if (this.bytes[at] >= bytes) return;
    const [{ name: label, rows }, most] = [this.interface.buffers[at], this.device.limits.maxStorageBufferBindingSize];
    if (bytes > most) throw new Error(`${label} has ${bytes} bytes, and the device binds at most ${most}`);
    // What grows with the batch has sizes that are powers of two, so that it soon stays in place.
    const size = rows === undefined ? Math.max(bytes, 4) : Math.min(2 ** Math.ceil(Math.log2(Math.max(bytes, 4))), most);
    this.buffers[at]?.destroy();
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    this.buffers[at] = this.device.createBuffer({ label, size, usage });
    this.bytes[at] = size;
    this.groups = undefined;
  }

  /** Runs the dispatches on typed arrays, the operands, and resolves to the results, or those of some places, in order. */
  async run(operands, { tokens = 0, texts = 0, results } = {}) {
    const { device, interface: { buffers: rows } } = this;
    const bytesOf = (row) => row.bytes ?? Math.ceil((sizeOf(row.rows, tokens, texts) * row.row_bytes) / 4) * 4;
    device.pushErrorScope("validation");
    let [readable, error] = [];
    try {
      rows.forEach((row, at) => this.write(row, at, bytesOf(row), operands, row.words ?? [tokens, texts]));
      const commands = device.createCommandEncoder();
      this.record(commands, { tokens, texts });
      const given = rows.map((row, at) => ({ row, at, bytes: bytesOf(row) })).filter(({ row }) => row.kind === "result");
      const wanted = given.filter(({ row }) => !results || results.includes(row.place));
      wanted.sort((one, other) => one.row.place - other.row.place);
      readable = wanted.map(({ row, at, bytes }) => {
        const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
        const buffer = device.createBuffer({ size: Math.max(bytes, 4), usage });
        if (bytes > 0) commands.copyBufferToBuffer(this.buffers[at], 0, buffer, 0, bytes);
        return { row, buffer, bytes };
      });
      device.queue.submit([commands.finish()]);
    } finally {
      error = await device.popErrorScope();
    }
    if (error) throw new Error(error.message);
    return Promise.all(readable.map(async ({ row, buffer, bytes }) => {
      await buffer.mapAsync(GPUMapMode.READ);
      const copy = buffer.getMappedRange().slice(0, bytes);
      buffer.destroy();
      // 16-bit elements, which JavaScript has no arrays of, stay bytes.
      return new (ARRAYS[row.dtype] ?? Uint8Array)(copy);
    }));
  }

  /** Makes room in a buffer, and writes what it holds before the first dispatch. */
  write(row, at, bytes, operands, words) {
    if (row.kind === "weight") return;
    this.hold(at, bytes);
    if (row.kind === "counts") {
      this.device.queue.writeBuffer(this.buffers[at], 0, Uint32Array.from({ length: bytes / 4 }, (_, i) => words[i] ?? 0));
    } else if (row.kind === "operand" && bytes > 0) {
      const data = operands[row.place];
      if (data.byteLength > bytes || data.byteLength + 3 < bytes) {
        throw new Error(`${row.name} has ${data.byteLength} bytes, expected ${bytes}`);
      }
      const whole = new Uint8Array(bytes);
      whole.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      this.device.queue.writeBuffer(this.buffers[at], 0, whole);
    }
  }

  /** Records the dispatches, on what the buffers hold, for a batch that they have room for. */
  record(commands, { tokens = 0, texts = 0 } = {}) {
    this.groups ??= this.steps.map((step) => this.bindGroup(step));
    const pass = commands.beginComputePass();
    this.steps.forEach(({ row, pipeline }, at) => {
      const grid = row.grid.map((extent) => groupsOf(extent, tokens, texts));
      if (grid.includes(0)) return;
      if (grid.some((count) => count > this.device.limits.maxComputeWorkgroupsPerDimension)) {
        throw new Error(`${row.step}: ${grid} workgroups are more than the device takes; run fewer tokens at once`);
      }
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, this.groups[at]);
      pass.dispatchWorkgroups(...grid);
    });
    pass.end();
  }

  bindGroup({ row, layout, uniform }) {
    const part = ({ buffer, offset, bytes }) => ({ buffer: this.buffers[buffer], offset, size: bytes || undefined });
    const entries = row.bindings.map((one) => ({ binding: one.binding, resource: part(one) }));
    entries.push({ binding: row.parameters.binding, resource: { buffer: uniform } });
    return this.device.createBindGroup({ layout, entries });
  }

  /** Frees its memory on the device. */
  destroy() {
    [...this.buffers, ...this.steps.map((step) => step.uniform)].forEach((buffer) => buffer?.destroy());
  }
}

/** The size of an axis of plan.json. */
function sizeOf(axis, tokens, texts) {
  return { T: tokens, B: texts, "B+1": texts + 1 }[axis] ?? axis;
}

/** Workgroups along an axis, by the formulas of plan.json. */
function groupsOf(extent, tokens, texts) {
  if (typeof extent === "number") return extent;
  if (extent.text_tiles) return Math.floor(tokens / extent.text_tiles) + texts;
  const rows = extent.each * sizeOf(extent.rows, tokens, texts);
  return rows === 0 ? 0 : Math.ceil((rows + extent.more) / extent.per);
}

/** A model that embeds texts. */
export class Encoder {
  /** From the folder that `model.export` wrote; `Tokenizer` is the class of the package @huggingface/tokenizers. */
  static async load(folder, Tokenizer, device) {
    const base = new URL(folder.endsWith("/") ? folder : `${folder}/`, globalThis.location?.href);
    const encoder = new Encoder();
    encoder.program = await Program.load(device ?? (await requestDevice()), new URL("plan.json", base));
    encoder.setTokenizer(Tokenizer, await fetched(new URL("tokenizer.json", base), "text"));
    encoder.plan = encoder.program.interface;
    return encoder;
  }

  setTokenizer(Tokenizer, text) {
    this.tokenizer = new Tokenizer(JSON.parse(text), {});
    // JavaScript lower-cases a word's last Σ to ς, the tokenizers library each letter alone.
    this.lowers = /"lowercase":true|"type":"Lowercase"/.test(text);
  }

  /** Ids and segments of a text's tokens, special tokens included, truncated to the model's limit. */
  tokenize(text) {
    const { before, own, after, side, longest, prompt, vocabulary } = this.plan.texts;
    const room = Math.max(longest - before.ids.length - after.ids.length, 0);
    const whole = this.lowers ? (prompt + text).replaceAll("Σ", "σ") : prompt + text;
    let { ids } = this.tokenizer.encode(whole, { add_special_tokens: false });
    if (ids.length > room) ids = side === "right" ? ids.slice(0, room) : ids.slice(ids.length - room);
    const outside = ids.find((id) => id >= vocabulary);
    if (outside !== undefined) throw new Error(`token ${outside} is outside the table of ${vocabulary} rows`);
    const segments = [...before.segments, ...ids.map(() => own), ...after.segments];
    return { ids: [...before.ids, ...ids, ...after.ids], segments };
  }

  /**
   * One Float32Array per text, in order, as the model's modules compute it: normalised if it has such a module, then its first
   * `truncateDim` columns, by default those of the exported model; null for all.
   */
  async embed(texts, { truncateDim = this.plan.texts.truncate_dim } = {}) {
    if (truncateDim !== null && !(Number.isInteger(truncateDim) && truncateDim > 0)) {
      throw new Error(`truncateDim is ${truncateDim}, expected a positive integer or null`);
    }
    const tokens = texts.map((text) => this.tokenize(text));
    // Texts of like length together; a vector does not depend on the others in its batch.
    const order = texts.map((_, at) => at).sort((a, b) => tokens[b].ids.length - tokens[a].ids.length);
    const vectors = new Array(texts.length);
    while (order.length > 0) {
      let count = 0;
      let total = 0;
      while (count < order.length && (count === 0 || total + tokens[order[count]].ids.length <= MOST_TOKENS)) {
        total += tokens[order[count++]].ids.length;
      }
      const batch = order.splice(0, count);
      const rows = await this.run(batch.map((at) => tokens[at]));
      batch.forEach((at, place) => (vectors[at] = rows[place].slice(0, truncateDim ?? undefined)));
    }
    return vectors;
  }

  /** The vectors of one batch of tokenized texts. */
  async run(batch) {
    const counts = { tokens: batch.reduce((sum, { ids }) => sum + ids.length, 0), texts: batch.length };
    const operands = this.plan.inputs.map((content) => Uint32Array.from(this.fill(content, batch)));
    const { outputs } = this.plan;
    const results = await this.program.run(operands, { ...counts, results: outputs.map(({ place }) => place) });
    return batch.map((_, text) => {
      const parts = outputs.map(({ columns }, at) => [...results[at].subarray(text * columns, (text + 1) * columns)]);
      return Float32Array.from(parts.flat());
    });
  }

  /** The elements of an operand. */
  fill(content, batch) {
    if (content === "words") return batch.flatMap(({ ids }) => ids);
    if (content === "segments") return batch.flatMap(({ segments }) => segments);
    if (content === "first_pooled") return batch.map(({ ids }) => Math.min(this.plan.texts.unpooled, ids.length));
    if (content === "offsets") {
      const offsets = [0];
      batch.forEach(({ ids }) => offsets.push(offsets.at(-1) + ids.length));
      return offsets;
    }
    const { neighbours, positions, pad, most } = content;
    return batch.flatMap(({ ids }) => {
      if (neighbours !== undefined) {
        return ids.flatMap((id, at) => [ids[at + 1] ?? neighbours, id, ids[at - 1] ?? neighbours]);
      }
      if (positions === "counted") return ids.map((_, at) => at);
      if (positions === "by_length") return ids.map((_, at) => at + (ids.length > most ? most : 0));
      let row = pad;
      return ids.map((id) => (id === pad ? pad : ++row));
    });
  }
}
