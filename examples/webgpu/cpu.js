// The kernels and the encoder in plain JavaScript, in float64: what the page compares and times the GPU's results with.

const GELU = (x) => 0.5 * x * (1 + Math.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
const SILU = (x) => x / (1 + Math.exp(-x));

/** The error function, to about 1e-15: its series, or from 2.5 on the continued fraction of its complement. */
export function erf(x) {
  const a = Math.abs(x);
  if (a < 2.5) {
    let [sum, term] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  if (a > 6) return Math.sign(x);
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / (a + fraction));
}

/** `x weight^T + bias` of rows of `inner` columns. */
export function linear(x, weight, inner, bias) {
  const [rows, columns] = [x.length / inner, weight.length / inner];
  const y = new Float64Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      let sum = bias ? bias[j] : 0;
      for (let k = 0; k < inner; k++) sum += x[i * inner + k] * weight[j * inner + k];
      y[i * columns + j] = sum;
    }
  }
  return y;
}

/** Rows of `columns`, each changed by a function of the row. */
function byRow(x, columns, change) {
  const y = Float64Array.from(x);
  for (let at = 0; at < y.length; at += columns) change(y.subarray(at, at + columns));
  return y;
}

export function layerNorm(x, weight, bias, eps = 1e-5) {
  return byRow(x, weight.length, (row) => {
    const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
    const scale = 1 / Math.sqrt(row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length + eps);
    row.forEach((value, j) => (row[j] = (value - mean) * scale * weight[j] + bias[j]));
  });
}

function rmsNorm(x, weight, eps = 1e-6) {
  return byRow(x, weight.length, (row) => {
    const scale = 1 / Math.sqrt(row.reduce((sum, value) => sum + value * value, 0) / row.length + eps);
    row.forEach((value, j) => (row[j] = value * scale * weight[j]));
  });
}

function softmax(row) {
  const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
  row.forEach((value, j) => (row[j] = Math.exp(value - most)));
  const sum = row.reduce((a, b) => a + b, 0);
  row.forEach((value, j) => (row[j] = value / sum));
}

/** Attention within one text, head by head, of rows of `columns`. */
function attention(q, k, v, columns, heads) {
  const [rows, width] = [q.length / columns, columns / heads];
  const y = new Float64Array(rows * columns);
  const weights = new Float64Array(rows);
  for (let head = 0; head < heads; head++) {
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < rows; j++) {
        let sum = 0;
        const [from, to] = [i * columns + head * width, j * columns + head * width];
        for (let c = 0; c < width; c++) sum += q[from + c] * k[to + c];
        weights[j] = sum / Math.sqrt(width);
      }
      softmax(weights);
      for (let j = 0; j < rows; j++) {
        const from = j * columns + head * width;
        for (let c = 0; c < width; c++) y[i * columns + head * width + c] += weights[j] * v[from + c];
      }
    }
  }
  return y;
}

/** Rotates each column of a head's first half with that of its second half, by the angles of the row. */
function rope(x, cos, sin, columns, heads) {
  const half = columns / heads / 2;
  const y = Float64Array.from(x);
  for (let at = 0; at < y.length; at += 2 * half) {
    const angles = Math.floor(at / columns) * half;
    for (let c = 0; c < half; c++) {
      const [one, other, C, S] = [x[at + c], x[at + half + c], cos[angles + c], sin[angles + c]];
      [y[at + c], y[at + half + c]] = [one * C - other * S, other * C + one * S];
    }
  }
  return y;
}

const added = (x, y) => Float64Array.from(x, (value, at) => value + y[at]);
const gated = (act) => ([x, gate, up], { columns }) => {
  const other = linear(x, up, columns);
  return linear(x, gate, columns).map((value, at) => act(value) * other[at]);
};

/** Each kernel as a function of its operands, the columns of a row and the heads. */
export const KERNELS = {
  flash_attention: ([q, k, v], { columns, heads }) => attention(q, k, v, columns, heads),
  bias_gelu: ([x, bias], { columns }) => Float64Array.from(x, (value, at) => GELU(value + bias[at % columns])),
  geglu: gated(GELU),
  swiglu: gated(SILU),
  layer_norm_linear: ([x, weight, bias, matrix, shift], { columns }) =>
    linear(layerNorm(x, weight, bias), matrix, columns, shift),
  residual_layer_norm: ([x, residual, weight, bias]) => layerNorm(added(x, residual), weight, bias),
  residual_rms_norm: ([x, residual, weight]) => rmsNorm(added(x, residual), weight),
  rms_norm_rope: ([x, weight, cos, sin], { columns, heads }) => rope(rmsNorm(x, weight), cos, sin, columns, heads),
  softmax_dropout: ([x], { columns }) => byRow(x, columns, softmax),
};

/** all-MiniLM-L6-v2 of one text: BERT's layers, the mean of the tokens, normalised; `weight` returns a constant by its name. */
export function minilm(weight, { ids, segments }, heads = 12, layers = 6, eps = 1e-12) {
  const norm = (x, name) => layerNorm(x, weight(`${name}.weight`), weight(`${name}.bias`), eps);
  const columns = weight("embeddings.LayerNorm.weight").length;
  const product = (x, inner, ...names) => {
    const joined = (end) => weight(names.map((name) => `${name}.${end}`).join("+"));
    return linear(x, joined("weight"), inner, joined("bias"));
  };
  const tables = [[ids, "word"], [segments, "token_type"], [ids.map((_, at) => at), "position"]];
  let x = new Float64Array(ids.length * columns);
  for (const [rows, name] of tables) {
    const table = weight(`embeddings.${name}_embeddings.weight`);
    x.forEach((_, at) => (x[at] += table[rows[Math.floor(at / columns)] * columns + (at % columns)]));
  }
  x = norm(x, "embeddings.LayerNorm");
  for (let number = 0; number < layers; number++) {
    const layer = `encoder.layer.${number}`;
    const parts = ["query", "key", "value"].map((part) => `${layer}.attention.self.${part}`);
    const all = product(x, columns, ...parts);
    const [q, k, v] = parts.map((_, part) => x.map((_, at) => all[(Math.floor(at / columns) * 3 + part) * columns + (at % columns)]));
    x = norm(added(x, product(attention(q, k, v, columns, heads), columns, `${layer}.attention.output.dense`)),
      `${layer}.attention.output.LayerNorm`);
    const inner = product(x, columns, `${layer}.intermediate.dense`).map((value) => 0.5 * value * (1 + erf(value / Math.SQRT2)));
    x = norm(added(x, product(inner, inner.length / ids.length, `${layer}.output.dense`)), `${layer}.output.LayerNorm`);
  }
  const mean = new Float64Array(columns);
  x.forEach((value, at) => (mean[at % columns] += value / ids.length));
  const length = Math.hypot(...mean);
  return mean.map((value) => value / length);
}
