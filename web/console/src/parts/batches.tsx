// The batch timeline of one model: its batches as bars on its instances, in time; live, and to be zoomed.

import {useEffect, useRef, useState} from 'preact/hooks';
import {ApiError, errorText, getJson} from '../lib/api';
import {show, whole} from '../lib/format';
import {onTheme, scale} from '../lib/theme';
import {Problem} from './common';

// As /console/v1/batches has them: times in microseconds of the server's clock.
interface Answer { now: number; count: number; places: string[]; batches: number[][] }
interface Batch { n: number; instance: number; calls: number; rows: number; queued: number[]; marks: number[] }  // queued: its first call, the median, its last
const STEPS = ['gather', 'to device', 'compute', 'from device', 'answer'];
const COLORS = ['--c7', '--c4', '--c1', '--c3', '--c7'];
const MOST = 2000;
const ROW = 26, LEFT = 96, RIGHT = 8;  // pixels of a row, of the names before it, and behind it; where everything has its usual size

const read = (b: number[]): Batch => ({n: b[0], instance: b[1], calls: b[2], rows: b[3], queued: b.slice(4, 7), marks: b.slice(7)});
const begin = (b: Batch) => b.marks[0], end = (b: Batch) => b.marks[b.marks.length - 1];
// How long its calls have waited: the shortest, the median and the longest time, in seconds.
const waits = (b: Batch) => [...b.queued].reverse().map((t) => (begin(b) - t) / 1e6);
const waited = (b: Batch) => {
  const [least, median, most] = waits(b).map((s) => show(s, 's'));
  return b.calls < 2 || least === most ? most : `${least} to ${most}, median ${median}`;
};

// A row for each batch that an instance has under way at once.
function place(batches: Batch[]) {
  const rows: {instance: number; end: number}[] = [], at: number[] = [];
  for (const b of batches) {
    let y = rows.findIndex((r) => r.instance === b.instance && r.end <= begin(b));
    if (y < 0) y = rows.push({instance: b.instance, end: 0}) - 1;
    rows[y].end = end(b);
    at.push(y);
  }
  const order = rows.map((_, i) => i).sort((a, b) => rows[a].instance - rows[b].instance || a - b);
  return {rows: order.map((i) => rows[i].instance), at: at.map((y) => order.indexOf(y))};
}

export function BatchTimeline({model, version, tokens}: {model: string; version: string; tokens: boolean}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [state, set] = useState<{batches: Batch[]; now: number; places: string[]; missed: number}>({batches: [], now: 0, places: [], missed: 0});
  const [error, setError] = useState(''), [paused, pause] = useState(false);
  const [view, setView] = useState({span: 2e6, back: 0});  // µs that are shown, and how long ago they end
  const [picked, pick] = useState<Batch | null>(null);
  const [table, setTable] = useState(false);

  useEffect(() => {
    if (paused) return;
    const stop = new AbortController();
    let timer = 0, after = -1;
    const turn = async () => {
      try {
        const answer = await getJson<Answer>(`/console/v1/batches?model=${encodeURIComponent(model)}&version=${encodeURIComponent(version)}&after=${after}`, stop.signal);
        const fresh = answer.batches.map(read);
        if (after < 0 && fresh.length) after = fresh[0].n - 1;
        const missed = fresh.length ? Math.max(0, fresh[0].n - after - 1) : 0;
        if (fresh.length) after = fresh.at(-1)!.n;
        set((s) => ({batches: [...s.batches, ...fresh].slice(-MOST), now: answer.now, places: answer.places, missed: s.missed + missed}));
        setError('');
      } catch (problem) {
        if (!stop.signal.aborted) setError(errorText(problem));
        if (problem instanceof ApiError && problem.status < 500) return;
      }
      if (!stop.signal.aborted) timer = window.setTimeout(turn, document.hidden ? 5000 : 1000);
    };
    void turn();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [model, version, paused]);

  // What stands still ends with its last batch, and so does what has not moved for as long as is shown.
  const last = state.batches.at(-1), rest = last && (paused || state.now - end(last) > view.span);
  const until = (rest ? end(last!) + view.span * 0.02 : state.now) - view.back, from = until - view.span;
  const shown = state.batches.filter((b) => end(b) >= from && Math.min(b.queued[0], begin(b)) <= until);
  const rows = place(shown), height = Math.max(2, rows.rows.length) * ROW + 24;

  const draw = () => {
    const c = canvas.current;
    if (!c) return;
    const by = (devicePixelRatio || 1) * scale(), width = c.clientWidth / scale(), style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    c.width = Math.round(width * by), c.height = Math.round(height * by);
    const g = c.getContext('2d')!;
    g.scale(by, by);
    g.font = '11px system-ui, sans-serif';
    const x = (t: number) => LEFT + ((width - LEFT - RIGHT) * (t - from)) / view.span;
    // 1, 2 or 5 times a power of ten, as far apart as the labels are long.
    const least = (view.span * 84) / Math.max(1, width - LEFT - RIGHT), power = 10 ** Math.floor(Math.log10(least));
    const every = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least)!;
    g.strokeStyle = color('--grid'), g.fillStyle = color('--ink-2'), g.lineWidth = 1;
    for (let ago = Math.ceil(view.back / every) * every; ago < view.back + view.span; ago += every) {
      const t = until - (ago - view.back);
      g.beginPath(), g.moveTo(x(t), 0), g.lineTo(x(t), height - 18), g.stroke();
      const label = ago ? `−${show(ago / 1e6, 's')}` : 'now';
      g.fillText(label, Math.min(x(t) + 3, width - g.measureText(label).width - 2), height - 6);
    }
    rows.rows.forEach((instance, y) => {
      if (rows.rows[y - 1] !== instance) g.fillText(`${instance} ${state.places[instance] ?? ''}`.slice(0, 15), 2, y * ROW + 16);
    });
    shown.forEach((b, i) => {
      const y = rows.at[i] * ROW + 4;
      // A line as long as each wait: the longest is thin, from the median on it is thick, from the last call on thicker.
      g.fillStyle = color('--wait');
      b.queued.forEach((t, i) => g.fillRect(x(t), y + 16 - i, Math.max(0, x(begin(b)) - x(t)), 1.5 + i));
      for (let s = 0; s < STEPS.length; ++s) {
        g.fillStyle = color(COLORS[s]);
        const a = x(b.marks[s]), w = x(b.marks[s + 1]) - a;
        if (w > 0) g.fillRect(a, y, Math.max(w, s === 2 ? 1.5 : 0.4), 13);
      }
      if (x(end(b)) - x(begin(b)) > 18) {
        g.fillStyle = color('--on-bar');
        g.fillText(String(b.rows), x(begin(b)) + 4, y + 10.5);
      }
      if (b === picked) g.strokeStyle = color('--ink'), g.strokeRect(x(begin(b)) - 1, y - 1, Math.max(3, x(end(b)) - x(begin(b))) + 2, 15);
    });
  };
  const latest = useRef(draw);
  latest.current = draw;
  useEffect(draw);
  useEffect(() => {
    const again = () => void requestAnimationFrame(() => latest.current()), off = onTheme(again);
    addEventListener('resize', again);
    return () => { off(); removeEventListener('resize', again); };
  }, []);

  // `part` of what is shown, from the left, stays where it is.
  const zoom = (by: number, part = 1) => {
    pause(true);
    setView((v) => {
      const span = Math.min(6e7, Math.max(200, v.span * by));
      return {span, back: Math.max(0, v.back + (1 - part) * (v.span - span))};
    });
  };
  const move = (by: number) => { pause(true); setView((v) => ({...v, back: Math.max(0, v.back + by * v.span)})); };
  const key = (e: KeyboardEvent) => {
    const act = ({'+': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => move(0.25), ArrowRight: () => move(-0.25), ' ': () => pause(!paused)} as Record<string, () => void>)[e.key];
    if (act) e.preventDefault(), act();
  };
  const partOf = (e: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return ((e.clientX - box.left) / scale() - LEFT) / (box.width / scale() - LEFT - RIGHT);
  };
  const hover = (e: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect(), t = from + partOf(e) * view.span;
    const y = Math.floor((e.clientY - box.top) / scale() / ROW), slack = (4 * view.span) / box.width;
    pick(shown.find((b, i) => rows.at[i] === y && begin(b) - slack <= t && t <= end(b) + slack) ?? null);
  };
  const wheel = (e: WheelEvent) => {
    if (!e.ctrlKey && !e.shiftKey) return;
    e.preventDefault();
    zoom(e.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, partOf(e))));
  };
  const what = tokens ? 'step' : 'batch';
  const words = (b: Batch) => tokens
    ? `step ${b.n}: ${b.rows} tokens, ${b.calls} of them decoded, ${b.rows - b.calls} of prompts; ${show((end(b) - begin(b)) / 1e6, 's')}`
    : `batch ${b.n}: ${b.rows} rows of ${b.calls} calls; waited ${waited(b)}; ` +
      STEPS.map((s, i) => [s, b.marks[i + 1] - b.marks[i]] as const).filter(([, t]) => t > 0).map(([s, t]) => `${s} ${show(t / 1e6, 's')}`).join(', ');
  return (
    <figure class="card full chart">
      <figcaption><span class="title">{tokens ? 'Steps' : 'Batch timeline'}</span>
        <span class="note">{whole(state.batches.length)} kept{state.missed ? `, ${whole(state.missed)} too fast to be shown` : ''}; {show(view.span / 1e6, 's')} across</span>
        <button type="button" class="quiet" aria-pressed={paused} onClick={() => { pause(!paused); if (paused) setView((v) => ({...v, back: 0})); }}>{paused ? 'Live' : 'Pause'}</button>
        <button type="button" class="quiet" onClick={() => zoom(0.5)} aria-label="Zoom in">+</button>
        <button type="button" class="quiet" onClick={() => zoom(2)} aria-label="Zoom out">−</button>
        <button type="button" class="quiet" onClick={() => move(0.5)} aria-label="Earlier">‹</button>
        <button type="button" class="quiet" onClick={() => move(-0.5)} aria-label="Later">›</button>
        <button type="button" class="quiet" aria-pressed={table} onClick={() => setTable(!table)}>{table ? 'Chart' : 'Table'}</button>
      </figcaption>
      <Problem text={error} />
      {!table && <div class="plot" tabIndex={0} role="img" onKeyDown={key}
        aria-label={`Timeline of the last ${shown.length} ${what}es. ${last ? `The last: ${words(last)}` : 'None yet.'} Plus and minus zoom, arrows move, space stops.`}>
        <canvas ref={canvas} style={{width: '100%', height: `${height * scale()}px`}} onMouseMove={hover} onMouseLeave={() => pick(null)} onWheel={wheel} aria-hidden="true" />
        {!shown.length && <p class="empty">No {what}es in this time.</p>}
      </div>}
      {table && <div class="scroll" tabIndex={0} role="region" aria-label="Batches"><table>
        <thead><tr>{[what, 'instance', tokens ? 'decoded' : 'calls', tokens ? 'tokens' : 'rows'].map((t) => <th scope="col" class="n">{t}</th>)}{!tokens && ['waited least', 'median', 'most'].map((t) => <th scope="col" class="n">{t}</th>)}{STEPS.map((s) => <th scope="col" class="n">{s}</th>)}</tr></thead>
        <tbody>{shown.slice(-100).reverse().map((b) => <tr><th scope="row" class="n">{b.n}</th><td class="n">{b.instance}</td><td class="n">{b.calls}</td><td class="n">{b.rows}</td>
          {!tokens && waits(b).map((s) => <td class="n">{show(s, 's')}</td>)}{STEPS.map((_, i) => <td class="n">{show((b.marks[i + 1] - b.marks[i]) / 1e6, 's')}</td>)}</tr>)}</tbody></table></div>}
      <p class="legend">{!tokens && <span><i style={{background: 'var(--wait)'}} />waited: thicker from the median call, and from the last</span>}
        {STEPS.map((s, i) => (i && s === 'answer' ? null : <span><i style={{background: `var(${COLORS[i]})`}} />{s === 'gather' ? 'gather, answer' : s}</span>))}
        <span class="when">{picked ? words(picked) : ''}</span></p>
    </figure>
  );
}
