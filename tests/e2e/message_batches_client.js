// Anthropic's `@anthropic-ai/sdk` and its message batches against a running server: node message_batches_client.js http://127.0.0.1:8080 model key
const Anthropic = require('@anthropic-ai/sdk').default ?? require('@anthropic-ai/sdk');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , baseURL, model, apiKey = 'none'] = process.argv;
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const params = (content, more) => ({ model, max_tokens: 4, temperature: 0, messages: [{ role: 'user', content }], ...more });

async function over(id) {
  for (;;) {
    const batch = await client.messages.batches.retrieve(id);
    if (batch.processing_status === 'ended') return batch;
    await new Promise((go) => setTimeout(go, 50));
  }
}

async function results(id) {
  const out = new Map();
  for await (const { custom_id, result } of await client.messages.batches.results(id)) out.set(custom_id, result);
  return out;
}

async function main() {
  let batch;
  await test('a batch runs', async () => {
    batch = await client.messages.batches.create({ requests: [
      { custom_id: 'a', params: params('hello') }, { custom_id: 'b', params: params('sea\n"quoted" \u00e9') },
      { custom_id: 'bad', params: params('x', { temperature: 99 }) }, { custom_id: 'none', params: params('x', { model: 'nope' }) }] });
    same(batch.type, 'message_batch', 'type');
    same(batch.processing_status, 'in_progress', 'processing_status');
    same(batch.request_counts.processing, 4, 'processing');
    truth(Date.parse(batch.expires_at) - Date.parse(batch.created_at) > 23 * 3600e3, 'it has a day');
    batch = await over(batch.id);
    same(JSON.stringify(batch.request_counts), '{"processing":0,"succeeded":2,"errored":2,"canceled":0,"expired":0}', 'request_counts');
    truth(Date.parse(batch.ended_at) >= Math.floor(Date.parse(batch.created_at) / 1000) * 1000, 'ended_at');
  });
  await test('its results are the answers of live messages', async () => {
    const got = await results(batch.id);
    same([...got.keys()].sort().join(), 'a,b,bad,none', 'custom_ids');
    const live = await client.messages.create(params('hello'));
    same(got.get('a').type, 'succeeded', 'type');
    same(got.get('a').message.role, 'assistant', 'role');
    same(got.get('a').message.content[0].text, live.content[0].text, 'text');
    same(got.get('bad').type, 'errored', 'type');
    same(got.get('bad').error.error.type, 'invalid_request_error', 'error');
    same(got.get('none').error.error.type, 'not_found_error', 'error');
  });
  await test('batches are listed page by page, both ways', async () => {
    const { id } = await client.messages.batches.create({ requests: [{ custom_id: 'later', params: params('x') }] });
    const ids = [];
    for await (const each of client.messages.batches.list({ limit: 1 })) ids.push(each.id);
    truth(ids.indexOf(id) < ids.indexOf(batch.id), 'the newest first');
    const back = [];
    for await (const each of client.messages.batches.list({ limit: 1, before_id: batch.id })) back.push(each.id);
    truth(back.includes(id) && !back.includes(batch.id), 'those before');
    await over(id);
  });
  await test('a batch is canceled', async () => {
    const requests = Array.from({ length: 300 }, (_, i) => ({ custom_id: `r-${i}`, params: params('hello', { max_tokens: 64 }) }));
    const { id } = await client.messages.batches.create({ requests });
    same((await client.messages.batches.cancel(id)).processing_status, 'canceling', 'processing_status');
    const done = await over(id);
    truth(done.cancel_initiated_at, 'cancel_initiated_at');
    const { succeeded, canceled } = done.request_counts;
    same(succeeded + canceled, 300, 'request_counts');
    truth(canceled > 0, `${canceled} are canceled`);
    const got = await results(id);
    same(got.size, 300, 'results');
    same([...got.values()].filter(({ type }) => type === 'canceled').length, canceled, 'canceled');
  });
  await test("its beta's paths are the same", async () => {
    const same_one = await client.beta.messages.batches.retrieve(batch.id);
    same(same_one.id, batch.id, 'id');
  });
  await test('a batch is deleted', async () => {
    same((await client.messages.batches.delete(batch.id)).type, 'message_batch_deleted', 'type');
    const error = await client.messages.batches.retrieve(batch.id).then(() => { throw new Error('it is there'); }, (refused) => refused);
    truth(error instanceof Anthropic.NotFoundError, `NotFoundError, got ${error}`);
  });
  await test('what is wrong is refused', async () => {
    for (const requests of [[], [{ custom_id: 'a', params: params('x') }, { custom_id: 'a', params: params('x') }],
      [{ custom_id: 'a', params: params('x', { stream: true }) }], [{ custom_id: 'x'.repeat(65), params: params('x') }], 'no list']) {
      const error = await client.messages.batches.create({ requests }).then(() => { throw new Error('it was accepted'); }, (refused) => refused);
      truth(error instanceof Anthropic.BadRequestError, `BadRequestError, got ${error}`);
      truth(/requests/.test(error.message), error.message);
    }
  });
  finish();
}

main();
