// Tokens as the model made them: how likely each was, what else it might have been, and what the model had in mind.

import {useState} from 'preact/hooks';
import {show} from '../lib/format';

export interface Token { text: string; id?: number; logprob?: number | null; top?: {text: string; logprob: number}[]; readout?: number[][]; prompt?: boolean }
export interface Concepts { layers: number[]; concepts: string[] }

export function TokenView({tokens, concepts, label, actions}: {tokens: Token[]; concepts?: Concepts; label: string; actions?: (at: number) => preact.ComponentChildren}) {
  const [by, setBy] = useState(''), [layer, setLayer] = useState(0), [picked, pick] = useState(-1), [fixed, fix] = useState(-1);
  const at = picked >= 0 ? picked : fixed, token = tokens[at];
  const concept = concepts && by !== '' && by !== 'none' ? +by : -1;
  // Readouts have no range of their own: the largest one that is shown is full colour.
  const top = concept >= 0 ? Math.max(...tokens.map((t) => Math.abs(t.readout?.[layer]?.[concept] ?? 0)), 1e-9) : 1;
  const style = (t: Token) => {
    if (by === 'none') return {};
    if (concept >= 0) {
      const v = t.readout?.[layer]?.[concept];
      return v === undefined ? {} : {background: `color-mix(in srgb, ${v > 0 ? 'var(--c4)' : 'var(--c1)'} ${Math.round((75 * Math.abs(v)) / top)}%, transparent)`};
    }
    if (t.logprob === undefined || t.logprob === null) return {};
    return {background: `color-mix(in srgb, var(--c6) ${Math.round(65 * (1 - Math.exp(t.logprob)))}%, transparent)`};
  };
  const shown = (text: string) => text.replace(/\n/g, '⏎\n').replace(/\t/g, '⇥') || '∅';
  return (
    <div class="tokens">
      <div class="row">
        <label>Colour by <select value={by} onChange={(e) => setBy(e.currentTarget.value)}>
          <option value="">surprise (1 − probability)</option>{concepts?.concepts.map((name, i) => <option value={String(i)}>concept: {name}</option>)}<option value="none">nothing</option></select></label>
        {concept >= 0 && <label>Layer <select value={layer} onChange={(e) => setLayer(+e.currentTarget.value)}>{concepts!.layers.map((l, i) => <option value={i}>{l}</option>)}</select></label>}
        <span class="note">{tokens.length} tokens{concept >= 0 ? <>; <i class="key" style={{background: 'var(--c4)'}} /> for, <i class="key" style={{background: 'var(--c1)'}} /> against, up to {show(top)}</> : ''}</span>
      </div>
      <p class="text" role="group" aria-label={label} onMouseLeave={() => pick(-1)}>
        {tokens.map((t, i) => (
          <button type="button" class={`token${i === at ? ' on' : ''}${t.prompt ? ' prompt' : ''}`} style={style(t)} tabIndex={i === Math.max(0, fixed) ? 0 : -1} aria-pressed={i === fixed}
            onMouseEnter={() => pick(i)} onFocus={() => fix(i)} onClick={() => fix(i)}
            onKeyDown={(e) => {
              const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
              if (step) e.preventDefault(), ((step > 0 ? e.currentTarget.nextElementSibling : e.currentTarget.previousElementSibling) as HTMLElement | null)?.focus();
            }}>{shown(t.text)}</button>))}
      </p>
      <div class="detail" role="status">
        {token ? <div class="split">
          <div><p><b>{JSON.stringify(token.text)}</b> <span class="note">token {at}{token.id !== undefined ? `, id ${token.id}` : ''}{token.prompt ? ', of the prompt' : ''}</span></p>
            {token.logprob !== undefined && token.logprob !== null && <p>probability <b>{show(Math.exp(token.logprob), '%')}</b> <span class="note">log {show(token.logprob)}</span></p>}
            {actions?.(at)}</div>
          {token.top && token.top.length > 0 && <table class="bars"><caption>It might have been</caption><tbody>{token.top.map((a) =>
            <tr class={a.text === token.text ? 'best' : ''}><th scope="row"><code>{JSON.stringify(a.text)}</code></th><td><div class="share"><i class="st-compute" style={{width: `${100 * Math.exp(a.logprob)}%`}} /></div></td><td class="n">{show(Math.exp(a.logprob), '%')}</td></tr>)}</tbody></table>}
          {token.readout && concepts && <table class="bars"><caption>What the model has in mind, layer {concepts.layers[layer]}</caption><tbody>{concepts.concepts.map((name, i) => {
            const v = token.readout![layer]?.[i] ?? 0, most = Math.max(...token.readout![layer].map(Math.abs), 1e-9);
            return <tr><th scope="row">{name}</th><td><div class="share"><i class={v > 0 ? 'for' : 'against'} style={{width: `${(100 * Math.abs(v)) / most}%`}} /></div></td><td class="n">{v.toFixed(2)}</td></tr>;
          })}</tbody></table>}
        </div> : <p class="empty">Point at a token, or move with the arrow keys.</p>}
      </div>
    </div>
  );
}
