// Chat, and plain text: with every parameter, streamed, and token by token.

import {useRef, useState} from 'preact/hooks';
import {ask, errorText, events, postJson} from '../../lib/api';
import {show} from '../../lib/format';
import {Card, Problem} from '../../parts/common';
import {Snippets} from '../../parts/snippets';
import {TokenView, type Concepts, type Token} from '../../parts/tokens';

export interface TextModel { id: string; max_model_len?: number; images?: boolean; readouts?: Concepts }
interface Message { role: string; content: string; image?: string; tokens?: Token[]; note?: string; reasoning?: string; calls?: string }

const PARAMETERS: [string, string, number, number, number, string][] = [  // name, default, least, most, step, what it does
  ['max_tokens', '128', 1, 100000, 1, 'tokens at most'], ['temperature', '', 0, 2, 0.1, 'randomness; 0 takes the likeliest'], ['top_p', '', 0, 1, 0.05, 'of the likeliest tokens, those with this share'],
  ['top_k', '', -1, 1000, 1, 'of so many tokens'], ['min_p', '', 0, 1, 0.05, 'at least this part of the likeliest'], ['seed', '', 0, 2 ** 53, 1, 'the same answer again'],
  ['presence_penalty', '', -2, 2, 0.1, 'against what was said'], ['frequency_penalty', '', -2, 2, 0.1, 'against what was said often'], ['repetition_penalty', '', 0.1, 10, 0.1, 'the same by a factor'],
  ['min_tokens', '', 0, 100000, 1, 'tokens at least'], ['top_logprobs', '5', 0, 20, 1, 'alternatives to show'],
];

export type Values = Record<string, string>;
export const firstValues = (): Values => Object.fromEntries(PARAMETERS.map(([name, value]) => [name, value]));
export function readValues(values: Values): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name] of PARAMETERS) if (values[name]?.trim()) out[name] = Number(values[name]);
  if (values.stop?.trim()) out.stop = values.stop.split('\n').filter(Boolean);
  return out;
}

export function Parameters({values, set, children}: {values: Values; set: (v: Values) => void; children?: preact.ComponentChildren}) {
  return (
    <details class="parameters"><summary>Parameters</summary>
      <div class="fields">
        {PARAMETERS.map(([name, , least, most, step, what]) => <label title={what}>{name}
          <input type="number" min={least} max={most} step={step} value={values[name]} placeholder="default" onInput={(e) => set({...values, [name]: e.currentTarget.value})} /></label>)}
        <label>stop, one a line <textarea rows={1} value={values.stop ?? ''} onInput={(e) => set({...values, stop: e.currentTarget.value})} /></label>
        {children}
      </div></details>
  );
}

const json = (text: string, what: string) => {
  try { return JSON.parse(text); } catch (problem) { throw new Error(`${what}: ${errorText(problem)}`); }
};
const dataUrl = (file: File) => new Promise<string>((done, fail) => {
  const reader = new FileReader();
  reader.onload = () => done(String(reader.result)), reader.onerror = () => fail(reader.error);
  reader.readAsDataURL(file);
});

interface Logprob { token: string; logprob: number; top_logprobs?: {token: string; logprob: number}[] }

export function Chat({model}: {model: TextModel}) {
  const [messages, setMessages] = useState<Message[]>([]), [draft, setDraft] = useState(''), [image, setImage] = useState(''), [system, setSystem] = useState('');
  const [values, setValues] = useState(firstValues()), [tools, setTools] = useState(''), [schema, setSchema] = useState(''), [more, setMore] = useState('');
  const [error, setError] = useState(''), [busy, setBusy] = useState(false), [view, setView] = useState(-1);
  const stop = useRef<AbortController | null>(null);

  const wire = (list: Message[]) => [...(system ? [{role: 'system', content: system}] : []), ...list.map((m) => ({role: m.role,
    content: m.image ? [{type: 'text', text: m.content}, {type: 'image_url', image_url: {url: m.image}}] : m.content}))];
  const bodyOf = (list: Message[]) => {
    const body: Record<string, unknown> = {model: model.id, messages: wire(list), stream: true, ...readValues(values), logprobs: true};
    if (model.readouts) body.readouts = true;
    if (tools.trim()) body.tools = json(tools, 'tools');
    if (schema.trim()) body.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: json(schema, 'JSON schema')}};
    return {...body, ...(more.trim() ? json(more, 'more members') : {})};
  };
  const say = async (list: Message[]) => {
    setBusy(true), setError('');
    stop.current = new AbortController();
    const answer: Message = {role: 'assistant', content: '', tokens: []}, began = performance.now();
    let first = 0;
    const update = () => setMessages([...list, {...answer, tokens: [...answer.tokens!]}]);
    try {
      const reply = await ask('/v1/chat/completions', {body: JSON.stringify(bodyOf(list)), headers: {'content-type': 'application/json'}, signal: stop.current.signal});
      update(), setView(list.length);
      for await (const {data} of events(reply)) {
        if (data === '[DONE]') break;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        const choice = chunk.choices?.[0];
        if (!choice) continue;
        if (choice.delta.content) first ||= performance.now(), answer.content += choice.delta.content;
        answer.reasoning = (answer.reasoning ?? '') + (choice.delta.reasoning_content ?? choice.delta.reasoning ?? '');
        if (choice.delta.tool_calls) answer.calls = (answer.calls ?? '') + choice.delta.tool_calls.map((c: {function?: {name?: string; arguments?: string}}) => (c.function?.name ? `\n${c.function.name} ` : '') + (c.function?.arguments ?? '')).join('');
        (choice.logprobs?.content as Logprob[] | undefined)?.forEach((t, i) => answer.tokens!.push({text: t.token, logprob: t.logprob, id: choice.token_ids?.[i],
          top: t.top_logprobs?.map((a) => ({text: a.token, logprob: a.logprob})), readout: choice.readouts?.[i]?.values}));
        if (choice.finish_reason) answer.note = `${choice.finish_reason}; ${answer.tokens!.length} tokens, first after ${show((first - began) / 1000, 's')}, ${show(answer.tokens!.length / Math.max(0.001, (performance.now() - first) / 1000), 'tok/s')}`;
        update();
      }
    } catch (problem) {
      if (stop.current.signal.aborted) answer.note = 'stopped', update();
      else setError(errorText(problem));
    }
    setBusy(false);
  };
  const send = (event: Event) => {
    event.preventDefault();
    if (!draft.trim() || busy) return;
    const list = [...messages, {role: 'user', content: draft, image: image || undefined}];
    setMessages(list), setDraft(''), setImage('');
    void say(list);
  };
  let request: Record<string, unknown>, wrong = '';
  const asked = messages.filter((m, i) => !(i === messages.length - 1 && m.role === 'assistant'));
  try { request = bodyOf(asked.length ? asked : [{role: 'user', content: draft || 'What is curl?'}]); } catch (problem) { request = {}, wrong = errorText(problem); }
  const shownTokens = messages[view]?.tokens;
  return (
    <div class="grid two">
      <Card title="Chat" more={<button type="button" class="quiet" disabled={busy} onClick={() => { setMessages([]); setView(-1); }}>New</button>}>
        <label>System prompt <textarea rows={1} value={system} onInput={(e) => setSystem(e.currentTarget.value)} /></label>
        <ol class="talk" aria-live="polite" aria-busy={busy}>{messages.map((m, i) => (
          <li class={m.role}><b class="who">{m.role}</b>
            {m.image && <img src={m.image} alt="The image of this message" />}
            {m.reasoning && <details><summary>Reasoning</summary><p class="said">{m.reasoning}</p></details>}
            <p class="said" data-role={m.role}>{m.content}{busy && i === messages.length - 1 && m.role === 'assistant' && <span class="caret" aria-hidden="true" />}</p>
            {m.calls && <pre>{m.calls.trim()}</pre>}
            <p class="row">{m.note && <span class="note">{m.note}</span>}
              {m.tokens && m.tokens.length > 0 && <button type="button" class="quiet" aria-pressed={view === i} onClick={() => setView(view === i ? -1 : i)}>Tokens</button>}
              {m.role === 'assistant' && !busy && <button type="button" class="quiet" onClick={() => { const list = messages.slice(0, i); setMessages(list); void say(list); }}>Again</button>}</p>
          </li>))}</ol>
        {!messages.length && <p class="row">{['What is curl?', 'Tell me of the sea.', 'Who was Ada Lovelace?'].map((text) => <button type="button" class="quiet chip" onClick={() => setDraft(text)}>{text}</button>)}</p>}
        <Problem text={error || wrong} />
        <form onSubmit={send}>
          <label class="sr" for="draft">Message</label>
          <textarea id="draft" rows={2} placeholder="Say something" value={draft} onInput={(e) => setDraft(e.currentTarget.value)} onKeyDown={(e) => { if (e.key === 'Enter' && !e.shiftKey) send(e); }} />
          {image && <p class="row"><img class="thumb" src={image} alt="To be sent" /><button type="button" class="quiet" onClick={() => setImage('')}>Remove</button></p>}
          <p class="row"><button class="primary" disabled={busy || !draft.trim()}>Send</button>
            {busy && <button type="button" onClick={() => stop.current?.abort()}>Stop</button>}
            {model.images && <label class="button">Image <input class="sr" type="file" accept="image/png,image/jpeg,image/webp" onChange={async (e) => { const file = e.currentTarget.files?.[0]; if (file) setImage(await dataUrl(file)); }} /></label>}</p>
          <Parameters values={values} set={setValues}>
            <label class="wide">tools, as OpenAI has them <textarea class="code" rows={2} placeholder='[{"type": "function", "function": {…}}]' value={tools} onInput={(e) => setTools(e.currentTarget.value)} /></label>
            <label class="wide">JSON schema of the answer <textarea class="code" rows={2} placeholder='{"type": "object", …}' value={schema} onInput={(e) => setSchema(e.currentTarget.value)} /></label>
            <label class="wide">more members of the request, as JSON <textarea class="code" rows={1} placeholder='{"priority": 1}' value={more} onInput={(e) => setMore(e.currentTarget.value)} /></label>
          </Parameters>
        </form>
      </Card>
      <Card title="Token view">{shownTokens?.length ? <TokenView tokens={shownTokens} concepts={model.readouts} label="The answer's tokens" /> : <p class="empty">An answer's tokens are shown here: how likely each was, and what else it might have been{model.readouts ? ', and what the model had in mind' : ''}.</p>}</Card>
      <Card class="full"><Snippets request={{path: '/v1/chat/completions', body: request, stream: true}} /></Card>
    </div>
  );
}

interface Completion { choices: {text: string; finish_reason: string; logprobs: {tokens: string[]; token_logprobs: (number | null)[]; top_logprobs?: (Record<string, number> | null)[]}; readouts?: {position: number; token_id: number; values: number[][]}[]}[]; usage: {prompt_tokens: number} }

// A text that goes on: prompt and continuation, token by token.
export function Text({model}: {model: TextModel}) {
  const [prompt, setPrompt] = useState('curl is a tool that'), [values, setValues] = useState<Values>({...firstValues(), max_tokens: '32'});
  const [tokens, setTokens] = useState<Token[]>([]), [error, setError] = useState(''), [busy, setBusy] = useState(false);
  const {top_logprobs: top, ...rest} = readValues(values);
  const body = {model: model.id, prompt, echo: true, logprobs: Math.min(20, Number(top ?? 5)), ...rest, ...(model.readouts ? {readouts: [[0, model.max_model_len ?? 4096]]} : {})};
  const run = async () => {
    setBusy(true), setError('');
    try {
      const {choices: [c], usage} = await postJson<Completion>('/v1/completions', body);
      setTokens(c.logprobs.tokens.map((text, i) => {
        const readout = c.readouts?.find((r) => r.position === i);
        return {text, logprob: c.logprobs.token_logprobs[i], prompt: i < usage.prompt_tokens, id: readout?.token_id, readout: readout?.values,
          top: Object.entries(c.logprobs.top_logprobs?.[i] ?? {}).map(([t, logprob]) => ({text: t, logprob})).sort((a, b) => b.logprob - a.logprob)};
      }));
    } catch (problem) { setError(errorText(problem)); }
    setBusy(false);
  };
  return (
    <div class="grid two">
      <Card title="Text">
        <form onSubmit={(e) => { e.preventDefault(); void run(); }}>
          <label>Prompt <textarea rows={4} value={prompt} onInput={(e) => setPrompt(e.currentTarget.value)} /></label>
          <p class="row"><button class="primary" disabled={busy}>{busy ? 'Running…' : 'Continue it'}</button></p>
          <Parameters values={values} set={setValues} />
        </form>
        <Problem text={error} />
      </Card>
      <Card title="Token view">{tokens.length ? <TokenView tokens={tokens} concepts={model.readouts} label="Prompt and continuation" /> : <p class="empty">Prompt and continuation, token by token.</p>}</Card>
      <Card class="full"><Snippets request={{path: '/v1/completions', body}} /></Card>
    </div>
  );
}
