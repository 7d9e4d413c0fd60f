// Prometheus' series as the live stream names them: `name{label="value"}`.

export interface Series { name: string; labels: Record<string, string> }
export type Values = Map<string, number>;

const known = new Map<string, Series>();
export function parseSeries(text: string): Series {
  let series = known.get(text);
  if (series) return series;
  const brace = text.indexOf('{');
  const labels: Record<string, string> = {};
  if (brace >= 0)
    for (const [, name, value] of text.slice(brace).matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
  series = {name: brace < 0 ? text : text.slice(0, brace), labels};
  if (known.size > 200_000) known.clear();
  known.set(text, series);
  return series;
}

// Series by family, remade only when the set of series changes.
export type Families = Map<string, {key: string; labels: Record<string, string>}[]>;
export function familiesOf(values: Values): Families {
  const out: Families = new Map();
  for (const key of values.keys()) {
    const {name, labels} = parseSeries(key);
    let list = out.get(name);
    if (!list) out.set(name, (list = []));
    list.push({key, labels});
  }
  return out;
}

export interface Histogram { bounds: number[]; counts: number[]; sum: number; count: number }  // counts: not cumulative

export function add(to: Histogram | undefined, more: Histogram): Histogram {
  if (!to) return {...more, counts: [...more.counts]};
  for (let i = 0; i < more.counts.length; ++i) to.counts[i] = (to.counts[i] ?? 0) + more.counts[i];
  to.sum += more.sum, to.count += more.count;
  if (more.bounds.length > to.bounds.length) to.bounds = more.bounds;
  return to;
}

// Linear within its bucket; nothing was recorded: NaN.
export function quantile(h: Histogram | undefined, q: number): number {
  if (!h || h.count <= 0) return NaN;
  let rank = q * h.count;
  for (let i = 0; i < h.counts.length; ++i) {
    if (rank <= h.counts[i] && h.counts[i] > 0) {
      const low = i ? h.bounds[i - 1] : 0, high = Number.isFinite(h.bounds[i]) ? h.bounds[i] : low;
      return low + (high - low) * (rank / h.counts[i]);
    }
    rank -= h.counts[i];
  }
  return h.bounds.at(-2) ?? NaN;
}
