// What the server tells once a second (GET /console/v1/live), and the last minutes of it. Everything here is bounded: a
// console that is left open does not grow.

import {ask, errorText, events, onKey} from './api';
import {familiesOf, parseSeries, type Families, type Histogram, type Values, add} from './series';

export interface ModelRow { name: string; version: string; state: string; reason: string; engine?: string; max_batch?: number; batches?: string; places?: string[] }
export interface Live {
  connected: boolean; trouble: string;
  time: number;            // of the server, Unix ms
  notReady: string;
  models: ModelRow[]; warnings: string[];
  values: Values; families: Families;
}

export const KEPT = 900;         // seconds of history
const WINDOW = 10;               // seconds that rates and quantiles look back
const MOST_TRACKS = 4000;

export const live: Live = {connected: false, trouble: '', time: 0, notReady: '', models: [], warnings: [], values: new Map(), families: new Map()};
let past: {time: number; values: Values}[] = [];
const listeners = new Set<() => void>();
export const onTick = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};
const tell = () => listeners.forEach((listener) => listener());

// --- questions about now -------------------------------------------------------------------------------------------
export type Match = Record<string, string | undefined>;
const fits = (labels: Record<string, string>, match: Match) => {
  for (const name in match) if (match[name] !== undefined && labels[name] !== match[name]) return false;
  return true;
};
export const each = (family: string, match: Match = {}) => (live.families.get(family) ?? []).filter((s) => fits(s.labels, match));
export const total = (family: string, match: Match = {}) => each(family, match).reduce((sum, s) => sum + (live.values.get(s.key) ?? 0), 0);
const before = (seconds: number) => past.length > 1 ? past[Math.max(0, past.length - 1 - seconds)] : undefined;
const growth = (key: string, then: Values) => Math.max(0, (live.values.get(key) ?? 0) - (then.get(key) ?? 0));
const passed = (then: {time: number}) => Math.max(0.001, (live.time - then.time) / 1000);
export function rate(family: string, match: Match = {}, seconds = 2): number {
  const then = before(seconds);
  if (!then) return NaN;
  return each(family, match).reduce((sum, s) => sum + growth(s.key, then.values), 0) / passed(then);
}
// Of the last seconds; `seconds` 0: since the server started.
export function histogram(family: string, match: Match = {}, seconds = WINDOW): Histogram | undefined {
  const then = seconds ? before(seconds)?.values : new Map<string, number>();
  if (!then) return undefined;
  const groups = new Map<string, {bound: number; below: number}[]>();
  for (const {key, labels} of each(`${family}_bucket`, match)) {
    const {le, ...rest} = labels, group = JSON.stringify(rest);
    let buckets = groups.get(group);
    if (!buckets) groups.set(group, (buckets = []));
    buckets.push({bound: le === '+Inf' ? Infinity : +le, below: growth(key, then)});
  }
  let all: Histogram | undefined;
  for (const buckets of groups.values()) {
    buckets.sort((a, b) => a.bound - b.bound);  // series come in the order of their names
    const h: Histogram = {bounds: buckets.map((b) => b.bound), counts: buckets.map((b) => b.below), sum: 0, count: 0};
    for (let i = h.counts.length - 1; i > 0; --i) h.counts[i] = Math.max(0, h.counts[i] - h.counts[i - 1]);
    h.count = h.counts.reduce((a, b) => a + b, 0);
    all = add(all, h);
  }
  if (all) all.sum = each(`${family}_sum`, match).reduce((sum, s) => sum + growth(s.key, then), 0);
  return all;
}

// --- history -------------------------------------------------------------------------------------------------------
// A track is one number a second. Tracks that nobody records any more go when the history has moved past them.
interface Track { values: Float64Array; at: number }
const tracks = new Map<string, Track>();
const times = new Float64Array(KEPT).fill(NaN);
let ticks = 0;
const makers = new Set<(put: (name: string, value: number) => void) => void>();
// `maker` is called once a second, and says what is to be remembered.
export const record = (maker: (put: (name: string, value: number) => void) => void) => void makers.add(maker);

function remember() {
  const at = ticks++ % KEPT;
  times[at] = live.time / 1000;
  const put = (name: string, value: number) => {
    let track = tracks.get(name);
    if (!track) {
      if (tracks.size >= MOST_TRACKS) return;
      tracks.set(name, (track = {values: new Float64Array(KEPT).fill(NaN), at: ticks}));
    }
    track.values[at] = value, track.at = ticks;
  };
  for (const [name, track] of tracks)
    if (ticks - track.at > KEPT) tracks.delete(name);
    else track.values[at] = NaN;
  for (const maker of makers) maker(put);
}
// The last `seconds` of some tracks, the times first (Unix s); NaN becomes null, as uPlot wants gaps.
export function history(names: string[], seconds: number): (number | null)[][] {
  const n = Math.min(ticks, seconds, KEPT), out: (number | null)[][] = [[], ...names.map(() => [])];
  for (let i = ticks - n; i < ticks; ++i) {
    out[0].push(times[i % KEPT]);
    names.forEach((name, k) => {
      const value = tracks.get(name)?.values[i % KEPT];
      out[k + 1].push(value === undefined || Number.isNaN(value) ? null : value);
    });
  }
  return out;
}
export const trackNames = (prefix: string) => [...tracks.keys()].filter((name) => name.startsWith(prefix)).sort();
export const size = () => ({tracks: tracks.size, past: past.length, series: live.values.size, ticks});

// --- the stream ----------------------------------------------------------------------------------------------------
interface Message { time: number; not_ready?: string; models?: ModelRow[]; warnings?: string[]; values?: Record<string, number>; gone?: string[] }

export function take(event: string, message: Message) {
  if (event === 'state') live.values = new Map(), live.families = new Map();
  let fresh = event === 'state';
  for (const key in message.values) {
    fresh ||= !live.values.has(key);
    live.values.set(key, message.values[key]);
  }
  for (const key of message.gone ?? []) live.values.delete(key), fresh = true;
  if (fresh) live.families = familiesOf(live.values);
  live.time = message.time;
  live.notReady = message.not_ready ?? live.notReady;
  live.models = message.models ?? live.models;
  live.warnings = message.warnings ?? live.warnings;
  live.connected = true, live.trouble = '';
  const last = past.at(-1);
  // A server that was started anew counts from 0 again.
  if (last && (last.values.get('process_start_time_seconds') ?? 0) !== (live.values.get('process_start_time_seconds') ?? 0)) past = [];
  past.push({time: live.time, values: new Map(live.values)});
  if (past.length > WINDOW + 1) past.shift();
  remember();
  tell();
}

const wait = (ms: number) => new Promise<void>((done) => {
  const timer = setTimeout(done, ms);
  const stop = onKey(() => { clearTimeout(timer); stop(); done(); });
});

export async function follow() {
  for (let pause = 500;;) {
    try {
      for await (const {event, data} of events(await ask('/console/v1/live'))) {
        take(event, JSON.parse(data));
        pause = 500;
      }
      live.trouble = 'the server has ended the stream';
    } catch (error) {
      live.trouble = errorText(error);
    }
    live.connected = false;
    tell();
    await wait(pause);
    pause = Math.min(pause * 2, 10_000);
  }
}

// --- what is remembered of the server as a whole ---------------------------------------------------------------------
const own = new Set(['console', 'metrics', 'health', 'http']);
record((put) => {
  const codes = new Map<string, number>(), protocols = new Map<string, number>();
  const then = before(1);
  if (then)
    for (const {key, labels} of each('weir_requests_total')) {
      const grown = growth(key, then.values) / passed(then);
      if (!own.has(labels.protocol) || grown) protocols.set(labels.protocol, (protocols.get(labels.protocol) ?? 0) + grown);
      if (labels.code !== 'OK') codes.set(labels.code, (codes.get(labels.code) ?? 0) + grown);
    }
  let all = 0;
  for (const [name, value] of protocols) if (!own.has(name)) put(`req:${name}`, value), all += value;
  put('requests', all);
  for (const [name, value] of codes) put(`err:${name}`, value);
  const latency = histogramOfInference();
  for (const [q, value] of quantilesOf(latency)) put(`lat:${q}`, value);
  put('tokens:generated', rate('weir_model_generated_tokens_total', {}, 1));
  put('tokens:prompt', rate('weir_model_prompt_tokens_total', {}, 1));
  put('queue:calls', total('weir_model_pending'));
  put('queue:sequences', total('weir_model_sequences', {state: 'waiting'}));
  put('mem:rss', total('process_resident_memory_bytes'));
  for (const {key, labels} of each('weir_tracked_bytes')) put(`mem:${labels.kind}`, live.values.get(key)!);
  put('cpu', rate('process_cpu_seconds_total', {}, 2));
  put('connections', total('weir_connections'));
  put('bytes:in', rate('weir_received_bytes_total', {}, 1)), put('bytes:out', rate('weir_sent_bytes_total', {}, 1));
  for (const {labels} of each('weir_shard_busy_seconds_total')) put(`shard:${labels.shard}`, rate('weir_shard_busy_seconds_total', {shard: labels.shard}, 1));
  for (const {key, labels} of each('weir_gpu_utilization_ratio')) put(`gpu:${labels.gpu ?? labels.device}`, live.values.get(key)!);
});
function quantilesOf(h: Histogram | undefined): [string, number][] {
  return ([['p50', 0.5], ['p90', 0.9], ['p99', 0.99]] as [string, number][]).map(([name, q]) => [name, quantileOf(h, q)]);
}
import {quantile as quantileOf} from './series';
// Of requests that are for models: probes and streams of the console would hide them.
export function histogramOfInference(seconds = WINDOW) {
  let all: Histogram | undefined;
  const names = new Set(each('weir_request_duration_seconds_count').map((s) => s.labels.protocol));
  for (const protocol of names) {
    if (own.has(protocol) || protocol === 'reflection' || protocol.endsWith('monitor')) continue;
    const h = histogram('weir_request_duration_seconds', {protocol}, seconds);
    if (h) all = add(all, h);
  }
  return all;
}
export const isOwn = (protocol: string) => own.has(protocol);

// --- of each model ---------------------------------------------------------------------------------------------------
export const PHASES = ['queue', 'input', 'infer', 'output'] as const;
// The whole way of a request, in its order, as charts name it; receive and send are told by model, not by version.
export const WAY = ['receive', ...PHASES, 'send'] as const;
export const stageName: Record<string, string> = {queue: 'queue', input: 'stage', infer: 'compute', output: 'answer', receive: 'receive', send: 'send'};
// The mean of what a histogram has had in the last seconds.
export function meanOf(family: string, match: Match): number {
  const count = rate(`${family}_count`, match, WINDOW);
  return count > 0 ? rate(`${family}_sum`, match, WINDOW) / count : NaN;
}
record((put) => {
  for (const {labels} of each('weir_model_inferences_total')) {
    const match = {model: labels.model, version: labels.version}, id = `${labels.model}/${labels.version}`;
    put(`m:${id}:rows`, rate('weir_model_inferences_total', match, 1));
    put(`m:${id}:batches`, rate('weir_model_executions_total', match, 1));
    put(`m:${id}:pending`, total('weir_model_pending', match));
    const calls = rate('weir_model_requests_total', {...match, outcome: 'success'}, WINDOW);
    for (const phase of PHASES) {
      const spent = rate('weir_model_time_seconds_total', {...match, phase}, WINDOW);
      put(`m:${id}:${phase}`, calls > 0 ? spent / calls : NaN);
    }
    for (const part of ['receive', 'send']) put(`m:${id}:${part}`, meanOf(`weir_model_${part}_seconds`, {model: labels.model}));
    if (!each('weir_model_kv_blocks', match).length) continue;
    put(`m:${id}:running`, total('weir_model_sequences', {...match, state: 'running'}));
    put(`m:${id}:waiting`, total('weir_model_sequences', {...match, state: 'waiting'}));
    put(`m:${id}:generated`, rate('weir_model_generated_tokens_total', match, 1));
    put(`m:${id}:prompt`, rate('weir_model_prompt_tokens_total', match, 1));
    put(`m:${id}:kv`, total('weir_model_kv_usage_ratio', match));
  }
});
export {parseSeries};
