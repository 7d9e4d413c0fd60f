// Overview: is it healthy, how much does it do, and what is in its way.

import {Bar, Card, State, useLive} from '../parts/common';
import {Chart, Spark, type Line} from '../parts/chart';
import {show, span, whole, type Unit} from '../lib/format';
import {each, histogramOfInference, history, isOwn, live, rate, total, trackNames} from '../lib/live';
import {quantile} from '../lib/series';

const Tile = ({title, value, unit, track, color, note}: {title: string; value: number; unit: Unit; track?: string; color?: number; note?: string}) => (
  <div class="tile card">
    <span class="title">{title}</span>
    <b data-tile={title}>{show(value, unit)}</b>
    <span class="note">{note ?? ''}</span>
    {track && <Spark track={track} label={title} color={color} />}
  </div>
);

const last = (track: string) => history([track], 1)[1][0] ?? NaN;

function Verdict() {
  const bad = live.models.filter((m) => m.state !== 'READY' && m.reason);
  // Models that are away for the same reason stand together: one mistake is often that of many.
  const reasons = new Map<string, typeof bad>();
  for (const m of bad) reasons.set(m.reason, [...(reasons.get(m.reason) ?? []), m]);
  // The server's words name each of them again.
  const why = bad.length && live.notReady.includes(bad[0].reason) ? `${bad.length} of ${live.models.length} model versions are not ready` : live.notReady;
  const started = total('process_start_time_seconds');
  const version = each('weir_build_info')[0]?.labels.version;
  const state = !live.connected ? 'bad' : live.notReady ? 'bad' : bad.length ? 'warn' : 'good';
  const ready = live.models.filter((m) => m.state === 'READY').length;
  return (
    <section class={`verdict card ${state}`} aria-live="polite">
      <i aria-hidden="true" />
      <div>
        <h2>{!live.time ? (live.trouble ? 'No live data' : 'Connecting…') : !live.connected ? 'The connection is lost' : live.notReady ? 'Not ready' : 'Healthy'}</h2>
        <p>{live.trouble || why || `${ready} of ${live.models.length} model versions serve`}</p>
        {bad.length > 0 && <ul>{[...reasons].slice(0, 8).map(([reason, models]) => <li>
          {models.slice(0, 12).map((m) => <><a href={`#/models/${encodeURIComponent(m.name)}/${encodeURIComponent(m.version)}`}>{m.name}</a> <State state={m.state} /> </>)}
          {models.length > 12 && `and ${models.length - 12} more `}<span class="why">{reason}</span></li>)}</ul>}
      </div>
      <dl>
        {version && <div><dt>version</dt><dd>{version}</dd></div>}
        {started > 0 && <div><dt>up for</dt><dd>{span(live.time / 1000 - started)}</dd></div>}
        <div><dt>connections</dt><dd>{whole(total('weir_connections'))}</dd></div>
        <div><dt>CPU</dt><dd>{show(rate('process_cpu_seconds_total', {}, 5), '%')}</dd></div>
      </dl>
    </section>
  );
}

function Protocols() {
  const rows = new Map<string, {ok: number; bad: number; now: number}>();
  for (const {key, labels} of each('weir_requests_total')) {
    const row = rows.get(labels.protocol) ?? {ok: 0, bad: 0, now: 0};
    row[labels.code === 'OK' ? 'ok' : 'bad'] += live.values.get(key) ?? 0;
    rows.set(labels.protocol, row);
  }
  for (const [protocol, row] of rows) row.now = rate('weir_requests_total', {protocol}, 2);
  const sorted = [...rows].sort(([a, x], [b, y]) => Number(isOwn(a)) - Number(isOwn(b)) || y.ok - x.ok);
  return (
    <Card title="Protocols since the start" class="wide2">
      <div class="scroll"><table>
        <thead><tr><th scope="col">protocol</th><th scope="col" class="n">now</th><th scope="col" class="n">answered</th><th scope="col" class="n">failed</th></tr></thead>
        <tbody>{sorted.map(([name, row]) => (
          <tr data-protocol={name}><th scope="row">{name}</th><td class="n">{show(row.now, '/s')}</td><td class="n" data-ok={row.ok}>{whole(row.ok)}</td>
            <td class={`n${row.bad && !isOwn(name) ? ' bad' : ''}`} data-failed={row.bad}>{whole(row.bad)}</td></tr>))}</tbody>
      </table></div>
    </Card>
  );
}

function Memory() {
  const budget = total('weir_slab_budget_bytes'), kinds = each('weir_tracked_bytes');
  const used = kinds.reduce((sum, s) => sum + (live.values.get(s.key) ?? 0), 0);
  const kv = each('weir_model_kv_blocks', {state: 'used'});
  return (
    <Card title="Memory">
      <dl class="pairs">
        <div><dt>held for clients</dt><dd>{show(used, 'B')} of {show(budget, 'B')}</dd><dd class="meter"><Bar part={budget ? used / budget : 0} label="memory held for clients" /></dd></div>
        {kinds.filter((s) => live.values.get(s.key)).map((s) => <div class="sub"><dt>{s.labels.kind}</dt><dd>{show(live.values.get(s.key)!, 'B')}</dd></div>)}
        {kv.map((s) => {
          const all = total('weir_model_kv_blocks', {...s.labels, state: 'total'}), n = live.values.get(s.key)!;
          return <div><dt>KV of {s.labels.model}</dt><dd>{whole(n)} of {whole(all)} blocks</dd><dd class="meter"><Bar part={all ? n / all : 0} label={`KV blocks of ${s.labels.model}`} /></dd></div>;
        })}
        <div><dt>sessions</dt><dd>{whole(total('weir_sessions'))}, {show(total('weir_session_bytes'), 'B')}</dd></div>
        <div><dt>process, resident</dt><dd>{show(total('process_resident_memory_bytes'), 'B')}</dd></div>
      </dl>
    </Card>
  );
}

function Shards() {
  const busy = each('weir_shard_busy_seconds_total'), longest = each('weir_shard_longest_turn_seconds');
  return (
    <Card title="Shards">
      <div class="scroll"><table>
        <thead><tr><th scope="col">shard</th><th scope="col">busy</th><th scope="col" class="n"><span class="sr">share</span></th><th scope="col" class="n">longest turn</th></tr></thead>
        <tbody>{longest.map((s) => {
          const part = busy.length ? rate('weir_shard_busy_seconds_total', {shard: s.labels.shard}, 2) : NaN;
          return <tr><th scope="row">{s.labels.shard}</th><td><Bar part={part} label={`shard ${s.labels.shard} busy`} /></td><td class="n">{show(part, '%')}</td>
            <td class="n">{show(live.values.get(s.key)!, 's')}</td></tr>;
        })}</tbody>
      </table></div>
      <p class="note">Turns of more than 25 ms so far: {each('weir_shard_slow_turns_total').filter((s) => live.values.get(s.key)).map((s) => `${whole(live.values.get(s.key))} ${s.labels.cause}`).join(', ') || 'none'}.</p>
    </Card>
  );
}

function Gpus() {
  const all = each('weir_gpu_memory_total_bytes');
  if (!all.length) return null;
  return (
    <Card title="GPUs">
      <dl class="pairs">{all.map((s) => {
        const used = total('weir_gpu_memory_used_bytes', s.labels), whole_ = live.values.get(s.key)!, busy = total('weir_gpu_utilization_ratio', s.labels);
        return <div><dt>{Object.values(s.labels).join(' ')}</dt><dd>{show(busy, '%')} busy, {show(used, 'B')} of {show(whole_, 'B')}, {show(total('weir_gpu_power_watts', s.labels))} W</dd>
          <dd class="meter"><Bar part={busy} label="busy" /></dd></div>;
      })}</dl>
    </Card>
  );
}

const lines = (prefix: string, name: (id: string) => string = (id) => id): Line[] =>
  trackNames(prefix).slice(0, 10).map((track, i) => ({label: name(track.slice(prefix.length)), track, color: i}));

export function Overview() {
  useLive();
  const h = histogramOfInference();
  const protocols = lines('req:').filter((l) => !isOwn(l.label)), errors = lines('err:');
  return (
    <div class="grid">
      <Verdict />
      <div class="tiles">
        <Tile title="Requests" value={last('requests')} unit="/s" track="requests" color={0} note="all protocols" />
        <Tile title="Latency p50" value={quantile(h, 0.5)} unit="s" track="lat:p50" color={2} note={`p99 ${show(quantile(h, 0.99), 's')}`} />
        <Tile title="Tokens" value={last('tokens:generated')} unit="tok/s" track="tokens:generated" color={1} note={`prompts ${show(last('tokens:prompt'), 'tok/s')}`} />
        <Tile title="Waiting" value={total('weir_model_pending')} unit="calls" track="queue:calls" color={3} note={`${whole(total('weir_model_sequences', {state: 'running'}))} sequences run`} />
      </div>
      <Chart title="Requests by protocol" unit="/s" stacked lines={protocols.length ? protocols : [{label: 'all', track: 'requests'}]} />
      <Chart title="Latency" unit="s" note="head to last byte; last 10 s" lines={[{label: 'p50', track: 'lat:p50', color: 2}, {label: 'p90', track: 'lat:p90', color: 3}, {label: 'p99', track: 'lat:p99', color: 5}]} empty="No requests yet." />
      <Chart title="Errors by cause" unit="/s" stacked lines={errors.length ? errors : [{label: 'none so far', track: 'err:'}]} empty="None so far." />
      <Chart title="Tokens" unit="tok/s" lines={[{label: 'generated', track: 'tokens:generated', color: 1}, {label: 'prompts', track: 'tokens:prompt', color: 4}]} />
      <Chart title="Queues" unit="calls" lines={[{label: 'calls waiting', track: 'queue:calls', color: 3}, {label: 'sequences waiting', track: 'queue:sequences', color: 6}]} />
      <Chart title="Memory held" unit="B" stacked lines={lines('mem:').filter((l) => l.label !== 'rss')} />
      <Protocols />
      <Memory />
      <Shards />
      <Gpus />
      <Card title="Last warnings" class={each('weir_gpu_memory_total_bytes').length ? 'full' : 'wide2 last'}>
        {live.warnings.length ? <ol class="log" tabIndex={0} aria-label="The last warnings">{[...live.warnings].reverse().map((line) => <li>{line}</li>)}</ol> : <p class="empty">None since the start.</p>}
      </Card>
    </div>
  );
}
