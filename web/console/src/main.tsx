// The shell: where a person is, whether the server is well, and the page of the address behind the '#'.

import {render} from 'preact';
import {useEffect, useRef, useState} from 'preact/hooks';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import {keyIsWanted, onKey, setKey} from './lib/api';
import {follow, size, take} from './lib/live';
import {choose, chosen, type Theme} from './lib/theme';
import {useLive} from './parts/common';
import {Docs} from './pages/docs';
import {Model} from './pages/model';
import {Models} from './pages/models';
import {Overview} from './pages/overview';
import {Requests} from './pages/requests';
import {Try} from './pages/try';

const PAGES: [string, string, string][] = [
  ['overview', 'Overview', 'M3 12h4l3-8 4 16 3-8h4'],
  ['models', 'Models', 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9'],
  ['try', 'Try it', 'M6 4l14 8-14 8z'],
  ['requests', 'Requests', 'M4 6h16M4 12h10M4 18h13'],
  ['docs', 'Docs', 'M5 4h11l3 3v13H5zM9 10h7M9 14h7'],
];

function useRoute() {
  const read = () => decodeURI(location.hash.replace(/^#\/?/, '')).split('?')[0].split('/').map(decodeURIComponent);
  const [route, set] = useState(read());
  useEffect(() => {
    const change = () => set(read());
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return route[0] ? route : ['overview'];
}

function Health() {
  const live = useLive();
  const [state, text] = !live.time && !live.trouble ? ['busy', 'connecting'] : !live.connected ? ['bad', 'not connected']
    : live.notReady ? ['bad', 'not ready'] : ['good', 'ready'];
  return <span class={`health ${state}`} role="status" title={live.trouble || live.notReady}><i />{text}</span>;
}

function Key() {
  const [, turn] = useState(0), dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => onKey(() => turn((n) => n + 1)), []);
  useEffect(() => {
    if (keyIsWanted() && !dialog.current?.open) dialog.current?.showModal();
  });
  const submit = (event: Event) => {
    event.preventDefault();
    const input = (event.currentTarget as HTMLFormElement).elements.namedItem('key') as HTMLInputElement;
    setKey(input.value);
    input.value = '';
    dialog.current?.close();
  };
  return (
    <>
      {keyIsWanted() && <button type="button" onClick={() => dialog.current?.showModal()}>Give a key</button>}
      <dialog ref={dialog} aria-labelledby="key-title">
        <form onSubmit={submit}>
          <h2 id="key-title">This server asks for a key</h2>
          <p>It stays in the memory of this page and is gone when the page is closed. Live data need the role <code>metrics</code>,
            models <code>infer</code>, load and unload <code>admin</code>.</p>
          <label>Key <input name="key" type="password" autocomplete="off" required autoFocus /></label>
          <p class="row"><button class="primary">Use it</button><button type="button" onClick={() => dialog.current?.close()}>Not now</button></p>
        </form>
      </dialog>
    </>
  );
}

function ThemeChoice() {
  const [theme, set] = useState(chosen());
  return (
    <label class="theme"><span class="sr">Colours</span>
      <select value={theme} onChange={(e) => { const next = e.currentTarget.value as Theme; choose(next); set(next); }}>
        <option value="auto">System</option><option value="light">Light</option><option value="dark">Dark</option>
      </select></label>
  );
}

function App() {
  const route = useRoute(), main = useRef<HTMLElement>(null), first = useRef(true);
  const page = PAGES.find(([id]) => id === route[0]);
  const title = page ? (route[1] && route[0] === 'models' ? route[1] : page[1]) : 'Not found';
  useEffect(() => {
    document.title = `${title} · weir`;
    if (!first.current) main.current?.focus();  // a screen reader goes on there
    first.current = false;
    scrollTo(0, 0);
  }, [route.join('/')]);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus(); }}>To the content</a>
      <header class="top">
        <a class="logo" href="#/overview" aria-label="weir: overview">
          <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" /><path d="M5 11q5.5-5 11 0t11 0M5 18q5.5-5 11 0t11 0M5 25q5.5-5 11 0t11 0" /></svg>
          <span>weir</span></a>
        <nav aria-label="Pages">
          {PAGES.map(([id, text, path]) => (
            <a href={`#/${id}`} aria-current={route[0] === id ? 'page' : undefined}>
              <svg viewBox="0 0 24 24" aria-hidden="true"><path d={path} /></svg><span>{text}</span></a>))}
        </nav>
        <div class="right"><Health /><Key /><ThemeChoice /></div>
      </header>
      <main id="main" tabIndex={-1} ref={main}>
        <h1 class={route[0] === 'overview' ? 'sr' : ''}>{title}</h1>
        {route[0] === 'overview' ? <Overview /> : route[0] === 'models' && route[1] ? <Model key={route.join()} name={route[1]} version={route[2]} />
          : route[0] === 'models' ? <Models /> : route[0] === 'try' ? <Try model={route[1]} /> : route[0] === 'requests' ? <Requests id={route[1]} />
          : route[0] === 'docs' ? <Docs part={route[1]} /> : <p>There is no such page. <a href="#/overview">Overview</a></p>}
      </main>
    </>
  );
}

Object.assign(globalThis, {weirConsole: {size, take}});  // what is kept, for tests
void follow();
render(<App />, document.getElementById('app')!);
