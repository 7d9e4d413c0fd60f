// The parts of the console in headless Chromium: console_parts_client.js URL COMMAND… prints `N passed, 0 failed`. Commands:
//   charts         hover, arrow keys and table of each chart say the same; the batch timeline stops, zooms and tells
//   numbers        what comes from histograms is what /metrics has, on a server that has nothing to do
//   filters        the requests that are shown are those that were asked for; pause
//   chat           images, tools, a JSON schema, alternatives to a token
//   sessions       fork, rewind, two continuations beside each other
//   graph          a graph is drawn while its nodes come
//   settings JSON  each setting is there with where it comes from: {"key": ["value", "origin"], …}
//   bodies JSON    how the bodies of requests begin: {"id": ["text of the request", "text of the answer"], …}; null: not kept
'use strict';
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {base, argument, check, open, has, connected, click, metrics, runSnippets, main} = require('./console_browser.js');

const ticks = (page) => page.evaluate(() => weirConsole.size().ticks);
const laterThan = (page, n) => page.waitForFunction((t) => weirConsole.size().ticks > t, {}, n);
const figure = (page, title) => page.waitForFunction((t) => [...document.querySelectorAll('figure')].find((f) => f.querySelector('.title').innerText === t), {}, title);
const press = (handle, text) => handle.evaluate((f, t) => [...f.querySelectorAll('button')].find((b) => (b.getAttribute('aria-label') ?? b.innerText.trim()).startsWith(t)).click(), text);
const rowsOf = (handle) => handle.evaluate((f) => [...f.querySelectorAll('tbody tr')].map((tr) => [...tr.children].map((c) => c.innerText)));

// --- charts ----------------------------------------------------------------------------------------------------------
// Where the pointer is, the legend has the numbers of that moment: those of the table's row.
async function hoverIsTable(page, title) {
  const f = await figure(page, title);
  await f.evaluate((e) => e.scrollIntoView({block: 'center'}));
  const box = await (await f.$('.u-over')).boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  await page.waitForFunction((e) => e.querySelector('.when').innerText, {}, f);
  const shown = await f.evaluate((e) => [e.querySelector('.when').innerText, ...[...e.querySelectorAll('.legend b')].map((b) => b.innerText)]);
  await press(f, 'Table');
  const rows = (await rowsOf(f)).filter(([when]) => when === shown[0]);
  check(shown.length > 1 && rows.some((row) => row.join() === shown.join()), `${title}: ${shown} is not in ${JSON.stringify(rows)}`);
  await press(f, 'Chart');
}

async function timeline(page) {
  const f = await figure(page, 'Batch timeline'), note = () => f.$eval('.note', (n) => n.innerText);
  const last = () => f.$eval('.plot', (p) => Number(/The last: batch (\d+)/.exec(p.getAttribute('aria-label'))?.[1] ?? -1));
  await page.waitForFunction((e) => /The last: batch/.test(e.querySelector('.plot').getAttribute('aria-label')), {}, f);
  const first = await last();
  await page.waitForFunction((e, n) => Number(/The last: batch (\d+)/.exec(e.querySelector('.plot').getAttribute('aria-label'))[1]) > n, {}, f, first);
  await press(f, 'Pause');
  // A poll that was under way may still come.
  await laterThan(page, await ticks(page) + 2);
  const stopped = await last();
  await laterThan(page, await ticks(page) + 3);
  check(await last() === stopped, 'what is paused stands still');

  // The pointer goes along the first row until it is on a batch; the table has the same of it.
  await f.evaluate((e) => e.scrollIntoView({block: 'center'}));
  const box = await (await f.$('canvas')).boundingBox();
  let words = '';
  for (let x = box.x + box.width - 6; x > box.x + 100 && !words; x -= 2) {
    await page.mouse.move(x, box.y + 10);
    words = await f.$eval('.when', (w) => w.innerText);
  }
  const told = /^batch (\d+): (\d+) rows of (\d+) calls; waited (?:(.+) to (.+), median (.+)|([^;]+)); /.exec(words);
  check(told, `the pointer on a batch says: ${words}`);
  await press(f, 'Table');
  const row = (await rowsOf(f)).find(([n]) => n === told[1]);
  const [least, most, median] = told[7] ? [told[7], told[7], told[7]] : [told[4], told[5], told[6]];
  check(row && row[3] === told[2] && row[2] === told[3] && (told[7] ? row[6] === most : row.slice(4, 7).join() === [least, median, most].join()), `${words} is not ${row}`);
  await press(f, 'Chart');

  const across = async (text) => { await page.waitForFunction((e, t) => e.querySelector('.note').innerText.endsWith(t), {}, f, `${text} across`); check(true); };
  await across('2 s');
  await press(f, 'Zoom in');
  await across('1 s');
  await (await f.$('.plot')).focus();
  await page.keyboard.press('+');
  await across('500 ms');
  await press(f, 'Zoom out');
  await across('1 s');
  const ago = () => f.$eval('canvas', (c) => c.toDataURL());
  const before = await ago();
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction((e, was) => e.querySelector('canvas').toDataURL() !== was, {}, f, before);
  check(await note() === await note(), 'it moves and does not zoom');
  const middle = await (await f.$('canvas')).boundingBox();
  await page.mouse.move(middle.x + middle.width / 2, middle.y + 10);
  await page.keyboard.down('Control');
  await page.mouse.wheel({deltaY: -100});
  await page.keyboard.up('Control');
  await across('800 ms');
  await press(f, 'Live');
  await page.waitForFunction((e, n) => Number(/The last: batch (\d+)/.exec(e.querySelector('.plot').getAttribute('aria-label'))[1]) > n, {}, f, stopped);
  check(true);
}

async function charts() {
  let page = await open('overview');
  await laterThan(page, 6);
  for (const title of ['Requests by protocol', 'Latency', 'Errors by cause', 'Tokens', 'Queues', 'Memory held']) await hoverIsTable(page, title);
  await page.close();
  page = await open('models/digits/1');
  await laterThan(page, 6);
  for (const title of ['Time per call, by stage', 'Rows and batches']) await hoverIsTable(page, title);
  await (await figure(page, 'Time per call, by stage')).evaluate((f) => f.scrollIntoView());
  await page.waitForFunction(() => {
    const f = [...document.querySelectorAll('figure')].find((e) => e.querySelector('.title').innerText === 'Time per call, by stage');
    const shown = Object.fromEntries([...f.querySelectorAll('.legend span:not(.when)')].map((s) => s.innerText.split(/ (?=[\d–])/)));
    return ['receive', 'queue', 'compute', 'send'].every((stage) => /[1-9]/.test(shown[stage] ?? ''));
  });
  check(true);
  await timeline(page);
  await page.close();
}

// --- numbers of /metrics ---------------------------------------------------------------------------------------------
const UNITS = {'µs': 1e-6, ms: 1e-3, s: 1, '': 1};
const read = (text) => { const [, n, unit] = /^([\d.\s]+?)\s*(µs|ms|s|%)?$/.exec(text.replaceAll('\u202f', '')); return unit === '%' ? n / 100 : n * UNITS[unit ?? '']; };
const near = (a, b) => Math.abs(a - b) <= 0.006 * Math.max(Math.abs(a), Math.abs(b), 1e-9);
// [[bound, count at most], …] of a histogram, by its labels.
const buckets = (lines, name, labels) => lines.filter((l) => l.startsWith(`${name}_bucket{`) && labels.every((label) => l.includes(label)))
  .map((l) => [/le="([^"]+)"/.exec(l)[1], Number(l.split(' ').at(-1))]).map(([le, n]) => [le === '+Inf' ? Infinity : Number(le), n]).sort((a, b) => a[0] - b[0]);
function quantile(all, q) {
  const rank = q * all.at(-1)[1], at = all.findIndex(([, n]) => n >= rank), [high, n] = all[at], [low, below] = at ? all[at - 1] : [0, 0];
  return low + ((high - low) * (rank - below)) / (n - below);
}
async function table(page, title) {
  const f = await figure(page, title);
  await press(f, 'Table');
  await page.waitForFunction((e) => e.querySelector('tbody tr'), {}, f);
  return (await rowsOf(f)).map((row) => row.map(read)).reverse();
}

async function numbers() {
  const lines = await metrics();
  let page = await open('models/digits/1');
  await laterThan(page, 2);
  const whole = buckets(lines, 'weir_model_request_duration_seconds', ['model="digits"']);
  const cdf = await table(page, 'Latency CDF, since the start');
  const of = (bound) => whole.find(([b]) => near(b, bound))?.[1] / whole.at(-1)[1];
  check(cdf.length > 2 && cdf.every(([bound, share]) => near(of(bound), share)), `${JSON.stringify(cdf)} is not ${JSON.stringify(whole)}`);
  check(near(cdf.at(-1)[1], 1), `a CDF ends at ${cdf.at(-1)}`);
  const rows = buckets(lines, 'weir_model_batch_rows', ['model="digits"']), sizes = await table(page, 'Batch sizes');
  check(sizes.every(([bound, n], i) => rows[i][0] === bound && rows[i][1] - (rows[i - 1]?.[1] ?? 0) === n), `${JSON.stringify(sizes)} is not ${JSON.stringify(rows)}`);
  const memory = lines.filter((l) => l.startsWith('weir_model_memory_bytes{model="digits"'));
  check(memory.length === 1 && /what="weights",place="cpu"/.test(memory[0]), `${memory}`);
  await has(page, 'weights');
  await page.close();

  page = await open('models/chat/1');
  await laterThan(page, 2);
  const tile = (title) => page.evaluate((t) => [...document.querySelectorAll('.tile')].find((e) => e.querySelector('.title').innerText === t).innerText.split('\n'), title);
  const ttft = buckets(lines, 'weir_model_time_to_first_token_seconds', ['model="chat"']), shown = await tile('First token p50');
  check(near(read(shown[1]), quantile(ttft, 0.5)) && near(read(shown[2].slice(4)), quantile(ttft, 0.99)), `${shown} is not ${JSON.stringify(ttft)}`);
  await has(page, 'keys and values');
  await page.close();
}

// --- requests --------------------------------------------------------------------------------------------------------
async function filters() {
  const page = await open('requests');
  const rows = () => page.$$eval('.tail tbody tr', (all) => all.map((tr) => [...tr.children].map((c) => c.innerText)));
  const full = () => page.waitForFunction(() => document.querySelectorAll('.tail tbody tr').length > 5);
  // Requests of all kinds come all the time: a filter that lets in others never shows one kind alone, nor for long.
  const choose = async (label, value, column, pattern) => {
    const select = await page.evaluateHandle((l) => [...document.querySelectorAll('.filters label')].find((e) => e.firstChild.textContent.trim() === l).querySelector('select'), label);
    await page.waitForFunction((s, v) => [...s.options].some((o) => o.value === v), {}, select, value);
    await select.select(value);
    await page.waitForFunction((n, p) => {
      const all = [...document.querySelectorAll('.tail tbody tr')];
      return all.length > 5 && all.every((tr) => new RegExp(p).test(tr.children[n].innerText));
    }, {}, column, pattern.source);
    await laterThan(page, await ticks(page) + 1);
    const other = (await rows()).find((row) => !pattern.test(row[column]));
    check(!other, `${label} ${value}: ${other}`);
    await select.select('');
    await page.waitForFunction(() => new Set([...document.querySelectorAll('.tail tbody tr')].map((tr) => `${tr.children[1].innerText} ${tr.children[4].innerText.slice(0, 3)}`)).size > 2);
  };
  await full();
  await choose('Protocol', 'predict', 1, /^predict$/);
  await choose('Model', 'chat', 3, /^chat$/);
  await choose('Status', 'failed', 4, /^404 NOT_FOUND/);
  await choose('Status', '404', 4, /^404 /);
  await choose('Status', 'ok', 4, /^200/);
  await choose('Slower than', '1ms', 5, / (ms|s)$/);
  await laterThan(page, await ticks(page) + 1);  // the list begins anew without the last filter
  await full();
  await click(page, 'Pause');
  await laterThan(page, await ticks(page) + 1);
  const stopped = await rows();
  await laterThan(page, await ticks(page) + 3);
  check(JSON.stringify(await rows()) === JSON.stringify(stopped), 'what is paused stands still');
  const newest = await page.$eval('.tail time', (t) => t.dateTime);
  await click(page, 'Go on');
  await page.waitForFunction((time) => document.querySelector('.tail time')?.dateTime > time, {}, newest);
  check(true);
  await page.close();
}

async function bodies() {
  for (const [id, texts] of Object.entries(JSON.parse(argument))) {
    const page = await open(`requests/${id}`);
    await has(page, 'request id');
    const shown = await page.$$eval('[data-body]', (all) => all.map((e) => e.textContent));
    check(JSON.stringify(shown) === JSON.stringify(texts ?? []), `${id}: ${JSON.stringify(shown)} is not ${JSON.stringify(texts)}`);
    check(await page.evaluate(() => !globalThis.pwned && !document.querySelector('main img')), `${id}: text became HTML`);
    await page.close();
  }
}

// --- try it ----------------------------------------------------------------------------------------------------------
const field = (page, label) => page.evaluateHandle((l) => [...document.querySelectorAll('label')].find((e) => e.firstChild.textContent.trim().startsWith(l)).querySelector('input, textarea'), label);
const fill = async (page, label, text) => {
  const input = await field(page, label);
  await input.evaluate((e, t) => { e.value = t; e.dispatchEvent(new Event('input', {bubbles: true})); }, text);
};
async function say(page, text) {
  const said = await page.$$eval('.talk li', (all) => all.length);
  await page.type('#draft', text);
  await click(page, 'Send');
  await page.waitForFunction((n) => document.querySelectorAll('.talk li').length > n + 1 && document.querySelector('.talk').getAttribute('aria-busy') === 'false', {}, said);
  check(!(await page.$('.problem')), `${text}: ${await page.$$eval('.problem', (all) => all.map((p) => p.innerText).join())}`);
}
const answered = (page) => page.$$eval('.talk li.assistant', (all) => { const last = all.at(-1); return {text: last.querySelector('.said').textContent, calls: last.querySelector('pre')?.textContent ?? '', note: last.querySelector('.note')?.innerText ?? ''}; });
const request = async (page) => JSON.parse(/-d '(.*)'$/s.exec(await page.$eval('[data-snippet="curl"]', (p) => p.textContent))[1].replaceAll("'\\''", "'"));

// On a phone nothing sticks out.
async function fitsAPhone(page, what) {
  await page.setViewport({width: 360, height: 740});
  await page.waitForFunction(() => innerWidth === 360);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(wide <= 0, `${what} is ${wide} px too wide for a phone`);
}

async function chat() {
  const page = await open('try/chat');
  await page.waitForSelector('#draft');
  await page.evaluate(() => document.querySelector('.parameters summary').click());
  await fill(page, 'max_tokens', '60');

  // A picture of a one.
  const picture = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'weir-console-')), 'one.png');
  const url = await page.evaluate(() => {
    const c = document.createElement('canvas'), g = c.getContext('2d');
    c.width = c.height = 64;
    g.fillStyle = '#000', g.fillRect(0, 0, 64, 64), g.fillStyle = '#fff', g.fillRect(28, 8, 8, 48);
    return c.toDataURL('image/png');
  });
  fs.writeFileSync(picture, Buffer.from(url.split(',')[1], 'base64'));
  await (await page.$('input[type=file]')).uploadFile(picture);
  await page.waitForSelector('img.thumb');
  await say(page, 'Which digit is this?');
  check(await page.$eval('.talk li.user img', (i) => i.complete && i.naturalWidth === 64), 'the picture is in the message');
  const asked = await request(page);
  check(asked.messages[0].content[1].image_url.url === url, 'the picture is in the request');
  check((await answered(page)).text.length > 0, 'a picture is answered');
  fs.rmSync(path.dirname(picture), {recursive: true});
  await click(page, 'New');

  // A tool that must be called.
  await fill(page, 'tools', JSON.stringify([{type: 'function', function: {name: 'look_up', parameters: {type: 'object', properties: {known: {type: 'boolean'}}, required: ['known'], additionalProperties: false}}}]));
  await fill(page, 'more members', '{"tool_choice": "required"}');
  await say(page, 'What is curl?');
  let answer = await answered(page);
  check(/^look_up \{\s*"known":\s*(true|false)\s*\}/.test(answer.calls), `tools: ${JSON.stringify(answer)}`);
  check((await request(page)).tools[0].function.name === 'look_up', 'the tools are in the request');
  await fill(page, 'tools', ''), await fill(page, 'more members', '');
  await click(page, 'New');

  // An answer by a schema; what is no JSON is said before it is sent.
  await fill(page, 'JSON schema', '{"type": "object"');
  await has(page, 'JSON schema: ');
  await fill(page, 'JSON schema', JSON.stringify({type: 'object', properties: {free: {type: 'boolean'}}, required: ['free'], additionalProperties: false}));
  await page.waitForFunction(() => !document.querySelector('.problem'));
  await say(page, 'Is curl free?');
  answer = await answered(page);
  check(/^\s*\{\s*"free":\s*(true|false)\s*\}\s*$/.test(answer.text), `a schema: ${JSON.stringify(answer)}`);

  // Under the pointer a token has its alternatives: the likeliest first, itself marked among them.
  await (await page.$('.token')).hover();
  await has(page, 'It might have been');
  const detail = await page.$eval('.detail', (d) => ({chance: /probability ([\d.]+) %/.exec(d.innerText)?.[1], rows: [...d.querySelectorAll('table')].find((t) => t.caption.innerText.startsWith('It might')) && [...d.querySelectorAll('table tr')].filter((r) => r.closest('table').caption.innerText.startsWith('It might')).map((r) => [r.cells[0].innerText, parseFloat(r.cells[2].innerText), r.className])}));
  check(detail.rows.length > 1 && detail.rows.every(([, chance], i) => !i || chance <= detail.rows[i - 1][1]), `alternatives: ${JSON.stringify(detail)}`);
  check(detail.rows.reduce((sum, [, chance]) => sum + chance, 0) <= 100.5, `they are parts of one: ${JSON.stringify(detail)}`);
  const own = detail.rows.find(([, , name]) => name === 'best');
  check(!own || near(own[1], Number(detail.chance)), `its own chance is ${detail.chance}: ${own}`);
  await page.mouse.move(0, 0);
  await fitsAPhone(page, 'chat');
  await page.close();
}

async function sessions() {
  const page = await open('try/chat');
  await page.waitForSelector('#draft');
  await click(page, 'Sessions', '[role=tab]');
  // So hot that hardly any sequence ends by itself before it has the tokens that are looked at.
  await fill(page, 'Temperature', '5');
  const quiet = (views, least) => page.waitForFunction((n, m) => {
    const all = [...document.querySelectorAll('.tokens')];
    return all.length === n && all.every((t) => t.querySelectorAll('.token').length >= m) && !document.body.innerText.includes('Running…');
  }, {}, views, least);
  const tokens = (view) => page.evaluate((n) => [...document.querySelectorAll('.tokens')[n].querySelectorAll('.token')].map((t) => t.textContent), view);
  const at = async (view, token, button) => {
    await page.evaluate((v, t) => [...document.querySelectorAll('.tokens')[v].querySelectorAll('.token')][t].click(), view, token);
    await page.waitForFunction((v, b) => [...document.querySelectorAll('.tokens')[v].querySelectorAll('button')].some((e) => e.innerText === b && !e.disabled), {}, view, button);
    await page.evaluate((v, b) => [...document.querySelectorAll('.tokens')[v].querySelectorAll('button')].find((e) => e.innerText === b).click(), view, button);
  };
  await click(page, 'Open a session');
  await quiet(1, 9);
  const first = await tokens(0);
  await at(0, 5, 'Fork here');
  await quiet(2, 9);
  check((await tokens(1)).slice(0, 5).join('') === first.slice(0, 5).join(''), 'a fork has the beginning');
  check((await tokens(0)).join('') === first.join(''), 'and leaves the one that it is of alone');
  const [a, b] = await page.$$eval('.tokens', (all) => all.map((t) => t.getBoundingClientRect()).map(({left, right, top}) => ({left, right, top})));
  check(a.top === b.top && a.right <= b.left, 'they are beside each other');
  const kept = (await tokens(1)).slice(0, 7);
  await at(1, 7, 'Rewind to here');
  await quiet(2, 9);
  check((await tokens(1)).slice(0, 7).join('') === kept.join(''), 'what was before stays');
  check((await tokens(0)).join('') === first.join(''), 'the other one stays');
  check(!(await page.$('.problem')), 'no error');
  const many = await page.evaluate(() => document.querySelectorAll('.tokens')[0].querySelectorAll('.token').length);
  await runSnippets(page, ['grpcurl'], (out) => out.trim().split('\n').some((line) => JSON.parse(line).token?.position >= many), 'a session');
  await fitsAPhone(page, 'sessions');
  await page.close();
}

// Nodes are there before they are whole.
async function graph() {
  const page = await open('try/chat');
  await page.waitForSelector('#draft');
  await click(page, 'Evergreen graph', '[role=tab]');
  await page.waitForFunction(() => [...document.querySelectorAll('button')].some((b) => b.innerText === 'Run'));
  await fill(page, 'Tokens', '200');
  await page.evaluate(() => {
    globalThis.seen = [];
    new MutationObserver(() => {
      const row = document.querySelector('[data-node="answer"]');
      if (row) seen.push({chunks: parseInt(row.cells[2].innerText, 10), live: document.querySelectorAll('.graph .live').length, done: document.querySelectorAll('.graph .done').length});
    }).observe(document.querySelector('main'), {subtree: true, childList: true, characterData: true, attributes: true});
  });
  await click(page, 'Run');
  await page.waitForFunction(() => document.querySelectorAll('.graph .done').length >= 5);
  const seen = await page.evaluate(() => globalThis.seen);
  check(seen.some((s) => s.live > 0 && s.done < 5), 'a node is drawn while it grows');
  check(new Set(seen.map((s) => s.chunks)).size > 3, `chunks are counted as they come: ${[...new Set(seen.map((s) => s.chunks))]}`);
  check(seen.every((s, i) => !i || s.chunks >= seen[i - 1].chunks), 'and never fewer');
  check(await page.$$eval('.graph .act', (all) => all.length) === 3, 'three actions are drawn');
  await fill(page, 'Tokens', '4');
  await runSnippets(page, ['grpcurl'], (out) => /node_fragments/.test(out), 'evergreen');
  await fitsAPhone(page, 'a graph');
  await page.close();
}

async function settings() {
  const page = await open('docs/config');
  await connected(page);
  for (const [key, wanted] of Object.entries(JSON.parse(argument))) {
    await page.waitForSelector(`[data-setting="${key}"]`);
    const shown = await page.$eval(`[data-setting="${key}"]`, (tr) => [tr.cells[1].innerText, tr.cells[2].innerText]);
    check(JSON.stringify(shown) === JSON.stringify(wanted), `${key}: ${shown} is not ${wanted}`);
  }
  const all = await page.$$eval('[data-setting]', (rows) => rows.length);
  await click(page, 'only what', 'label');
  await page.waitForFunction((n) => document.querySelectorAll('[data-setting]').length < n, {}, all);
  const origins = await page.$$eval('[data-setting]', (rows) => rows.map((tr) => tr.cells[2].innerText));
  check(!origins.includes('default') && origins.length >= 3, `what is not a default: ${origins}`);
  await page.close();
}

void main({charts, numbers, filters, chat, sessions, graph, settings, bodies});
