// Small parts that all pages share.

import type {ComponentChildren} from 'preact';
import {useEffect, useRef, useState} from 'preact/hooks';
import {errorText} from '../lib/api';
import {live, onTick} from '../lib/live';

// The live values, and a new drawing of who uses them once a second.
export function useLive() {
  const [, turn] = useState(0);
  useEffect(() => onTick(() => { if (!document.hidden) turn((n) => n + 1); }), []);
  return live;
}

export interface Loaded<T> { value?: T; error?: string; again: () => void }
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, on: unknown[]): Loaded<T> {
  const [state, set] = useState<{value?: T; error?: string}>({});
  const [n, turn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    load(stop.signal).then((value) => set({value}), (error) => { if (!stop.signal.aborted) set({error: errorText(error)}); });
    return () => stop.abort();
  }, [...on, n]);
  return {...state, again: () => turn(n + 1)};
}

export const Card = ({title, children, class: name = '', more}: {title?: string; children: ComponentChildren; class?: string; more?: ComponentChildren}) => (
  <section class={`card ${name}`}>
    {title && <header><h2>{title}</h2>{more}</header>}
    {children}
  </section>
);

export const Problem = ({text}: {text?: string}) => (text ? <p class="problem" role="alert">{text}</p> : null);

const STATE: Record<string, string> = {READY: 'good', LOADING: 'busy', UNLOADING: 'busy', RETURNING: 'busy', UNAVAILABLE: 'bad', UNKNOWN: 'bad'};
export const State = ({state}: {state: string}) => <span class={`state ${STATE[state] ?? 'off'}`}>{state.toLowerCase()}</span>;

export function Copy({text, label = 'Copy'}: {text: string; label?: string}) {
  const [done, set] = useState(false);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <button type="button" class="quiet" onClick={async () => {
      await navigator.clipboard.writeText(text).catch(() => {});
      set(true);
      timer.current = window.setTimeout(() => set(false), 1500);
    }}>{done ? 'Copied' : label}</button>
  );
}

// Tabs as WAI-ARIA has them: arrows move, the panel is the next stop.
export function Tabs({label, tabs, chosen, choose}: {label: string; tabs: [string, string][]; chosen: string; choose: (id: string) => void}) {
  const move = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!step) return;
    const at = (tabs.findIndex(([id]) => id === chosen) + step + tabs.length) % tabs.length;
    choose(tabs[at][0]);
    ((event.currentTarget as HTMLElement).children[at] as HTMLElement).focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map(([id, text]) => <button type="button" role="tab" aria-selected={id === chosen} tabIndex={id === chosen ? 0 : -1} onClick={() => choose(id)}>{text}</button>)}
    </div>
  );
}

export const Bar = ({part, label}: {part: number; label: string}) => (
  <div class={`bar${part > 0.9 ? ' hot' : part > 0.7 ? ' warm' : ''}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100}
    aria-valuenow={Math.round(100 * Math.min(1, part || 0))}><i style={{width: `${Math.min(100, 100 * (part || 0))}%`}} /></div>
);
