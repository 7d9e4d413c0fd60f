// The console in headless Chromium: console_client.js URL COMMAND… prints `N passed, 0 failed`. Commands:
//   pages FOLDER   every page, in both themes and at three widths, against axe-core; screenshots go to the folder
//   live           numbers move, and are those of /metrics
//   try            models are tried, and each command that is offered is run
//   keyboard       every page by the Tab and arrow keys alone
//   hostile        names and lines that are HTML are text, and the policy holds
//   bounded        a day of the server's clock, and the page keeps no more than it did: neither series nor heap
//   change         a model by the buttons Reload, Unload and Load
//   key SECRET     a server that asks for a key is asked once
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const {base, argument, troubles, check, emulate, open, has, connected, click, runSnippets, main} = require('./console_browser.js');

const PAGES = ['overview', 'models', 'models/digits/1', 'models/chat/1', 'try/chat', 'try/digits', 'requests', 'docs', 'docs/config', 'docs/grps'];
const HTTP = ['curl', 'Python', 'JavaScript'];

// What axe-core and this say of a page as it stands there.
async function look(page, hash, place, file) {
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(overflow <= 0, `${hash} at ${place} is ${overflow} px too wide`);
  check(await page.evaluate(() => document.getAnimations().length === 0), `${hash} moves where reduced motion is asked for`);
  const {violations} = await page.evaluate(() => axe.run(document, {resultTypes: ['violations']}));
  const serious = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
  check(!serious.length, `${hash} at ${place}: ${serious.map((v) => `${v.id} ${v.nodes.slice(0, 2).map((n) => n.target).join(' ')}`).join('; ')}`);
  await page.screenshot({path: file, optimizeForSpeed: true});
}

// A page is loaded in one theme and turned to the other one: which is first changes with the width.
async function pages(folder) {
  const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  for (const [nth, [width, height]] of [[1280, 900], [360, 740], [3840, 2160]].entries())
    for (const [place, hash] of PAGES.entries()) {
      const themes = (nth + place) % 2 ? ['dark', 'light'] : ['light', 'dark'];
      const page = await open(hash, {width, height, theme: themes[0]});
      await connected(page);
      if (hash === 'overview' || hash === 'models/digits/1') await page.waitForSelector('.uplot canvas');
      await page.evaluate(axe);
      for (const theme of themes) {
        await emulate(page, theme);
        await page.waitForFunction((t) => document.documentElement.dataset.theme === t, {}, theme);
        await look(page, hash, `${width} px, ${theme}`, path.join(folder, `${hash.replaceAll('/', '-')}-${width}-${theme}.png`));
      }
      await page.close();
    }
}

// The counters of a protocol that asks for nothing more while this looks: the page has them as /metrics does.
async function live() {
  const page = await open('overview');
  await page.waitForSelector('[data-protocol="oip-rest"]');
  const infer = () => fetch(`${base}/v2/models/simple_identity`).then((a) => a.text());
  const read = async () => Number(/^weir_requests_total\{protocol="oip-rest",code="OK"\} (\d+)$/m.exec(await (await fetch(`${base}/metrics`)).text())[1]);
  for (let round = 0; round < 3; ++round) {
    await infer();
    const wanted = await read();
    await page.waitForFunction((n) => Number(document.querySelector('[data-protocol="oip-rest"] [data-ok]').dataset.ok) === n, {}, wanted);
    check(true);
  }
  const first = await page.evaluate(() => weirConsole.size().ticks);
  await page.waitForFunction((n) => weirConsole.size().ticks > n + 2, {}, first);
  check(true);
  // The same numbers as a table, for each chart.
  await page.evaluate(() => document.querySelectorAll('figure button[aria-pressed]').forEach((b) => b.click()));
  await page.waitForFunction(() => document.querySelectorAll('figure table tbody tr').length > 5);
  check(await page.evaluate(() => [...document.querySelectorAll('figure')].every((f) => f.querySelector('.title').innerText && f.querySelector('table th').innerText)), 'every chart has a title and a table');
  await page.close();

  const requests = await open('requests');
  await has(requests, 'oip-rest');
  await requests.evaluate(() => [...document.querySelectorAll('.tail a')].find((a) => a.innerText.includes('/infer'))?.click());
  await requests.waitForSelector('.waterfall [class^="st-"]');
  check(/compute/.test(await requests.$eval('.waterfall', (t) => t.innerText)), 'a request has a waterfall');
  await requests.close();

  const model = await open('models/digits/1');
  await model.waitForFunction(() => / [1-9]\d* kept/.test(` ${[...document.querySelectorAll('figure .note')].map((n) => n.innerText).join(' ')}`));
  check(true);
  await model.close();
}

async function trying() {
  // A digit that is drawn: a stroke from top to bottom is a one.
  let page = await open('try/digits');
  const pad = await (await page.waitForSelector('.pad canvas')).boundingBox();
  await page.mouse.move(pad.x + pad.width / 2, pad.y + 20);
  await page.mouse.down();
  await page.mouse.move(pad.x + pad.width / 2, pad.y + pad.height - 20, {steps: 8});
  await page.mouse.up();
  await click(page, 'Run');
  await page.waitForSelector('[data-output="probabilities"] .best th');
  const shown = await page.$eval('[data-output="probabilities"] .best th', (t) => t.innerText);
  check(shown === '1', `a stroke is a ${shown}`);
  const best = (text) => { const data = JSON.parse(text).outputs[0].data; return data.indexOf(Math.max(...data)); };
  await runSnippets(page, HTTP, (out) => String(best(out)) === shown, 'digits');
  const answer = (out) => JSON.parse(out).outputs[0];
  await runSnippets(page, ['grpcurl'], (out) => answer(out).name === 'probabilities' && answer(out).shape.join() === '1,10', 'digits');
  await page.close();

  // Chat: streamed, each token with its probability, its alternatives and its concepts.
  page = await open('try/chat');
  await page.waitForSelector('#draft');
  await page.type('#draft', "What's <b>curl</b>?");
  await click(page, 'Send');
  await has(page, 'first after');
  check(await page.$eval('[data-role="user"]', (p) => p.textContent) === "What's <b>curl</b>?", 'the message is shown as text');
  const tokens = await page.$$eval('.token', (all) => all.length);
  check(tokens > 3, `${tokens} tokens`);
  await page.focus('.token');
  await has(page, 'It might have been');
  check(await page.$$eval('.detail table', (all) => all.length) === 2, 'alternatives and concepts');
  await page.select('.tokens select', '0');
  await page.waitForFunction(() => [...document.querySelectorAll('.token')].some((t) => t.style.background.includes('--c')));
  check(true);
  await runSnippets(page, HTTP, (out) => /data: \{/.test(out) && /\[DONE\]/.test(out), 'chat');

  await click(page, 'Text', '[role=tab]');
  await click(page, 'Continue it');
  await page.waitForSelector('.token.prompt');
  await runSnippets(page, HTTP, (out) => JSON.parse(out).choices[0].logprobs.tokens.length > 3, 'text');

  // Two continuations of one session beside each other.
  await click(page, 'Sessions', '[role=tab]');
  // So hot that hardly any sequence ends by itself before it has the tokens that are looked at.
  const temperature = await page.waitForSelector('input[max="5"]');
  await temperature.click({count: 3});
  await temperature.type('5');
  await click(page, 'Open a session');
  await page.waitForFunction(() => document.querySelectorAll('.token').length > 8 && !document.body.innerText.includes('Running…'));
  const before = await page.$$eval('.token', (all) => all.slice(0, 4).map((t) => t.textContent));
  await page.evaluate(() => document.querySelectorAll('.token')[4].click());
  await click(page, 'Fork here');
  await page.waitForFunction(() => document.querySelectorAll('.tokens').length === 2 && [...document.querySelectorAll('.tokens')].every((t) => t.querySelectorAll('.token').length > 8) && !document.body.innerText.includes('Running…'));
  const forked = await page.evaluate(() => [...document.querySelectorAll('.tokens')[1].querySelectorAll('.token')].slice(0, 4).map((t) => t.textContent));
  check(JSON.stringify(before) === JSON.stringify(forked), `${before} is not ${forked}`);
  await page.evaluate(() => document.querySelectorAll('.tokens')[1].querySelectorAll('.token')[6].click());
  await click(page, 'Rewind to here');
  await page.waitForFunction(() => !document.body.innerText.includes('Running…'));
  check(!(await page.$('.problem')), 'no error');

  // A graph of nodes and actions.
  await click(page, 'Evergreen graph', '[role=tab]');
  await page.waitForFunction(() => [...document.querySelectorAll('button')].some((b) => b.innerText === 'Run'));
  await click(page, 'Run');
  await page.waitForFunction(() => document.querySelectorAll('.graph .done').length >= 4);
  check(await page.$$eval('.graph .act', (all) => all.length) === 3, 'three actions are drawn');
  await runSnippets(page, HTTP, (out) => /nodeFragments/.test(out), 'evergreen');
  await page.close();

  // Every model of tensors that gives one answer gives it to what its form says at first.
  const {data} = await (await fetch(`${base}/v1/models`)).json();
  const index = await (await fetch(`${base}/v2/repository/index`, {method: 'POST'})).json();
  for (const {name} of index.filter((m) => !data.some((d) => d.id === m.name) && !/sequence|repeat/.test(m.name))) {
    page = await open(`try/${name}`);
    await page.waitForSelector('fieldset');
    await click(page, 'Run');
    await page.waitForFunction(() => document.querySelector('[data-output], .problem'));
    check(!(await page.$('.problem')), `${name}: ${await page.$eval('main', (m) => m.innerText.slice(0, 400))}`);
    await page.close();
  }
}

// Tab goes through everything that can be used, and what has the focus can be seen.
async function keyboard() {
  for (const hash of PAGES) {
    const page = await open(hash);
    await connected(page);
    const wanted = await page.evaluate(() => [...document.querySelectorAll('a[href], button:not(:disabled), select, input:not([type=file]), textarea, summary, [tabindex="0"]')].slice(0, 40)
      .filter((e) => e.tabIndex >= 0 && e.checkVisibility?.({contentVisibilityAuto: true, visibilityProperty: true})).length);
    let seen = 0, invisible = 0;
    for (let i = 0; i < Math.min(wanted + 5, 45); ++i) {
      await page.keyboard.press('Tab');
      const state = await page.evaluate(() => {
        const e = document.activeElement;
        if (!e || e === document.body || e.dataset.seen) return null;
        e.dataset.seen = '1';
        const style = getComputedStyle(e.classList.contains('sr') ? e.parentElement : e);
        return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
      });
      if (state !== null) ++seen;
      if (state === false && ++invisible) troubles.push(`${hash}: no focus ring on ${await page.evaluate(() => document.activeElement.outerHTML.slice(0, 120))}`);
    }
    check(seen >= Math.min(wanted, 30) * 0.7, `${hash}: Tab reaches ${seen} of ${wanted}`);
    await page.close();
  }
  const page = await open('overview');
  await page.waitForSelector('.uplot canvas');
  await page.waitForFunction(() => weirConsole.size().ticks > 3);
  await page.focus('.plot');
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction(() => / at \d/.test(document.querySelector('.plot').getAttribute('aria-label')));
  check(true);
  await page.focus('nav a');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('h1').innerText === 'Models');
  await page.waitForFunction(() => document.activeElement.id === 'main');  // a screen reader goes on in the new page
  check(true);
  await page.close();
}

async function hostile() {
  const texts = fs.readFileSync(argument, 'utf8').split('\n').filter(Boolean);
  for (const hash of ['overview', 'models', 'requests', 'docs/config']) {
    const page = await open(hash);
    await connected(page);
    await page.waitForFunction(() => weirConsole.size().ticks > 2);
    if (hash === 'models' || hash === 'overview') for (const text of texts) await has(page, text);
    check(await page.evaluate(() => !globalThis.pwned && !document.querySelector('main img[src="x"], main script, main b > i > u')), `${hash}: text became HTML`);
    // The policy: neither a script in the page, nor an image or a request of elsewhere.
    const allowed = await page.evaluate(() => new Promise((done) => {
      const script = document.createElement('script');
      script.textContent = 'globalThis.pwned = true';
      document.body.append(script);
      fetch('http://elsewhere.localhost:1/').then(() => done('fetch'), () => done(globalThis.pwned ? 'script' : ''));
    }));
    check(allowed === '', `${hash}: the policy lets in ${allowed}`);
    await page.close();
  }
  troubles.length = 0;  // what the policy has refused is told on the page's own console
}

// A day of one event a second, as fast as it goes.
async function bounded() {
  const page = await open('overview');
  const profiler = await page.createCDPSession();
  const heap = async () => {
    await profiler.send('HeapProfiler.collectGarbage');
    return (await page.metrics()).JSHeapUsedSize;
  };
  await page.waitForFunction(() => weirConsole.size().ticks > 1);
  const feed = (from, n) => page.evaluate((first, count) => {
    for (let i = first; i < first + count; ++i) weirConsole.take('change', {time: Date.now() + i * 1000, values: {'weir_requests_total{protocol="oip-rest",code="OK"}': 1000 + i}, warnings: [`line ${i}`]});
    return weirConsole.size();
  }, from, n);
  const early = await feed(1, 2000), before = await heap();
  const late = await feed(2001, 86400), grown = await heap() - before;
  check(late.ticks - early.ticks >= 86400, JSON.stringify([early, late]));
  check(late.tracks === early.tracks && late.past === early.past && late.series === early.series, JSON.stringify([early, late]));
  check(grown < 2 << 20, `the heap has grown by ${grown} bytes`);
  await page.close();
}

// A model is unloaded and loaded by its buttons.
async function change() {
  const page = await open('models');
  await connected(page);
  const row = '[data-model="simple_int8"]';
  const press = async (text) => {
    await page.waitForFunction((r, t) => [...document.querySelectorAll(`${r} button`)].some((b) => b.innerText.startsWith(t) && !b.disabled), {}, row, text);
    await page.evaluate((r, t) => [...document.querySelectorAll(`${r} button`)].find((b) => b.innerText.startsWith(t)).click(), row, text);
  };
  const becomes = (state) => page.waitForFunction((r, s) => document.querySelector(`${r} .state`).innerText === s, {}, row, state);
  check(/onnx, cpu.*not batched across requests/.test(await page.$eval(`${row} .served`, (s) => s.innerText)), 'a row says what serves the model');
  await press('Reload');
  await press('Unload');
  await page.waitForFunction((r) => document.querySelector(`${r} .state`).innerText !== 'ready', {}, row);
  check((await fetch(`${base}/v2/models/simple_int8/ready`)).status !== 200, 'it is unloaded');
  await press('Load');
  await becomes('ready');
  check((await fetch(`${base}/v2/models/simple_int8/ready`)).status === 200, 'it is loaded');
  check(!(await page.$(`${row} .problem`)), 'no error is shown');
  await page.close();
}

async function key() {
  const page = await open('overview');
  const input = await page.waitForSelector('dialog[open] input');
  await input.type(argument);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.health').innerText === 'ready');
  check(true);
  check(await page.evaluate((secret) => !JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href]).includes(secret), argument), 'the key is in memory alone');
  await page.evaluate(() => { location.hash = '#/requests'; });
  await page.waitForFunction(() => document.querySelector('h1').innerText === 'Requests' && !document.querySelector('dialog[open]'));
  check(true);
  await page.evaluate(() => { location.hash = '#/models'; });
  await has(page, 'Nothing can be loaded or unloaded from here: ');
  check(await page.evaluate(() => ![...document.querySelectorAll('button')].some((b) => /load/i.test(b.innerText))), 'a key without the role admin has no buttons that change a model');
  await page.close();
}

void main({pages: () => pages(argument), live, try: trying, keyboard, hostile, bounded, change, key});
