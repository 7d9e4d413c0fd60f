// Requests: the access log, live, with filters; and where one request's time went.

import {useEffect, useRef, useState} from 'preact/hooks';
import {Problem, Copy, Card, useLoad, useLive} from '../parts/common';
import {ask, errorText, events, getJson} from '../lib/api';
import {show, whole} from '../lib/format';
import {each, live} from '../lib/live';

interface Row { time: string; request_id?: string; who?: string; peer?: string; protocol?: string; http?: string; method?: string; route?: string; model?: string; version?: string;
  status?: number; code?: string; bytes_in?: number; bytes_out?: number; seconds?: number; queue_seconds?: number; compute_seconds?: number; trace_id?: string; reason?: string }
interface Part { name: string; start: number; seconds: number }
type Timeline = Row & {parts: Part[]; request_body?: string; answer_body?: string};
const MOST = 500;            // rows that are kept
const MOST_A_SECOND = 300;   // lines that each shard tells, and as many failures

export function Waterfall({request}: {request: Timeline}) {
  const whole_ = Math.max(request.seconds ?? 0, ...request.parts.map((p) => p.start + p.seconds)) || 1e-6;
  return (
    <table class="waterfall"><caption class="sr">Where the time of this request went</caption>
      <thead class="sr"><tr><th scope="col">part</th><th scope="col">when</th><th scope="col">took</th></tr></thead>
      <tbody>{request.parts.map((p) => (
        <tr><th scope="row">{p.name}</th>
          <td><div class="track"><i class={`st-${p.name}`} style={{marginLeft: `${(100 * p.start) / whole_}%`, width: `${Math.max(0.4, (100 * p.seconds) / whole_)}%`}} /></div></td>
          <td class="n">{show(p.seconds, 's')}</td></tr>))}
        {!request.parts.length && <tr><td colSpan={3} class="empty">No parts: it reached no model.</td></tr>}
      </tbody></table>
  );
}

// Text where it is text; else bytes as hex, sixteen a line.
function readable(bytes: Uint8Array, cut: boolean): string {
  try {
    const text = new TextDecoder('utf-8', {fatal: true}).decode(bytes, {stream: cut});  // the last character may be cut
    if (!/[\0-\x08\x0e-\x1f]/.test(text)) return text;
  } catch { /* it is none */ }
  const hex = (n: number, width = 2) => n.toString(16).padStart(width, '0');
  return Array.from({length: Math.ceil(bytes.length / 16)}, (_, row) => {
    const part = [...bytes.slice(16 * row, 16 * row + 16)];
    return `${hex(16 * row, 4)}  ${part.map((b) => hex(b)).join(' ').padEnd(48)} ${part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '·')).join('')}`;
  }).join('\n');
}
function Body({title, start, whole: all = 0}: {title: string; start: string; whole?: number}) {
  const bytes = Uint8Array.from(atob(start), (c) => c.charCodeAt(0));
  return (
    <section><h3>{title} <span class="note">{bytes.length < all ? `the first ${show(bytes.length, 'B')} of ${show(all, 'B')}` : show(bytes.length, 'B')}</span></h3>
      {bytes.length ? <pre tabIndex={0} data-body={title}>{readable(bytes, bytes.length < all)}</pre> : <p class="empty">Empty.</p>}</section>
  );
}

function Detail({id}: {id: string}) {
  const loaded = useLoad<{requests: Timeline[]}>((signal) => getJson(`/console/v1/timelines?id=${encodeURIComponent(id)}`, signal), [id]);
  const r = loaded.value?.requests[0];
  return (
    <Card title="One request" class="full" more={<span class="actions"><button type="button" class="quiet" onClick={loaded.again}>Again</button><a class="button quiet" href="#/requests">Close</a></span>}>
      <Problem text={loaded.error} />
      {r && <div class="split"><Waterfall request={r} />
        <dl class="pairs">{(['request_id', 'trace_id', 'time', 'protocol', 'method', 'route', 'model', 'version', 'status', 'code', 'who', 'peer', 'http', 'bytes_in', 'bytes_out', 'reason'] as const).filter((k) => r[k] !== undefined)
          .map((k) => <div><dt>{k.replace('_', ' ')}</dt><dd>{String(r[k])} {k.endsWith('_id') && <Copy text={String(r[k])} />}</dd></div>)}
          <div><dt>took</dt><dd>{show(r.seconds, 's')}</dd></div></dl></div>}
      {r?.request_body !== undefined && <div class="split bodies"><Body title="Request body" start={r.request_body} whole={r.bytes_in} /><Body title="Answer body" start={r.answer_body ?? ''} whole={r.bytes_out} /></div>}
    </Card>
  );
}

export function Requests({id}: {id?: string}) {
  useLive();
  const [filter, setFilter] = useState({protocol: '', model: '', status: '', slow: ''});
  const [rows, setRows] = useState<Row[]>([]), [error, setError] = useState(''), [paused, setPaused] = useState(false), [dropped, setDropped] = useState(0);
  const shownFor = useRef('');
  const query = new URLSearchParams(Object.entries(filter).filter(([, v]) => v)).toString();
  useEffect(() => {
    if (paused) return;
    const stop = new AbortController(), buffer: Row[] = [];
    let timer = 0;
    // What came for another filter goes, once nothing more comes for it.
    if (shownFor.current !== query) setRows([]);
    shownFor.current = query;
    const flush = () => {
      timer = 0;
      const fresh = buffer.splice(0).reverse();
      setRows((old) => [...fresh, ...old].slice(0, MOST));
    };
    const run = async () => {
      for (let pause = 500; !stop.signal.aborted; pause = Math.min(pause * 2, 8000)) {
        try {
          for await (const {event, data} of events(await ask(`/console/v1/requests?most=${MOST_A_SECOND}&${query}`, {signal: stop.signal}))) {
            setError('');
            pause = 500;
            const value = JSON.parse(data);
            if (event === 'dropped') { setDropped((n) => n + value.dropped); continue; }
            if (value.protocol === 'console') continue;
            buffer.push(value);
            if (buffer.length > MOST) buffer.shift();
            timer ||= window.setTimeout(flush, 250);
          }
        } catch (problem) {
          if (stop.signal.aborted) return;
          setError(errorText(problem));
        }
        await new Promise((done) => setTimeout(done, pause));
      }
    };
    // What happened before, as far as it is kept; then what happens.
    getJson<{requests: Row[]}>(`/console/v1/timelines?last=50&${query}`, stop.signal).then(({requests}) => setRows((old) => (old.length ? old : requests))).catch(() => {});
    void run();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [query, paused]);
  const protocols = [...new Set(each('weir_requests_total').map((s) => s.labels.protocol))].sort(), models = [...new Set(live.models.map((m) => m.name))];
  const choice = (name: keyof typeof filter, label: string, options: [string, string][]) => (
    <label>{label} <select value={filter[name]} onChange={(e) => setFilter({...filter, [name]: e.currentTarget.value})}>
      <option value="">any</option>{options.map(([value, text]) => <option value={value}>{text}</option>)}</select></label>
  );
  return (
    <div class="grid">
      {id && <Detail id={id} />}
      <section class="card full">
        <header class="filters">
          {choice('protocol', 'Protocol', protocols.map((p) => [p, p]))}
          {choice('model', 'Model', models.map((m) => [m, m]))}
          {choice('status', 'Status', [['ok', 'ok'], ['failed', 'failed'], ['4xx', '4xx'], ['5xx', '5xx'], ['404', '404'], ['429', '429'], ['503', '503']])}
          {choice('slow', 'Slower than', [['1ms', '1 ms'], ['10ms', '10 ms'], ['100ms', '100 ms'], ['1s', '1 s'], ['10s', '10 s']])}
          <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{paused ? 'Go on' : 'Pause'}</button>
          <span class="note" role="status">{rows.length} shown{dropped ? `; ${whole(dropped)} left out, too many to tell` : ''}</span>
        </header>
        <Problem text={error} />
        <div class="scroll tall" tabIndex={0} role="region" aria-label="Requests"><table class="tail">
          <thead><tr><th scope="col">time</th><th scope="col">protocol</th><th scope="col">request</th><th scope="col">model</th><th scope="col">status</th><th scope="col" class="n">took</th><th scope="col" class="n">queue</th><th scope="col" class="n">compute</th><th scope="col" class="n">in / out</th><th scope="col">who</th></tr></thead>
          <tbody>{rows.map((r) => (
            <tr key={r.request_id ?? r.time} class={r.code && r.code !== 'OK' ? 'failed' : ''}>
              <td><time dateTime={r.time}>{r.time.slice(11, 23)}</time></td><td>{r.protocol}</td>
              <td>{r.request_id ? <a href={`#/requests/${encodeURIComponent(r.request_id)}`}>{r.method} {r.route}</a> : r.reason ?? '–'}</td>
              <td>{r.model}</td><td>{r.status} {r.code !== 'OK' && r.code}</td><td class="n">{show(r.seconds, 's')}</td><td class="n">{show(r.queue_seconds, 's')}</td><td class="n">{show(r.compute_seconds, 's')}</td>
              <td class="n">{show(r.bytes_in, 'B')} / {show(r.bytes_out, 'B')}</td><td>{r.who ?? r.peer}</td>
            </tr>))}</tbody></table>
          {!rows.length && <p class="empty">No request yet that fits.</p>}</div>
        <p class="note">Bodies are kept only where <code>console.bodies</code> says so. The same from a shell: <code>weir tail</code>, <code>weir trace</code>.</p>
      </section>
    </div>
  );
}
