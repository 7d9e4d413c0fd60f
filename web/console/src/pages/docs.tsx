// Docs: what the server answers, and the settings by which it runs.

import {useEffect, useState} from 'preact/hooks';
import {at, getJson} from '../lib/api';
import {live} from '../lib/live';
import {Chart} from '../parts/chart';
import {Card, Problem, Tabs, useLive, useLoad} from '../parts/common';

interface Schema { $ref?: string; type?: string; properties?: Record<string, Schema>; items?: Schema; description?: string }
interface Operation { summary?: string; description?: string; tags?: string[]; 'x-permission'?: string; parameters?: {name: string; in: string; description?: string}[];
  requestBody?: {content: Record<string, {schema: Schema}>}; responses: Record<string, {description?: string; content?: Record<string, {schema: Schema}>}> }
interface OpenApi { info: {title: string; version: string}; paths: Record<string, Record<string, Operation>>; components: {schemas: Record<string, Schema>} }
interface Setting { key: string; value: string[]; origin: string; flag: string; variable: string; help: string }

const nameOf = (schema?: Schema) => schema?.$ref?.split('/').pop() ?? '';
const isRpc = (path: string) => /^\/[a-zA-Z0-9.]+\.[A-Za-z0-9]+\/[A-Za-z]+$/.test(path);

function Contents({title, content, schemas}: {title: string; content?: Record<string, {schema: Schema}>; schemas: Record<string, Schema>}) {
  if (!content) return null;
  return <>{Object.entries(content).map(([type, {schema}]) => {
    const name = nameOf(schema), known = schemas[name] ?? schema;
    return <details><summary>{title}: <code>{type}</code> {name}</summary><pre tabIndex={0}>{JSON.stringify(known, null, 2)}</pre></details>;
  })}</>;
}

function Api() {
  const api = useLoad<OpenApi>((signal) => getJson('/openapi.json', signal), []);
  const [filter, set] = useState(''), [kind, setKind] = useState('all');
  const all = Object.entries(api.value?.paths ?? {}).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({path, method: method.toUpperCase(), operation})));
  const rows = all.filter(({path, method, operation}) => (kind === 'all' || isRpc(path) === (kind === 'rpc')) && `${method} ${path} ${operation.summary ?? ''}`.toLowerCase().includes(filter.toLowerCase()));
  // gRPC's services, by the paths of their methods.
  const groups = new Map<string, typeof rows>();
  for (const row of rows) {
    const group = isRpc(row.path) ? row.path.split('/')[1] : `/${row.path.split('/')[1]}`;
    groups.set(group, [...(groups.get(group) ?? []), row]);
  }
  return (
    <Card class="full" title={api.value ? `${api.value.info.title} ${api.value.info.version}: ${rows.length} of ${all.length} operations` : 'The API'} more={<a href={at('/openapi.json')}>OpenAPI 3.1</a>}>
      <Problem text={api.error} />
      <p class="row"><label>Find <input type="search" value={filter} onInput={(e) => set(e.currentTarget.value)} /></label>
        <label>Show <select value={kind} onChange={(e) => setKind(e.currentTarget.value)}><option value="all">all</option><option value="rest">REST</option><option value="rpc">gRPC, Connect, JSON for RPCs</option></select></label></p>
      {[...groups].map(([group, list]) => (
        <section class="group"><h3>{group} <span class="note">{list.length}</span></h3>
          {list.map(({path, method, operation}) => (
            <details class="operation"><summary><b class={`verb ${method.toLowerCase()}`}>{method}</b> <code>{path}</code> <span class="note">{operation.summary}</span></summary>
              {operation.description && <p>{operation.description}</p>}
              {operation.parameters && operation.parameters.length > 0 && <table><tbody>{operation.parameters.map((p) => <tr><th scope="row"><code>{p.name}</code></th><td>{p.in}</td><td>{p.description}</td></tr>)}</tbody></table>}
              <Contents title="request" content={operation.requestBody?.content} schemas={api.value!.components.schemas} />
              {Object.entries(operation.responses).map(([status, r]) => <Contents title={status} content={r.content} schemas={api.value!.components.schemas} />)}
              <p class="note">permission: {operation['x-permission']}</p></details>))}
        </section>))}
    </Card>
  );
}

function Settings() {
  const loaded = useLoad<{settings: Setting[]}>((signal) => getJson('/console/v1/config', signal), []);
  const [filter, set] = useState(''), [changed, setChanged] = useState(false);
  const rows = (loaded.value?.settings ?? []).filter((s) => (!changed || s.origin) && `${s.key} ${s.help}`.includes(filter));
  return (
    <Card class="full" title={`Configuration in force: ${rows.length} settings`}>
      <Problem text={loaded.error} />
      <p class="row"><label>Find <input type="search" value={filter} onInput={(e) => set(e.currentTarget.value)} /></label>
        <label><input type="checkbox" checked={changed} onChange={(e) => setChanged(e.currentTarget.checked)} /> only what is not a default</label></p>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Settings"><table><thead><tr><th scope="col">setting</th><th scope="col">value</th><th scope="col">from</th><th scope="col">what it means</th></tr></thead>
        <tbody>{rows.map((s) => <tr data-setting={s.key}><th scope="row"><code title={[s.flag, s.variable].filter(Boolean).join(', ')}>{s.key}</code></th><td><code class="value">{s.value.join(', ') || '–'}</code></td>
          <td>{s.origin ? <b>{s.origin}</b> : <span class="note">default</span>}</td><td class="note">{s.help}</td></tr>)}</tbody></table></div>
    </Card>
  );
}

// The trends of GRPS' monitor, from its own API: 60 seconds, 60 minutes, 24 hours, 30 days of each series.
interface Trend { label: string; data: [number, number][] }
const SPANS: [string, number, number, number, string][] = [['60 seconds', 114, 174, 1, 's'], ['60 minutes', 54, 114, 60, 'min'], ['24 hours', 30, 54, 3600, 'h'], ['30 days', 0, 30, 86400, 'd']];
const MOST_CHARTS = 24;

function Grps() {
  useLive();
  const [whose, setWhose] = useState('*'), [span, setSpan] = useState(0), [turn, again] = useState(0), [series, setSeries] = useState<[string, Trend][]>([]);
  const now = useLoad<Record<string, number>>((signal) => getJson('/grps/v1/monitor/metrics', signal), [turn]);
  const names = Object.keys(now.value ?? {}), models = names.filter((n) => n.endsWith('_qps')).map((n) => n.slice(0, -4)).filter((n) => n !== '*').sort();
  const wanted = names.filter((n) => (whose === '*' ? n.startsWith('*') : n.startsWith(`${whose}_`))).slice(0, MOST_CHARTS);
  useEffect(() => {
    if (!wanted.length) return;
    const stop = new AbortController();
    Promise.all(wanted.map(async (name): Promise<[string, Trend]> => [name, await getJson(`/grps/v1/monitor/series?name=${encodeURIComponent(name)}`, stop.signal)])).then(setSeries, () => {});
    const timer = setTimeout(() => again(turn + 1), document.hidden ? 10000 : 2000);
    return () => { stop.abort(); clearTimeout(timer); };
  }, [now.value, whose]);
  const [, from, to, step] = SPANS[span], end = Math.floor(live.time / 1000) || Math.floor(Date.now() / 1000);
  return (
    <>
      <Card class="full" title="GRPS' monitor">
        <Problem text={now.error} />
        <p class="row"><label>Of <select value={whose} onChange={(e) => setWhose(e.currentTarget.value)}><option value="*">the server</option>{models.map((m) => <option value={m}>{m}</option>)}</select></label>
          <label>Over <select value={span} onChange={(e) => setSpan(+e.currentTarget.value)}>{SPANS.map(([name], i) => <option value={i}>{name}</option>)}</select></label>
          <span class="note">What <code>/grps/v1/monitor/metrics</code> and <code>/grps/v1/monitor/series</code> say, as GRPS' own tools read it.</span></p>
      </Card>
      {series.filter(([name]) => wanted.includes(name)).map(([name, trend]) => {
        const cdf = trend.label === 'cdf', points = cdf ? trend.data : trend.data.slice(from, to);
        return <Chart key={name + cdf} title={name} unit="" words="" height={130} lines={[{label: name, color: cdf ? 2 : 0}]} x={cdf ? {label: 'percentile', unit: ''} : undefined}
          note={cdf ? 'by percentile; 100 stands for 99.9, 101 for 99.99' : undefined}
          data={{x: points.map(([at], i) => (cdf ? at : end - (points.length - 1 - i) * step)), ys: [points.map(([, value]) => value)]}} />;
      })}
    </>
  );
}

const PARTS: [string, string][] = [['api', 'API'], ['config', 'Configuration'], ['grps', 'GRPS monitor']];
export function Docs({part = 'api'}: {part?: string}) {
  return (
    <>
      <Tabs label="Documents" tabs={PARTS} chosen={part} choose={(id) => { location.hash = `#/docs/${id}`; }} />
      <div class="grid">{part === 'config' ? <Settings /> : part === 'grps' ? <Grps /> : <Api />}</div>
      <p class="note">Also here: <a href={at('/docs')}>the reference without scripts</a>, <a href={at('/metrics')}>metrics</a>; as text, <code>curl {at('/docs')}</code> prints the manual of this version.</p>
    </>
  );
}
