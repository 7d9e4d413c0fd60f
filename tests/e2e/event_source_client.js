// new EventSource() in headless Chromium: event_source_client.js PAGE URL prints, as JSON, the events that came, how
// often the source was open, and that it has ended by itself.
'use strict';
const puppeteer = require('puppeteer-core');

const [, , pageUrl, source] = process.argv;
const PATIENCE = 60_000;

// In the page, whose origin the source has.
const listen = (url, patience) => new Promise((done, failed) => {
  const told = {events: [], opened: 0};
  const events = new EventSource(url);
  setTimeout(() => failed(new Error(JSON.stringify(told))), patience);
  events.onopen = () => ++told.opened;
  const take = (event) => told.events.push({type: event.type, id: event.lastEventId, data: event.data});
  events.onmessage = take;
  events.addEventListener('end', take);
  events.onerror = () => { if (events.readyState === EventSource.CLOSED) done(told); };
});

(async () => {
  const browser = await puppeteer.launch({executablePath: process.env.CHROMIUM, headless: true, timeout: PATIENCE, protocolTimeout: 2 * PATIENCE,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking']});
  try {
    const page = await browser.newPage();
    await page.goto(pageUrl, {waitUntil: 'domcontentloaded', timeout: PATIENCE});
    console.log(JSON.stringify(await page.evaluate(listen, source, PATIENCE)));
  } finally {
    await browser.close();
  }
})();
