// Headless Chromium for the tests of the console: console_client.js and console_parts_client.js.
'use strict';
const {execFileSync} = require('node:child_process');
const path = require('node:path');
const puppeteer = require('puppeteer-core');

const [, , base, command, argument] = process.argv;
const PATIENCE = 60_000;
let browser, passed = 0, failed = 0;
const troubles = [];  // what a page has said on its own console, and asked of others
function check(good, what) {
  good ? ++passed : ++failed;
  if (!good) console.log(`FAILED: ${what}`);
}

const emulate = (page, theme) => page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: theme}, {name: 'prefers-reduced-motion', value: 'reduce'}]);

async function open(hash, {width = 1280, height = 900, theme = 'light', headers} = {}) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on('pageerror', (error) => troubles.push(`${hash}: ${error.message}`));
  page.on('console', (message) => { if (message.type() === 'error' && !/40[13] \(/.test(message.text())) troubles.push(`${hash}: ${message.text()}`); });
  page.on('request', (request) => { if (!request.url().startsWith(base) && !/^(data|blob):/.test(request.url())) troubles.push(`${hash} asks elsewhere: ${request.url()}`); });
  await emulate(page, theme);
  await page.setViewport({width, height});
  if (headers) await page.setExtraHTTPHeaders(headers);
  await page.goto(`${base}/#/${hash}`, {waitUntil: 'domcontentloaded'});
  await page.waitForSelector('main h1');
  return page;
}
const has = (page, text) => page.waitForFunction((t) => document.body.innerText.includes(t), {}, text);
const connected = (page) => page.waitForFunction(() => /^(ready|not ready)$/.test(document.querySelector('.health').innerText));
const click = (page, text, tag = 'button') => page.evaluate((t, name) => [...document.querySelectorAll(name)].find((b) => b.innerText.trim().startsWith(t)).click(), text, tag);
const metrics = async () => (await (await fetch(`${base}/metrics`)).text()).split('\n').filter((line) => line && !line.startsWith('#'));

// A command as it stands on the page.
function runSnippet(name, text) {
  const options = {timeout: PATIENCE, encoding: 'utf8', maxBuffer: 1 << 26};
  if (name === 'curl') return execFileSync('bash', ['-c', text], options);
  if (name === 'Python') return execFileSync('/usr/bin/python3', ['-c', text], options);
  if (name === 'JavaScript') return execFileSync(process.execPath, ['--input-type=module', '-e', text], options);
  // grpcurl is not in Debian: grpcurl.py takes its words, and asks the server's reflection as it does.
  return execFileSync('/usr/bin/python3', [path.join(__dirname, 'grpcurl.py')], {...options, input: text});
}
async function runSnippets(page, names, judge, what) {
  for (const name of names) {
    await click(page, name, '[role=tab]');
    await page.waitForSelector(`[data-snippet="${name}"]`);
    const out = runSnippet(name, await page.$eval(`[data-snippet="${name}"]`, (p) => p.textContent));
    check(judge(out, name), `${what} as ${name}: ${out.slice(0, 300)}`);
  }
}

// Runs the command that the words of this program name, and ends it.
async function main(commands) {
  browser = await puppeteer.launch({executablePath: process.env.CHROMIUM, headless: true, protocolTimeout: 8 * PATIENCE, timeout: PATIENCE,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking']});
  try {
    await commands[command]();
  } catch (error) {
    check(false, `${command}: ${error.stack}`);
    for (const page of await browser.pages()) console.log((await page.evaluate(() => `${location.href}\n${document.body?.innerText.slice(0, 1500)}`).catch(() => '')));
  }
  await browser.close();
  check(!troubles.length, troubles.slice(0, 5).join('\n'));
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

module.exports = {base, argument, troubles, check, emulate, open, has, connected, click, metrics, runSnippets, main};
