// Charts: each with a title, its unit, axes, values under the pointer or the arrow keys, and the same numbers as a table.

import uPlot from 'uplot';
import {useEffect, useId, useRef, useState} from 'preact/hooks';
import {clock, show, type Unit} from '../lib/format';
import {history, onTick} from '../lib/live';
import {onTheme, scale} from '../lib/theme';

export interface Line { label: string; track?: string; color?: number; dash?: boolean }
export interface Data { x: number[]; ys: (number | null)[][] }
interface Props {
  title: string; unit: Unit; lines: Line[]; note?: string;
  data?: Data;                 // else the history of the lines' tracks
  seconds?: number; stacked?: boolean; height?: number; max?: number;
  x?: {label: string; unit?: Unit; log?: boolean; time?: boolean};
  bars?: boolean; empty?: string;
  words?: string;              // what the numbers are, where the unit does not say it
}

// What stands at the axis: the unit is in the title where numbers alone say enough.
const axisUnit = (unit: Unit): Unit => (unit === 's' || unit === 'B' || unit === '%' ? unit : '');
const WORDS: Partial<Record<Unit, string>> = {'/s': 'per second', 'tok/s': 'tokens per second', s: 'time', B: 'bytes', '%': 'share', 'B/s': 'bytes per second', '': 'count'};
const POWERS = Array.from({length: 50}, (_, i) => 2 ** i);  // steps of an axis of bytes
// A color over the paper of a card, without letting through what is behind it.
function mixed(color: string, paper: string, part: number) {
  const rgb = (c: string) => [1, 3, 5].map((i) => parseInt(c.length === 4 ? c[(i + 1) / 2].repeat(2) : c.slice(i, i + 2), 16));
  const a = rgb(color), b = rgb(paper);
  return `rgb(${a.map((v, i) => Math.round(v * part + b[i] * (1 - part))).join(',')})`;
}
const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const colorOf = (i: number) => `var(--c${(i % 8) + 1})`;

function options(p: Props, width: number, height: number, setCursor: (at: number | null) => void): uPlot.Options {
  const ink = css('--ink-2'), grid = css('--grid'), by = scale(), font = `${11 * by}px system-ui, sans-serif`;
  const time = !p.x || p.x.time;
  const decades = (_u: uPlot, all: number[]) => all.map((v) => (/^1e/.test(v.toExponential()) ? v : null));
  const axis = {stroke: ink, font, grid: {stroke: grid, width: 1}, ticks: {show: false}};
  return {
    width, height, legend: {show: false}, padding: [10 * by, 26 * by, 0, 0],
    cursor: {points: {size: 7}, drag: {x: false, y: false}, y: false},
    scales: {
      x: {time, distr: p.x?.log ? 3 : 1},
      y: {range: (_u, _min, max) => [0, p.max ?? (max > 0 ? max * 1.08 : 1)]},
    },
    axes: [
      {...axis, size: 26 * by, space: 70 * by, ...(p.x?.log ? {filter: decades, grid: {...axis.grid, filter: decades}} : {}), values: time
        ? (_u, all) => all.map((t) => new Date(t * 1000).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false}))
        : (_u, all) => all.map((v) => (v === null ? '' : show(v, p.x?.unit ?? '')))},
      {...axis, size: 62 * by, space: 34 * by, incrs: p.unit === 'B' ? POWERS : undefined, values: (_u, all) => all.map((v) => show(v, axisUnit(p.unit)))},
    ],
    series: [{}, ...p.lines.map((line, i): uPlot.Series => {
      const color = css(`--c${((line.color ?? i) % 8) + 1}`);
      return {label: line.label, stroke: color, width: p.stacked ? 1 : 1.75, dash: line.dash ? [5, 4] : undefined,
        fill: p.bars ? color + 'cc' : p.stacked ? mixed(color, css('--card'), 0.42) : p.lines.length === 1 ? color + '26' : undefined,
        paths: p.bars ? uPlot.paths.bars!({size: [0.8, 40]}) : undefined, points: {show: false}, spanGaps: false};
    })],
    hooks: {setCursor: [(u) => setCursor(u.cursor.idx ?? null)]},
  };
}

// Upwards: what is drawn first lies behind.
function stack(data: Data): Data {
  const ys = data.ys.map((y) => [...y]);
  for (let k = ys.length - 2; k >= 0; --k) ys[k] = ys[k].map((v, i) => (v === null && ys[k + 1][i] === null ? null : (v ?? 0) + (ys[k + 1][i] ?? 0)));
  return {x: data.x, ys};
}

export function Chart(p: Props) {
  const box = useRef<HTMLDivElement>(null), plot = useRef<uPlot | null>(null), id = useId();
  const [cursor, setCursor] = useState<number | null>(null);
  const [table, setTable] = useState(false);
  const [, turn] = useState(0);
  const height = Math.round((p.height ?? 190) * scale());
  const now = (): Data => {
    if (p.data) return p.data;
    const [x, ...ys] = history(p.lines.map((l) => l.track!), p.seconds ?? 300);
    return {x: x as number[], ys};
  };
  const data = now();
  const shape = JSON.stringify([p.lines, p.unit, p.stacked, p.bars, p.x, height, p.max]);

  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      if (!box.current) return;
      plot.current = new uPlot(options(p, Math.max(box.current.clientWidth, 100), height, setCursor), [[], ...p.lines.map(() => [])] as never, box.current);
      draw();
    };
    const draw = () => {
      const d = p.stacked ? stack(now()) : now();
      plot.current?.setData([d.x, ...d.ys] as uPlot.AlignedData);
    };
    make();
    const off = p.data ? () => {} : onTick(() => { if (!document.hidden) { draw(); turn((n) => n + 1); } });
    const offTheme = onTheme(make);
    const resize = new ResizeObserver(() => {
      if (box.current && plot.current && box.current.clientWidth !== plot.current.width)
        plot.current.setSize({width: Math.max(box.current.clientWidth, 100), height});
    });
    resize.observe(box.current!);
    return () => { off(); offTheme(); resize.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, [shape, p.seconds]);
  useEffect(() => {
    if (!p.data) return;
    const d = p.stacked ? stack(p.data) : p.data;
    plot.current?.setData([d.x, ...d.ys] as uPlot.AlignedData);
  }, [p.data]);

  const last = data.x.length - 1, at = cursor !== null && cursor <= last ? cursor : p.x && !p.x.time ? null : last;
  const where = (i: number) => (p.x && !p.x.time ? show(data.x[i], p.x.unit ?? '') : clock(data.x[i] * 1000));
  const key = (event: KeyboardEvent) => {
    const step = ({ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10} as Record<string, number>)[event.key];
    const to = event.key === 'Home' ? 0 : event.key === 'End' ? last : step ? Math.min(last, Math.max(0, (cursor ?? last) + step)) : null;
    if (to === null || !plot.current || last < 0) return;
    event.preventDefault();
    plot.current.setCursor({left: plot.current.valToPos(data.x[to], 'x'), top: 10});
    setCursor(to);
  };
  const rows = table ? data.x.map((_, i) => i).reverse().slice(0, 120) : [];
  return (
    <figure class="chart card" aria-labelledby={id}>
      <figcaption>
        <span class="title" id={id}>{p.title}</span>
        <span class="note">{[p.words ?? WORDS[p.unit] ?? p.unit, p.note].filter(Boolean).join('; ')}</span>
        <button type="button" class="quiet" aria-pressed={table} onClick={() => setTable(!table)}>{table ? 'Chart' : 'Table'}
          <span class="sr"> of {p.title}</span></button>
      </figcaption>
      <div class="plot" ref={box} hidden={table} tabIndex={0} role="img" onKeyDown={key} onBlur={() => setCursor(null)}
        style={{minHeight: `${height}px`}}
        aria-label={`${p.title}: ${p.lines.map((l, k) => `${l.label} ${show(data.ys[k]?.[at ?? last] ?? NaN, p.unit)}`).join(', ')}${last >= 0 && at !== null ? ` at ${where(at)}` : ''}`}>
        {last < 0 && <p class="empty">{p.empty ?? 'Nothing yet.'}</p>}
      </div>
      {table && (
        <div class="scroll" tabIndex={0} role="region" aria-labelledby={id}>
          <table><thead><tr><th scope="col">{p.x?.label ?? 'time'}</th>{p.lines.map((l) => <th scope="col" class="n">{l.label}</th>)}</tr></thead>
            <tbody>{rows.map((i) => <tr><th scope="row">{where(i)}</th>{p.lines.map((_, k) => <td class="n">{show(data.ys[k][i] ?? NaN, p.unit)}</td>)}</tr>)}</tbody></table>
        </div>)}
      <p class="legend">
        {p.lines.map((l, k) => <span><i style={{background: colorOf(l.color ?? k)}} />{l.label} <b>{at === null ? '' : show(data.ys[k]?.[at] ?? NaN, p.unit)}</b></span>)}
        <span class="when">{cursor !== null && at !== null ? where(at) : ''}</span>
      </p>
    </figure>
  );
}

// A line without axes, for tiles.
export function Spark({track, label, color = 0}: {track: string; label: string; color?: number}) {
  const [, turn] = useState(0);
  useEffect(() => onTick(() => turn((n) => n + 1)), []);
  const values = history([track], 120)[1].map((v) => v ?? 0), top = Math.max(...values, 1e-12), n = Math.max(values.length - 1, 1);
  const points = values.map((v, i) => `${((100 * i) / n).toFixed(1)},${(29 - (27 * v) / top).toFixed(1)}`).join(' ');
  return (
    <svg class="spark" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label={`${label}, the last two minutes`}>
      <polygon points={`0,30 ${points} 100,30`} fill={colorOf(color)} opacity=".14" />
      <polyline points={points} fill="none" stroke={colorOf(color)} stroke-width="1.6" vector-effect="non-scaling-stroke" />
    </svg>
  );
}
