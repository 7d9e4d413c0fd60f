// Sessions of tokens (salience.v1): go on, rewind, fork, and compare continuations side by side.

import {useEffect, useRef, useState} from 'preact/hooks';
import {ask, errorText, lines, postJson} from '../../lib/api';
import {Card, Problem} from '../../parts/common';
import {Snippets} from '../../parts/snippets';
import {TokenView, type Token} from '../../parts/tokens';
import type {TextModel} from './chat';

interface Branch { id: string; name: string; tokens: Token[] }
interface Event { token?: {id?: number; position?: number; is_prefill?: boolean; sampled_logprob?: number; has_sampled_logprob?: boolean; logprobs?: {id?: number; logprob?: number}[]; readout?: number[]}; done?: object; error?: {message: string}; message?: string; code?: number }
const MOST = 4;
const call = <T,>(method: string, body: unknown) => postJson<T>(`/salience.v1.Salience/${method}`, body);

const texts = new Map<string, string>();
async function textOf(model: string, id: number): Promise<string> {
  const key = `${model} ${id}`;
  let text = texts.get(key);
  if (text === undefined) {
    text = (await postJson<{prompt: string}>('/detokenize', {model, tokens: [id]}).catch(() => ({prompt: `‹${id}›`}))).prompt;
    if (texts.size > 20000) texts.clear();
    texts.set(key, text);
  }
  return text;
}

export function Sessions({model}: {model: TextModel}) {
  const [branches, setBranches] = useState<Branch[]>([]), [error, setError] = useState(''), [busy, setBusy] = useState('');
  const [prompt, setPrompt] = useState('The river'), [count, setCount] = useState(16), [temperature, setTemperature] = useState(0.8);
  const current = useRef<Branch[]>([]), number = useRef(0);
  current.current = branches;
  useEffect(() => () => current.current.forEach((b) => void call('CloseSession', {session_id: b.id}).catch(() => {})), []);

  const guarded = async (what: string, act: () => Promise<void>) => {
    setBusy(what), setError('');
    await act().catch((problem) => setError(errorText(problem)));
    setBusy('');
  };
  const put = (b: Branch) => setBranches((all) => all.some((x) => x.id === b.id) ? all.map((x) => (x.id === b.id ? b : x)) : [...all, b]);
  const body = (b: {id: string; tokens: Token[]}, append: number[], cut?: number) => {
    const offset = cut ?? b.tokens.length, end = offset + append.length + count;
    return {session_id: b.id, append_tokens: append, offset, truncating: cut !== undefined, max_tokens: count, temperature, logprob_top_k: 5,
      logprobs_ranges: [{start: offset, end}], ...(model.readouts ? {readout_ranges: [{start: offset, end}]} : {})};
  };
  const generate = async (b: Branch, append: number[], cut?: number) => {
    const kept: Branch = {...b, tokens: b.tokens.slice(0, cut ?? b.tokens.length)};
    for (const id of append) kept.tokens.push({id, text: await textOf(model.id, id), prompt: true});
    const answer = await ask('/salience.v1.Salience/Generate', {body: JSON.stringify(body(b, append, cut)), headers: {'content-type': 'application/json'}});
    for await (const line of lines(answer)) {
      if (!line) continue;
      const event = JSON.parse(line) as Event, t = event.token;
      if (event.error || event.code) throw new Error(event.error?.message ?? event.message);
      if (!t) continue;
      const at = t.position ?? 0, id = t.id ?? 0, n = model.readouts?.concepts.length ?? 0;
      kept.tokens[at] = {id, text: await textOf(model.id, id), prompt: t.is_prefill, logprob: t.has_sampled_logprob ? t.sampled_logprob : undefined,
        top: await Promise.all((t.logprobs ?? []).map(async (a) => ({text: await textOf(model.id, a.id ?? 0), logprob: a.logprob ?? 0}))),
        readout: t.readout && n ? model.readouts!.layers.map((_, i) => t.readout!.slice(i * n, (i + 1) * n)) : undefined};
      put({...kept, tokens: [...kept.tokens]});
    }
  };
  const idsOf = async (text: string) => (await postJson<{tokens: number[]}>('/tokenize', {model: model.id, prompt: text})).tokens;
  const open = () => guarded('open', async () => {
    const {session_id} = await call<{session_id: string}>('OpenSession', {model: model.id});
    const b = {id: session_id, name: `session ${++number.current}`, tokens: []};
    put(b);
    await generate(b, await idsOf(prompt));
  });
  const fork = (b: Branch, at: number) => guarded('fork', async () => {
    const {session_id} = await call<{session_id: string}>('ForkSession', {session_id: b.id, at_position: at});
    const next = {id: session_id, name: `session ${++number.current}, of ${b.name.replace(/,.*/, '')} at ${at}`, tokens: b.tokens.slice(0, at)};
    put(next);
    await generate(next, []);
  });
  const rewind = (b: Branch, at: number) => guarded('rewind', () => generate(b, [], at));
  const close = (b: Branch) => guarded('close', async () => {
    await call('CloseSession', {session_id: b.id});
    setBranches((all) => all.filter((x) => x.id !== b.id));
  });
  const one = branches[0] ?? {id: '<session id>', tokens: []};
  const grpcBody = body({id: one.id, tokens: one.tokens}, []);
  return (
    <div class="grid two">
      <Card class="full" title="Sessions of tokens">
        <form class="row" onSubmit={(e) => { e.preventDefault(); void open(); }}>
          <label>Begin with <input size={32} value={prompt} onInput={(e) => setPrompt(e.currentTarget.value)} /></label>
          <label>Tokens <input type="number" min={1} max={512} value={count} onInput={(e) => setCount(+e.currentTarget.value)} /></label>
          <label>Temperature <input type="number" min={0.05} max={5} step={0.05} value={temperature} onInput={(e) => setTemperature(+e.currentTarget.value)} /></label>
          <button class="primary" disabled={!!busy || branches.length >= MOST}>{busy ? 'Running…' : 'Open a session'}</button>
        </form>
        <p class="note">The server keeps the tokens and their keys and values. Choose a token to fork there into a second session beside this one, or to rewind to it and say it differently.</p>
        <Problem text={error} />
      </Card>
      {branches.map((b) => (
        <Card key={b.id} title={b.name} more={<span class="actions"><button type="button" disabled={!!busy} onClick={() => guarded('go on', () => generate(b, []))}>Go on</button>
          <button type="button" class="quiet" disabled={!!busy} onClick={() => close(b)}>Close</button></span>}>
          <TokenView tokens={b.tokens} concepts={model.readouts} label={`Tokens of ${b.name}`} actions={(at) => (
            <p class="row"><button type="button" disabled={!!busy || branches.length >= MOST} onClick={() => fork(b, at)}>Fork here</button>
              <button type="button" disabled={!!busy || at === 0} onClick={() => rewind(b, at)}>Rewind to here</button></p>)} />
        </Card>))}
      {branches.length > 0 && <Card class="full"><Snippets request={{path: '/salience.v1.Salience/Generate', body: grpcBody, stream: true, grpc: {service: 'salience.v1.Salience', method: 'Generate', body: grpcBody}}} /></Card>}
    </div>
  );
}
