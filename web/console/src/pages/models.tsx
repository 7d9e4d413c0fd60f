// Models: all of them, and what each does now.

import {useState} from 'preact/hooks';
import {Problem, State, useLive} from '../parts/common';
import {useAccess} from '../lib/access';
import {ask, errorText} from '../lib/api';
import {show, whole} from '../lib/format';
import {each, live, rate, total} from '../lib/live';

// Load, unload and reload are the console's own requests: the server wants this header with them.
export const change = (model: string, what: 'load' | 'unload') =>
  ask(`/console/v1/models/${encodeURIComponent(model)}/${what}`, {method: 'POST', headers: {'x-weir-console': '1'}});

export function Actions({model, state}: {model: string; state: string}) {
  const [busy, setBusy] = useState(''), [error, setError] = useState('');
  const {admin, why} = useAccess();
  const run = async (what: 'load' | 'unload') => {
    setBusy(what), setError('');
    try {
      await change(model, what);
    } catch (problem) {
      setError(errorText(problem));
    }
    setBusy('');
  };
  const ready = state === 'READY';
  if (!admin) return <span class="note" title={why}>read-only</span>;
  return (
    <span class="actions">
      <button type="button" disabled={!!busy} onClick={() => run('load')}>{busy === 'load' ? 'Loading…' : ready ? 'Reload' : 'Load'}<span class="sr"> {model}</span></button>
      {ready && <button type="button" disabled={!!busy} onClick={() => run('unload')}>{busy === 'unload' ? 'Unloading…' : 'Unload'}<span class="sr"> {model}</span></button>}
      <Problem text={error} />
    </span>
  );
}

// The server's "none: why", "none across requests: why", "of requests", as words behind the engine.
const batching = (text: string) => (text.startsWith('none') ? `not batched${text.slice(4)}` : `batches ${text}`);

// "2 × cpu, cuda:0"
export const whereOf = (places: string[]) => [...new Set(places)].map((place) => {
  const count = places.filter((p) => p === place).length;
  return count > 1 ? `${count} × ${place}` : place;
}).join(', ');

export const perCall = (match: Record<string, string>, phase: string, seconds = 10) => {
  const calls = rate('weir_model_requests_total', {...match, outcome: 'success'}, seconds);
  return calls > 0 ? rate('weir_model_time_seconds_total', {...match, phase}, seconds) / calls : NaN;
};

export function Models() {
  useLive();
  const [filter, set] = useState(''), {admin, why} = useAccess();
  const rows = live.models.filter((m) => m.name.includes(filter));
  return (
    <div class="grid">
      <section class="card full">
        <header><h2>{rows.length} of {live.models.length} model versions</h2>
          <label>Find <input type="search" value={filter} onInput={(e) => set(e.currentTarget.value)} /></label></header>
        <div class="scroll tall" tabIndex={0} role="region" aria-label="Models"><table class="models">
          <thead><tr><th scope="col">model</th><th scope="col">state</th><th scope="col" class="n">rows</th><th scope="col" class="n">batches</th>
            <th scope="col" class="n">rows a batch</th><th scope="col" class="n">waiting</th><th scope="col" class="n">queue</th><th scope="col" class="n">stage</th><th scope="col" class="n">compute</th>
            <th scope="col" class="n">failed</th><th scope="col">change</th></tr></thead>
          <tbody>{rows.map((m) => {
            const match = {model: m.name, version: m.version};
            const rowsNow = rate('weir_model_inferences_total', match, 2), batches = rate('weir_model_executions_total', match, 2);
            const tokens = each('weir_model_kv_blocks', match).length > 0;  // its batches are steps of many sequences
            const failed = each('weir_model_requests_total', match).filter((s) => s.labels.outcome !== 'success').reduce((sum, s) => sum + (live.values.get(s.key) ?? 0), 0);
            return (
              <tr data-model={m.name}>
                <th scope="row"><a href={`#/models/${encodeURIComponent(m.name)}/${encodeURIComponent(m.version)}`}>{m.name}</a> <span class="note">{m.version}</span>
                  {m.engine && <span class="served">{m.engine}{m.places?.length ? `, ${whereOf(m.places)}` : ''}{m.max_batch ? `, up to ${m.max_batch} rows` : ''}; {batching(m.batches ?? '')}</span>}
                  {m.reason && <span class="reason">{m.reason}</span>}</th>
                <td><State state={m.state} /></td>
                <td class="n">{show(rowsNow, '/s')}</td><td class="n">{show(batches, '/s')}</td><td class="n">{batches > 0 && !tokens ? show(rowsNow / batches) : '–'}</td>
                <td class="n">{whole(total('weir_model_pending', match))}</td>
                <td class="n">{show(perCall(match, 'queue'), 's')}</td><td class="n">{show(perCall(match, 'input'), 's')}</td><td class="n">{show(perCall(match, 'infer'), 's')}</td>
                <td class={`n${failed ? ' bad' : ''}`}>{whole(failed)}</td>
                <td><Actions model={m.name} state={m.state} /></td>
              </tr>);
          })}</tbody>
        </table></div>
        <p class="note">Queue, stage and compute: of one call, the mean of the last 10 s.</p>
        {!admin && why && <p class="note">Nothing can be loaded or unloaded from here: {why}.</p>}
      </section>
    </div>
  );
}
