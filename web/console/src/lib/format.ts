// Numbers as people read them, each with its unit.

const digits = (value: number, n = 3) => {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const text = Math.abs(value) >= 10 ** n ? Math.round(value).toString() : String(+value.toPrecision(n));
  const [whole, rest] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return rest ? `${grouped}.${rest}` : grouped;
};

export type Unit = '' | 's' | 'B' | '/s' | 'tok/s' | '%' | 'B/s' | 'rows' | 'calls' | 'sequences' | 'blocks' | 'sessions' | 'tokens' | 'steps/s';

export function show(value: number | undefined, unit: Unit = ''): string {
  if (value === undefined || !Number.isFinite(value)) return '–';
  if (unit === 's') {
    if (value === 0) return '0 s';
    if (value < 1e-3) return `${digits(value * 1e6)} µs`;
    if (value < 1) return `${digits(value * 1e3)} ms`;
    return value < 120 ? `${digits(value)} s` : span(value);
  }
  if (unit === 'B' || unit === 'B/s') {
    let n = value, i = 0;
    for (; Math.abs(n) >= 1024 && i < 4; ++i) n /= 1024;
    return `${digits(n)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][i]}${unit === 'B/s' ? '/s' : ''}`;
  }
  if (unit === '%') return `${digits(value * 100)} %`;
  if (unit === '/s') return `${digits(value)}/s`;
  return digits(value) + (unit ? ` ${unit}` : '');
}

export const whole = (value: number | undefined) =>
  value === undefined || !Number.isFinite(value) ? '–' : Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');

export function span(seconds: number): string {
  const parts: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const at = parts.findIndex(([n]) => seconds >= n);
  if (at < 0) return '0 s';
  const [n, unit] = parts[at], next = parts[at + 1];
  const first = Math.floor(seconds / n), second = next ? Math.floor((seconds % n) / next[0]) : 0;
  return `${first} ${unit}${second ? ` ${second} ${next[1]}` : ''}`;
}

export const clock = (ms: number) => new Date(ms).toLocaleTimeString([], {hour12: false});
