// One model: its signature, its configuration, and where the time of its requests goes.

import {useEffect, useState} from 'preact/hooks';
import {BatchTimeline} from '../parts/batches';
import {Chart, type Data} from '../parts/chart';
import {Card, Copy, Problem, State, useLive, useLoad} from '../parts/common';
import {getJson} from '../lib/api';
import {show, whole} from '../lib/format';
import {each, histogram, live, meanOf, rate, stageName, total, WAY} from '../lib/live';
import {quantile, type Histogram} from '../lib/series';
import {Actions, perCall, whereOf} from './models';

interface TensorSpec { name: string; datatype: string; shape: number[] }
export interface Metadata { name: string; versions?: string[]; platform: string; inputs: TensorSpec[]; outputs: TensorSpec[] }
interface Config { max_batch_size?: number; platform?: string; backend?: string; instance_group?: {name: string; count: number; kind: string; gpus: number[]}[];
  dynamic_batching?: {max_queue_delay_microseconds: number; preferred_batch_size: number[]; default_queue_policy?: {max_queue_size: number}} }
interface Timelines { kept: number; requests: {seconds: number; parts: {name: string; seconds: number}[]}[] }

export const modelPath = (name: string, version?: string) => `/v2/models/${encodeURIComponent(name)}${version ? `/versions/${encodeURIComponent(version)}` : ''}`;

const Tensors = ({title, list}: {title: string; list: TensorSpec[]}) => (
  <table><caption>{title}</caption><thead><tr><th scope="col">name</th><th scope="col">type</th><th scope="col">shape</th></tr></thead>
    <tbody>{list.map((t) => <tr><th scope="row"><code>{t.name}</code></th><td><code>{t.datatype}</code></td><td><code>[{t.shape.join(', ')}]</code></td></tr>)}</tbody></table>
);

// Where its instances run: as the lanes say it, else as the configuration does.
const placesOf = (c: Config, places?: string[]) => places?.length ? whereOf(places)
  : c.instance_group?.filter((g) => g.kind !== 'KIND_MODEL').map((g) => `${g.count} × ${g.kind.replace('KIND_', '').toLowerCase()}${g.gpus.length ? ` ${g.gpus.join(', ')}` : ''}`).join(', ') ?? '';

// In words: why the model's batches are as small as they are.
function whyNotBatched(config: Config, rows: number, batches: number, running: boolean) {
  const most = config.max_batch_size ?? 0;
  if (config.backend === 'llm') return 'Sequences share each step of the model: what runs at once is below.';
  if (most <= 1) return 'Not batched: max_batch_size is ' + most + '. The model takes one request at a time on each instance.';
  if (!config.dynamic_batching) return `Not batched across requests: dynamic_batching is off. A request may bring up to ${most} rows itself.`;
  const delay = config.dynamic_batching.max_queue_delay_microseconds;
  if (!running || !(batches > 0)) return `Up to ${most} rows share a batch; nothing runs now.`;
  const mean = rows / batches;
  if (mean < 1.5 && delay === 0) return `Up to ${most} rows may share a batch, and ${show(mean)} do: an instance is free when a request comes, so that it does not wait. max_queue_delay_microseconds would gather more, for latency.`;
  return `${show(mean)} of ${most} rows share a batch on average.`;
}

const cdfOf = (values: number[]): Data => {
  const sorted = [...values].sort((a, b) => a - b);
  return {x: sorted, ys: [sorted.map((_, i) => (i + 1) / sorted.length)]};
};
const cdfOfHistogram = (h: Histogram | undefined): Data => {
  if (!h || !h.count) return {x: [], ys: [[]]};
  const x: number[] = [], y: number[] = [];
  let below = 0;
  h.counts.forEach((n, i) => {
    below += n;
    if (Number.isFinite(h.bounds[i])) x.push(h.bounds[i]), y.push(below / h.count);
  });
  const first = Math.max(0, y.findIndex((v) => v > 0) - 1), end = y.findIndex((v) => v >= 1);
  return {x: x.slice(first, end < 0 ? undefined : end + 1), ys: [y.slice(first, end < 0 ? undefined : end + 1)]};
};

// The parts of the last requests, of which the server keeps some: exact where histograms have buckets.
const STAGES = ['receive', 'decode', 'queue', 'stage', 'compute', 'send'];
function Stages({model}: {model: string}) {
  const [turn, again] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => again(turn + 1), 3000);
    return () => clearTimeout(timer);
  }, [turn]);
  const loaded = useLoad<Timelines>((signal) => getJson(`/console/v1/timelines?last=200&model=${encodeURIComponent(model)}`, signal), [model, turn]);
  const [stage, setStage] = useState('whole');
  const [kept, keep] = useState<Timelines>();
  useEffect(() => { if (loaded.value) keep(loaded.value); }, [loaded.value]);
  const all = (kept?.requests ?? []).filter((r) => r.parts.length);
  const of = (name: string) => name === 'whole' ? all.map((r) => r.seconds) : all.map((r) => r.parts.find((p) => p.name === name)?.seconds ?? 0);
  const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / Math.max(1, values.length);
  const wholeMean = mean(of('whole')) || 1, values = of(stage).filter((v) => v > 0);
  return (
    <>
      <Card title="Where the time goes" more={<span class="note">the last {all.length} requests that were kept</span>}>
        <Problem text={loaded.error} />
        <div class="scroll"><table class="stages">
          <thead><tr><th scope="col">stage</th><th scope="col">share</th><th scope="col" class="n">mean</th><th scope="col" class="n">p50</th><th scope="col" class="n">p99</th></tr></thead>
          <tbody>{[...STAGES, 'whole'].map((name) => {
            const sorted = of(name).sort((a, b) => a - b), at = (q: number) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
            return <tr><th scope="row"><button type="button" class="link" aria-pressed={stage === name} onClick={() => setStage(name)}>{name}</button></th>
              <td><div class="share"><i style={{width: `${(100 * mean(sorted)) / wholeMean}%`}} class={`st-${name}`} /></div></td>
              <td class="n">{show(mean(sorted), 's')}</td><td class="n">{show(at(0.5), 's')}</td><td class="n">{show(at(0.99), 's')}</td></tr>;
          })}</tbody></table></div>
      </Card>
      <Chart title={`Latency CDF: ${stage}`} unit="%" max={1} note="of the same requests" lines={[{label: 'requests that took no longer', color: 0}]} data={cdfOf(values)}
        x={{label: 'time', unit: 's', log: true}} empty="No requests were kept yet." />
    </>
  );
}

function Tokens({match, id}: {match: Record<string, string>; id: string}) {
  const ttft = histogram('weir_model_time_to_first_token_seconds', match, 0), gap = histogram('weir_model_inter_token_seconds', match, 0);
  const asked = total('weir_model_prefix_cache_queries_total', match), found = total('weir_model_prefix_cache_hits_total', match);
  const log = {label: 'time', unit: 's' as const, log: true};
  return (
    <>
      <div class="tiles seven">
        {([['Running', whole(total('weir_model_sequences', {...match, state: 'running'})), 'sequences'], ['Waiting', whole(total('weir_model_sequences', {...match, state: 'waiting'})), 'sequences'],
          ['First token p50', show(quantile(ttft, 0.5), 's'), `p99 ${show(quantile(ttft, 0.99), 's')}`], ['Inter-token p50', show(quantile(gap, 0.5), 's'), `p99 ${show(quantile(gap, 0.99), 's')}`],
          ['Prefix hits', asked ? show(found / asked, '%') : '–', `of ${whole(asked)} tokens`], ['Preemptions', whole(total('weir_model_preemptions_total', match)), 'since the start'],
          ['KV in use', show(total('weir_model_kv_usage_ratio', match), '%'), `${whole(total('weir_model_kv_blocks', {...match, state: 'cached'}))} blocks cached`]] as const).map(([title, value, note]) =>
          <div class="tile card"><span class="title">{title}</span><b>{value}</b><span class="note">{note}</span></div>)}
      </div>
      <Chart title="Tokens" unit="tok/s" lines={[{label: 'generated', track: `m:${id}:generated`, color: 1}, {label: 'of prompts', track: `m:${id}:prompt`, color: 4}]} />
      <Chart title="Sequences" unit="sequences" lines={[{label: 'running', track: `m:${id}:running`, color: 0}, {label: 'waiting', track: `m:${id}:waiting`, color: 3}]} />
      <Chart title="KV in use" unit="%" max={1} lines={[{label: 'blocks held', track: `m:${id}:kv`, color: 4}]} />
      <Chart title="Time to first token, CDF" unit="%" max={1} note="since the start" x={log} lines={[{label: 'sequences that took no longer', color: 2}]} data={cdfOfHistogram(ttft)} empty="No tokens yet." />
      <Chart title="Between tokens, CDF" unit="%" max={1} note="since the start" x={log} lines={[{label: 'tokens that took no longer', color: 6}]} data={cdfOfHistogram(gap)} empty="No tokens yet." />
    </>
  );
}

export function Model({name, version}: {name: string; version?: string}) {
  useLive();
  const row = live.models.find((m) => m.name === name && (!version || m.version === version));
  const v = version ?? row?.version ?? '1', match = {model: name, version: v}, id = `${name}/${v}`;
  const meta = useLoad<Metadata>((signal) => getJson(modelPath(name, v), signal), [name, v, row?.state]);
  const config = useLoad<Config>((signal) => getJson(`${modelPath(name, v)}/config`, signal), [name, v, row?.state]);
  const isTokens = each('weir_model_kv_blocks', match).length > 0;
  const rows = rate('weir_model_inferences_total', match, 10), batches = rate('weir_model_executions_total', match, 10);
  const c = config.value, text = c ? JSON.stringify(c, null, 2) : '';
  return (
    <div class="grid">
      <section class="card full facts">
        <p>{row ? <State state={row.state} /> : null} {row?.reason && <span class="reason">{row.reason}</span>}
          {c && <span>{[c.platform || c.backend, c.max_batch_size ? `up to ${c.max_batch_size} rows a batch` : '', placesOf(c, row?.places)].filter(Boolean).join('; ')}</span>}</p>
        <p class="row"><a class="button primary" href={`#/try/${encodeURIComponent(name)}`}>Try it</a> <a class="button" href="#/models">All models</a> <Actions model={name} state={row?.state ?? ''} /></p>
        {c && <p class="note">{whyNotBatched(c, rows, batches, rows > 0)}</p>}
      </section>
      {isTokens && <Tokens match={match} id={id} />}
      <BatchTimeline key={id} model={name} version={v} tokens={isTokens} />
      <Stages model={name} />
      {!isTokens && <Chart title="Latency CDF, since the start" unit="%" max={1} note="of whole requests" x={{label: 'time', unit: 's', log: true}}
        lines={[{label: 'requests that took no longer', color: 2}]} data={cdfOfHistogram(histogram('weir_model_request_duration_seconds', {model: name}, 0))} empty="No requests yet." />}
      <Chart title="Time per call, by stage" unit="s" stacked note="mean of the last 10 s" lines={WAY.map((p, i) => ({label: stageName[p], track: `m:${id}:${p}`, color: [7, 3, 4, 0, 2, 1][i]}))} />
      <Chart title={isTokens ? 'Steps and sequences' : 'Rows and batches'} unit="/s" lines={[{label: isTokens ? 'sequences ended' : 'rows', track: `m:${id}:rows`, color: 0}, {label: isTokens ? 'steps' : 'batches', track: `m:${id}:batches`, color: 5}]} />
      {!isTokens && <Chart title="Calls waiting" unit="calls" lines={[{label: 'waiting', track: `m:${id}:pending`, color: 3}]} />}
      <BatchSizes match={match} />
      <Memory match={match} />
      <Card title="Signature"><Problem text={meta.error} />{meta.value && <><Tensors title="inputs" list={meta.value.inputs} /><Tensors title="outputs" list={meta.value.outputs} /></>}</Card>
      <Card title="Configuration in force" class="wide2 last" more={<Copy text={text} />}><Problem text={config.error} /><pre tabIndex={0}>{text}</pre></Card>
      <Card title="Now"><dl class="pairs">
        {WAY.map((p) => <div><dt>{stageName[p]}, a call</dt><dd>{show(p === 'receive' || p === 'send' ? meanOf(`weir_model_${p}_seconds`, {model: name}) : perCall(match, p), 's')}</dd></div>)}
        {!isTokens && <div><dt>rows a batch</dt><dd>{batches > 0 ? show(rows / batches) : '–'}</dd></div>}
        {each('weir_model_requests_total', match).map((s) => <div><dt>{s.labels.outcome}</dt><dd>{whole(live.values.get(s.key))}</dd></div>)}
      </dl></Card>
    </div>
  );
}

// What it has for as long as it is loaded: the same numbers as memory_usage of its statistics.
function Memory({match}: {match: Record<string, string>}) {
  const uses = each('weir_model_memory_bytes', match), bytes = (key: string) => live.values.get(key) ?? 0;
  const all = uses.reduce((sum, s) => sum + bytes(s.key), 0);
  return (
    <Card title="Memory" more={all > 0 && <span class="note">{show(all, 'B')} in all</span>}>
      {!uses.length && <p class="empty">None of its own: it has no files here.</p>}
      <dl class="pairs">{uses.map((s) => (
        <div data-memory={s.labels.what}><dt>{s.labels.what === 'kv' ? 'keys and values' : s.labels.what} <span class="note">{s.labels.place}</span></dt><dd>{show(bytes(s.key), 'B')}</dd>
          <dd class="meter"><div class="share"><i style={{width: `${(100 * bytes(s.key)) / all}%`}} /></div></dd></div>))}</dl>
    </Card>
  );
}

function BatchSizes({match}: {match: Record<string, string>}) {
  const h = histogram('weir_model_batch_rows', match, 0);
  if (!h?.count) return null;
  const used = h.bounds.map((b, i) => [b, h.counts[i]] as const).filter(([b]) => Number.isFinite(b)), last = used.findLastIndex(([, n]) => n > 0);
  const shown = used.slice(0, last + 1);
  return <Chart title="Batch sizes" unit="" bars note="since the start" x={{label: 'rows, at most', log: true}} lines={[{label: 'batches', color: 6}]} data={{x: shown.map(([b]) => b), ys: [shown.map(([, n]) => n)]}} />;
}
