// Tensors as the Open Inference Protocol's JSON has them.

export interface Spec { name: string; datatype: string; shape: number[]; optional?: boolean }
export const elements = (shape: number[]) => shape.reduce((a, b) => a * b, 1);
// Sizes that the model leaves open are 1 at first.
export const closed = (shape: number[]) => shape.map((n) => (n < 0 ? 1 : n));
export const isText = (datatype: string) => datatype === 'BYTES';
const isWhole = (datatype: string) => /^U?INT/.test(datatype);

export function random({datatype, shape}: {datatype: string; shape: number[]}): unknown[] {
  const n = Math.min(elements(shape), 1 << 20);
  return Array.from({length: n}, () => datatype === 'BOOL' ? Math.random() < 0.5 : isText(datatype) ? String(Math.floor(Math.random() * 100))
    : isWhole(datatype) ? Math.floor(Math.random() * 10) : +Math.random().toFixed(4));
}

// Numbers, words or JSON, however they are separated. Errors: what is wrong, in words.
export function parse(text: string, datatype: string): unknown[] {
  const trimmed = text.trim();
  if (!trimmed) return [];
  if (trimmed[0] === '[') return (JSON.parse(trimmed) as unknown[]).flat(Infinity) as unknown[];
  if (isText(datatype)) return trimmed.split('\n');
  return trimmed.split(/[\s,;]+/).map((word) => {
    if (datatype === 'BOOL') return word === 'true' || word === '1';
    const value = Number(word);
    if (Number.isNaN(value)) throw new Error(`'${word.slice(0, 40)}' is no number`);
    return value;
  });
}

const SIZES: Record<string, [number, (view: DataView, at: number) => number | boolean]> = {
  FP32: [4, (v, i) => v.getFloat32(i, true)], FP64: [8, (v, i) => v.getFloat64(i, true)], INT8: [1, (v, i) => v.getInt8(i)], UINT8: [1, (v, i) => v.getUint8(i)],
  INT16: [2, (v, i) => v.getInt16(i, true)], UINT16: [2, (v, i) => v.getUint16(i, true)], INT32: [4, (v, i) => v.getInt32(i, true)], UINT32: [4, (v, i) => v.getUint32(i, true)],
  INT64: [8, (v, i) => Number(v.getBigInt64(i, true))], UINT64: [8, (v, i) => Number(v.getBigUint64(i, true))], BOOL: [1, (v, i) => v.getUint8(i) !== 0],
};
// A file: JSON, text, an array of NumPy's (.npy), or the bytes as they are.
export async function fromFile(file: File, datatype: string): Promise<{data: unknown[]; shape?: number[]}> {
  const bytes = await file.arrayBuffer(), head = new Uint8Array(bytes, 0, Math.min(10, bytes.byteLength));
  if (head[0] === 0x93 && String.fromCharCode(...head.slice(1, 6)) === 'NUMPY') {
    const length = new DataView(bytes).getUint16(8, true), text = new TextDecoder().decode(new Uint8Array(bytes, 10, length));
    const shape = (/'shape': \(([^)]*)\)/.exec(text)?.[1] ?? '').split(',').map((s) => s.trim()).filter(Boolean).map(Number);
    const descr = /'descr': '([<|=>])([a-z])(\d+)'/.exec(text);
    const type = descr && ({f4: 'FP32', f8: 'FP64', i1: 'INT8', u1: 'UINT8', i2: 'INT16', u2: 'UINT16', i4: 'INT32', u4: 'UINT32', i8: 'INT64', u8: 'UINT64', b1: 'BOOL'} as Record<string, string>)[descr[2] + descr[3]];
    if (!type || descr[1] === '>' || text.includes("'fortran_order': True")) throw new Error(`${file.name}: an array of this kind is not read here: ${text.slice(0, 60)}`);
    return {data: raw(bytes.slice(10 + length), type), shape};
  }
  if (/\.(json|txt|csv)$/.test(file.name)) {
    const text = new TextDecoder().decode(bytes), json = text.trim().startsWith('{') ? JSON.parse(text) : undefined;
    const first = json?.inputs?.[0] ?? json;
    return first?.data ? {data: [first.data].flat(Infinity), shape: first.shape} : {data: parse(text, datatype)};
  }
  if (isText(datatype)) return {data: [new TextDecoder().decode(bytes)]};
  return {data: raw(bytes, datatype)};
}
function raw(bytes: ArrayBuffer, datatype: string): unknown[] {
  const known = SIZES[datatype];
  if (!known) throw new Error(`bytes of ${datatype} are not read here`);
  const view = new DataView(bytes), out: unknown[] = [];
  for (let at = 0; at + known[0] <= bytes.byteLength; at += known[0]) out.push(known[1](view, at));
  return out;
}

// Where the pixels of an image go: [height, width, channels] and whether the channels come first.
export function imageLayout(shape: number[]): {height: number; width: number; channels: number; first: boolean} | undefined {
  const s = shape.slice(shape.length > 1 ? 1 : 0);
  const three = s.length === 3 ? s : s.length === 2 ? [...s, 1] : undefined;
  if (three && (three[2] === 1 || three[2] === 3)) return {height: three[0], width: three[1], channels: three[2], first: false};
  if (s.length === 3 && (s[0] === 1 || s[0] === 3)) return {height: s[1], width: s[2], channels: s[0], first: true};
  const side = Math.sqrt(elements(s));
  return Number.isInteger(side) && side >= 6 && side <= 1024 ? {height: side, width: side, channels: 1, first: false} : undefined;
}

export async function fromImage(file: Blob, shape: number[], whole: boolean): Promise<number[]> {
  const layout = imageLayout(shape);
  if (!layout) throw new Error(`the shape [${shape.join(', ')}] is not one of an image`);
  const bitmap = await createImageBitmap(file, {resizeWidth: layout.width, resizeHeight: layout.height, resizeQuality: 'high'});
  const canvas = new OffscreenCanvas(layout.width, layout.height), g = canvas.getContext('2d')!;
  g.drawImage(bitmap, 0, 0);
  const pixels = g.getImageData(0, 0, layout.width, layout.height).data, n = layout.width * layout.height;
  const out = new Array<number>(n * layout.channels);
  for (let i = 0; i < n; ++i)
    for (let c = 0; c < layout.channels; ++c) {
      const value = layout.channels === 1 ? 0.299 * pixels[4 * i] + 0.587 * pixels[4 * i + 1] + 0.114 * pixels[4 * i + 2] : pixels[4 * i + c];
      out[layout.first ? c * n + i : i * layout.channels + c] = whole ? Math.round(value) : +(value / 255).toFixed(4);
    }
  return out;
}

// A drawing as the handwritten digits of the UCI set are: cut to what is drawn, 32 by 32 dots, counted in blocks.
export function fromDrawing(pixels: Uint8ClampedArray, size: number, side: number): number[] {
  const ink = (x: number, y: number) => (x >= 0 && y >= 0 && x < size && y < size ? pixels[4 * (y * size + x) + 3] / 255 : 0);
  let x0 = size, x1 = -1, y0 = size, y1 = -1;
  for (let y = 0; y < size; ++y)
    for (let x = 0; x < size; ++x)
      if (ink(x, y) > 0.3) x0 = Math.min(x0, x), x1 = Math.max(x1, x), y0 = Math.min(y0, y), y1 = Math.max(y1, y);
  const out = new Array<number>(side * side).fill(0);
  if (x1 < 0) return out;
  const high = y1 - y0 + 1, wide = Math.max(x1 - x0 + 1, high * 0.75), left = (x0 + x1 + 1 - wide) / 2, top = side === 8 ? 16 : 1, sub = 4;
  for (let y = 0; y < side; ++y)
    for (let x = 0; x < side; ++x) {
      let sum = 0;
      for (let i = 0; i < sub * sub; ++i)
        sum += ink(Math.floor(left + ((x + ((i % sub) + 0.5) / sub) * wide) / side), Math.floor(y0 + ((y + (Math.floor(i / sub) + 0.5) / sub) * high) / side)) > 0.5 ? 1 : 0;
      out[y * side + x] = side === 8 ? sum : +((sum / (sub * sub)) * top).toFixed(3);
    }
  return out;
}
