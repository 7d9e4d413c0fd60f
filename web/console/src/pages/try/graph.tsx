// An Evergreen session as a graph: nodes of content and the actions between them, drawn as they arrive.

import {useRef, useState} from 'preact/hooks';
import {ask, errorText, lines} from '../../lib/api';
import {show} from '../../lib/format';
import {Card, Problem} from '../../parts/common';
import {Snippets} from '../../parts/snippets';

interface Fragment { id: string; seq?: number; continued?: boolean; childIds?: string[]; chunkFragment?: {metadata?: {mimetype?: string; role?: string}; data?: string} }
interface Action { name: string; inputs?: {name: string; id: string}[]; outputs?: {name: string; id: string}[] }
interface Node { id: string; text: string; mime: string; chunks: number; bytes: number; done: boolean; at: number; children: string[] }
const encode = (text: string) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
const bytesOf = (text: string) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

function example(model: string, prompt: string, tokens: number) {
  const target = {id: `models/${model}`}, config = [{'@type': 'type.googleapis.com/weir.evergreen.v1.GenerateConfig', maxTokens: tokens, temperature: 0.8}];
  return {nodeFragments: [{id: 'question', chunkFragment: {metadata: {mimetype: 'text/plain', role: 'user'}, data: encode(prompt)}}],
    actions: [
      {name: 'GENERATE', inputs: [{name: 'text', id: 'question'}], outputs: [{name: 'text', id: 'answer'}, {name: 'usage', id: 'usage'}], configs: config, targetSpec: target},
      {name: 'GENERATE', inputs: [{name: 'text', id: 'question'}], outputs: [{name: 'text', id: 'other'}], configs: config, targetSpec: target},
      {name: 'TOKENIZE', inputs: [{name: 'text', id: 'answer'}], outputs: [{name: 'tokens', id: 'tokens'}], targetSpec: target},
    ]};
}

// Columns by how far a node is from what was sent.
function layout(nodes: Map<string, Node>, actions: Action[]) {
  const depth = new Map<string, number>();
  for (let turn = 0; turn < actions.length + 2; ++turn)
    for (const a of actions) {
      const d = Math.max(0, ...(a.inputs ?? []).map((i) => depth.get(i.id) ?? 0));
      for (const o of a.outputs ?? []) depth.set(o.id, Math.max(depth.get(o.id) ?? 0, d + 1));
    }
  const boxes: {key: string; x: number; y: number; node?: Node; action?: Action}[] = [], rows: number[] = [];
  const place = (key: string, column: number, more: object) => { const y = rows[column] ?? 0; rows[column] = y + 1; boxes.push({key, x: column, y, ...more}); };
  for (const n of nodes.values()) place(`n:${n.id}`, 2 * (depth.get(n.id) ?? 0), {node: n});
  actions.forEach((a, i) => place(`a:${i}`, 2 * Math.max(0, ...(a.inputs ?? []).map((x) => depth.get(x.id) ?? 0)) + 1, {action: a}));
  return {boxes, columns: rows.length, rows: Math.max(1, ...rows.filter(Boolean))};
}

export function Graph({model}: {model: string}) {
  const [prompt, setPrompt] = useState('What is curl?'), [count, setCount] = useState(24);
  const [own, setOwn] = useState(''), [nodes, setNodes] = useState(new Map<string, Node>()), [actions, setActions] = useState<Action[]>([]), [error, setError] = useState(''), [busy, setBusy] = useState(false);
  const stop = useRef<AbortController | null>(null);
  let message: {nodeFragments?: Fragment[]; actions?: Action[]} = {}, wrong = '';
  try { message = own.trim() ? JSON.parse(own) : example(model, prompt, count); } catch (problem) { wrong = errorText(problem); }
  const run = async () => {
    setBusy(true), setError('');
    stop.current = new AbortController();
    const all = new Map<string, Node>(), began = performance.now();
    const hear = (f: Fragment) => {
      const node = all.get(f.id) ?? {id: f.id, text: '', mime: '', chunks: 0, bytes: 0, done: false, at: NaN, children: []};
      const data = f.chunkFragment?.data ? bytesOf(f.chunkFragment.data) : undefined;
      if (Number.isNaN(node.at)) node.at = (performance.now() - began) / 1000;
      node.mime ||= f.chunkFragment?.metadata?.mimetype ?? '';
      if (data) node.bytes += data.length;
      if (data && node.text.length < 20000) node.text += /text|json/.test(node.mime || 'text') ? new TextDecoder().decode(data) : `‹${data.length} bytes› `;
      ++node.chunks, node.children.push(...(f.childIds ?? [])), node.done = !f.continued;
      all.set(f.id, node);
    };
    message.nodeFragments?.forEach(hear);
    setActions(message.actions ?? []);
    message.actions?.forEach((a) => a.outputs?.forEach((o) => { if (!all.has(o.id)) all.set(o.id, {id: o.id, text: '', mime: '', chunks: 0, bytes: 0, done: false, at: NaN, children: []}); }));
    setNodes(new Map(all));
    try {
      const answer = await ask('/evergreen/v2/session', {body: JSON.stringify(message), headers: {'content-type': 'application/json'}, signal: stop.current.signal});
      for await (const line of lines(answer)) {
        if (!line) continue;
        const heard = JSON.parse(line);
        if (heard.error) throw new Error(heard.error.message ?? JSON.stringify(heard.error));
        (heard.nodeFragments as Fragment[] | undefined)?.forEach(hear);
        setNodes(new Map(all));
      }
    } catch (problem) { if (!stop.current.signal.aborted) setError(errorText(problem)); }
    setBusy(false);
  };
  const {boxes, columns, rows} = layout(nodes, actions), W = 190, H = 92;
  const at = (key: string) => boxes.find((b) => b.key === key);
  const edges = actions.flatMap((a, i) => [...(a.inputs ?? []).map((p) => [`n:${p.id}`, `a:${i}`, p.name]), ...(a.outputs ?? []).map((p) => [`a:${i}`, `n:${p.id}`, p.name])]);
  return (
    <div class="grid two">
      <Card title="A session">
        <form onSubmit={(e) => { e.preventDefault(); void run(); }}>
          <div class="row"><label>Question <input size={30} value={prompt} onInput={(e) => setPrompt(e.currentTarget.value)} /></label>
            <label>Tokens <input type="number" min={1} max={512} value={count} onInput={(e) => setCount(+e.currentTarget.value)} /></label></div>
          <details><summary>A message of your own</summary><label>SessionMessage as JSON <textarea class="code" rows={10} value={own} placeholder={JSON.stringify(message, null, 1)} onInput={(e) => setOwn(e.currentTarget.value)} /></label></details>
          <p class="row"><button class="primary" disabled={busy || !!wrong}>{busy ? 'Running…' : 'Run'}</button>{busy && <button type="button" onClick={() => stop.current?.abort()}>Stop</button>}</p>
        </form>
        <Problem text={error || wrong} />
      </Card>
      <Card title="Nodes"><div class="scroll"><table><thead><tr><th scope="col">node</th><th scope="col">content</th><th scope="col" class="n">chunks</th><th scope="col" class="n">first after</th></tr></thead>
        <tbody>{[...nodes.values()].map((n) => <tr data-node={n.id}><th scope="row">{n.id}</th><td class="clip">{n.text || '…'}</td><td class="n">{n.chunks}{n.done ? '' : '…'}</td><td class="n">{show(n.at, 's')}</td></tr>)}</tbody></table></div></Card>
      {nodes.size > 0 && <figure class="card full"><figcaption><span class="title">The graph</span></figcaption>
        <div class="scroll graph" tabIndex={0} role="region" aria-label="Session graph"><svg viewBox={`0 0 ${columns * W} ${rows * H + 10}`} style={{minWidth: `${columns * 130}px`}} role="img" aria-label={`${nodes.size} nodes, ${actions.length} actions; the table has them in words`}>
          <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0l8 4-8 4z" /></marker></defs>
          {edges.map(([from, to, name]) => {
            const a = at(from), b = at(to);
            if (!a || !b) return null;
            const x1 = a.x * W + W - 22, y1 = a.y * H + 42, x2 = b.x * W + 8, y2 = b.y * H + 42;
            return <g class="edge"><path d={`M${x1} ${y1}C${x1 + 26} ${y1} ${x2 - 26} ${y2} ${x2} ${y2}`} marker-end="url(#head)" /><text x={(x1 + x2) / 2} y={(y1 + y2) / 2 - 5}>{name}</text></g>;
          })}
          {boxes.map((b) => <g class={b.action ? 'act' : `node${b.node!.done ? ' done' : b.node!.chunks ? ' live' : ''}`} transform={`translate(${b.x * W + 10} ${b.y * H + 10})`}>
            <rect width={W - 34} height={b.action ? 44 : 64} y={b.action ? 10 : 0} rx={b.action ? 22 : 9} />
            {b.action ? <text x={(W - 34) / 2} y="37" text-anchor="middle">{b.action.name}</text> : <>
              <text x="10" y="18" class="id">{b.node!.id}</text><text x="10" y="36">{b.node!.text.slice(-24).replace(/\s+/g, ' ') || '…'}</text><text x="10" y="54" class="small">{b.node!.chunks} {b.node!.chunks === 1 ? 'chunk' : 'chunks'}, {show(b.node!.bytes, 'B')}</text></>}
          </g>)}
        </svg></div></figure>}
      <Card class="full"><Snippets request={{path: '/evergreen/v2/session', body: message, stream: true, grpc: {service: 'evergreen.v2.EvergreenService', method: 'StartSession', body: message}}} /></Card>
    </div>
  );
}
