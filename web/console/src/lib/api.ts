// How the pages ask the server: with the key, if one is needed, which lives in memory only.

export class ApiError extends Error {
  constructor(readonly status: number, message: string) { super(message); }
}

let key = '', wanted = false;
const keyListeners = new Set<() => void>();
export const hasKey = () => key !== '';
export function setKey(value: string) {
  key = value.trim();
  wanted = false;
  keyListeners.forEach((listener) => listener());
}
// Called when a key was given or the server has asked for one.
export function onKey(listener: () => void) {
  keyListeners.add(listener);
  return () => void keyListeners.delete(listener);
}
export const keyIsWanted = () => wanted;

// The words of an error, wherever the protocol puts them.
function messageOf(text: string, status: number) {
  try {
    const body = JSON.parse(text);
    const error = body.error ?? body.message ?? body.status?.msg ?? body;
    return String(typeof error === 'string' ? error : error.message ?? text);
  } catch {
    return text.slice(0, 500) || `HTTP status ${status}`;
  }
}

// The server's paths may be below a proxy's: the page names the way from itself to their root.
const root = new URL(document.documentElement.dataset.root ?? '/', location.href);
export const at = (path: string) => new URL(path.slice(1), root).href;

export interface Ask { method?: string; body?: BodyInit | null; headers?: Record<string, string>; signal?: AbortSignal }

export async function ask(path: string, {method, body, headers, signal}: Ask = {}): Promise<Response> {
  const answer = await fetch(at(path), {
    method: method ?? (body === undefined ? 'GET' : 'POST'), body, signal, cache: 'no-store', credentials: 'omit',
    headers: {...(key ? {authorization: `Bearer ${key}`} : {}), ...headers},
  });
  if (answer.status === 401 && !wanted) {
    wanted = true;
    keyListeners.forEach((listener) => listener());
  }
  if (!answer.ok) throw new ApiError(answer.status, messageOf(await answer.text(), answer.status));
  if (key) wanted = false;
  return answer;
}

export const getJson = async <T,>(path: string, signal?: AbortSignal): Promise<T> =>
  (await ask(path, {signal, headers: {accept: 'application/json'}})).json();

export const postJson = async <T,>(path: string, body: unknown, signal?: AbortSignal): Promise<T> =>
  (await ask(path, {body: JSON.stringify(body), headers: {'content-type': 'application/json'}, signal})).json();

// The lines of a streamed answer.
export async function* lines(answer: Response): AsyncGenerator<string> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) break;
      const parts = (rest + value).split('\n');
      rest = parts.pop()!;
      yield* parts;
    }
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

export interface ServerEvent { event: string; data: string }
// Server-Sent Events (WHATWG HTML §9.2): EventSource could not send the key.
export async function* events(answer: Response): AsyncGenerator<ServerEvent> {
  let event = '', data: string[] = [];
  for await (let line of lines(answer)) {
    if (line.endsWith('\r')) line = line.slice(0, -1);
    if (line === '') {
      if (data.length) yield {event: event || 'message', data: data.join('\n')};
      event = '', data = [];
    } else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
    else if (line.startsWith('event:')) event = line.slice(6).trim();
  }
}

export const errorText = (error: unknown) => (error instanceof Error ? error.message : String(error));
