// The `openai` package's files and batches against a running server: node batches_client.js http://127.0.0.1:8080 model key
const OpenAI = require('openai').default ?? require('openai');
const { toFile } = require('openai');
const { createHash } = require('crypto');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model, key] = process.argv;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: key ?? 'none', maxRetries: 0 });
const line = (id, url, body) => JSON.stringify({ custom_id: id, method: 'POST', url, body: { model, ...body } });
const chat = (id, text, more) =>
  line(id, '/v1/chat/completions', { messages: [{ role: 'user', content: text }], max_tokens: 4, temperature: 0, ...more });

async function upload(lines) {
  return client.files.create({ file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'), purpose: 'batch' });
}

async function over(id) {
  for (;;) {
    const batch = await client.batches.retrieve(id);
    if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) return batch;
    await new Promise((go) => setTimeout(go, 50));
  }
}

async function rows(id) {
  const text = await (await client.files.content(id)).text();
  return text.trim().split('\n').map((row) => JSON.parse(row));
}

async function main() {
  let file, batch;
  await test('a file is kept', async () => {
    file = await upload([chat('a', 'hello'), chat('b', 'sea'), chat('bad', 'x', { temperature: 99 })]);
    same(file.object, 'file', 'object');
    same(file.filename, 'in.jsonl', 'filename');
    same(file.purpose, 'batch', 'purpose');
    same((await client.files.retrieve(file.id)).bytes, file.bytes, 'bytes');
    const content = await (await client.files.content(file.id)).text();
    same(Buffer.byteLength(content), file.bytes, 'content');
  });
  await test('files are listed', async () => {
    const brief = await client.files.create({ file: await toFile(Buffer.from('{}'), 'x'), purpose: 'batch', expires_after: { anchor: 'created_at', seconds: 3600 } });
    same(brief.expires_at - brief.created_at, 3600, 'expires_after');
    for (const [order, after, next] of [['asc', file.id, brief.id], ['desc', brief.id, file.id]])
      same((await client.files.list({ purpose: 'batch', order, after, limit: 1 })).data[0].id, next, order);
    await client.files.delete(brief.id);
    const ids = [];
    for await (const each of client.files.list({ purpose: 'batch', limit: 1 })) ids.push(each.id);
    truth(ids.includes(file.id), 'the file is in the list');
  });
  await test('a batch runs', async () => {
    batch = await client.batches.create({
      input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { job: 'night' } });
    same(batch.object, 'batch', 'object');
    same(batch.status, 'validating', 'status');
    same(batch.metadata.job, 'night', 'metadata');
    batch = await over(batch.id);
    same(batch.status, 'completed', 'status');
    same(JSON.stringify(batch.request_counts), '{"total":3,"completed":2,"failed":1}', 'request_counts');
  });
  await test('its answers are those of the live endpoint', async () => {
    const out = await rows(batch.output_file_id);
    same(out.map((row) => row.custom_id).join(), 'a,b', 'custom_ids');
    const live = await client.chat.completions.create(
      { model, messages: [{ role: 'user', content: 'sea' }], max_tokens: 4, temperature: 0 });
    same(out[1].response.status_code, 200, 'status_code');
    truth(out[1].response.request_id, 'request_id');
    same(out[1].response.body.choices[0].message.content, live.choices[0].message.content, 'content');
    same(out[1].error, null, 'error');
  });
  await test('its errors are in the error file', async () => {
    const [row] = await rows(batch.error_file_id);
    same(row.custom_id, 'bad', 'custom_id');
    same(row.response.status_code, 400, 'status_code');
    same(row.response.body.error.param, 'temperature', 'param');
  });
  await test('batches are listed', async () => {
    const ids = [];
    for await (const each of client.batches.list({ limit: 1 })) ids.push(each.id);
    truth(ids.includes(batch.id), 'the batch is in the list');
  });
  await test('completions, embeddings and responses run as well', async () => {
    for (const [url, body] of [['/v1/completions', { prompt: 'a', max_tokens: 2 }], ['/v1/embeddings', { input: 'sea' }],
      ['/v1/responses', { input: 'sea', max_output_tokens: 4, store: false }]]) {
      const input = await upload([line('one', url, body)]);
      const { id } = await client.batches.create({ input_file_id: input.id, endpoint: url, completion_window: '24h' });
      const done = await over(id);
      same(done.request_counts.completed, 1, url);
    }
  });
  await test('bad lines are told with their numbers', async () => {
    const input = await upload([chat('a', 'x'), '{"custom_id":', chat('a', 'x'), line('c', '/v1/embeddings', { input: 'x' })]);
    const { id } = await client.batches.create(
      { input_file_id: input.id, endpoint: '/v1/chat/completions', completion_window: '24h' });
    const done = await over(id);
    same(done.status, 'failed', 'status');
    same(done.errors.data.map((e) => `${e.line} ${e.code}`).join(), '2 invalid_json_line,3 duplicate_custom_id,4 mismatched_url', 'errors');
  });
  await test('a batch is cancelled', async () => {
    const input = await upload(Array.from({ length: 400 }, (_, i) => chat(`line ${i}`, 'hello', { max_tokens: 64 })));
    const { id } = await client.batches.create(
      { input_file_id: input.id, endpoint: '/v1/chat/completions', completion_window: '24h' });
    same((await client.batches.cancel(id)).status, 'cancelling', 'status');
    const done = await over(id);
    same(done.status, 'cancelled', 'status');
    if (done.error_file_id) {
      const errors = await rows(done.error_file_id);
      truth(errors.every((row) => row.error.code === 'batch_cancelled'), 'the rest was not run');
    }
  });
  await test('a file comes in parts', async () => {
    const content = Buffer.from([chat('a', 'hello'), chat('b', 'sea'.repeat(100_000))].join('\n'));
    const upload = await client.uploads.create({ bytes: content.length, filename: 'parts.jsonl', mime_type: 'text/jsonl', purpose: 'batch' });
    same(upload.status, 'pending', 'status');
    const half = content.length >> 1;
    const parts = await Promise.all([content.subarray(half), content.subarray(0, half)].map(
      async (data) => client.uploads.parts.create(upload.id, { data: await toFile(data, 'part') })));
    same(parts[0].upload_id, upload.id, 'upload_id');
    const part_ids = [parts[1].id, parts[0].id];
    const wrong = await client.uploads.complete(upload.id, { part_ids, md5: '0'.repeat(32) }).catch((error) => error);
    same(wrong.status, 400, 'status of another md5');
    const md5 = createHash('md5').update(content).digest('hex');
    const { file, status } = await client.uploads.complete(upload.id, { part_ids, md5 });
    same(status, 'completed', 'status');
    same(file.bytes, content.length, 'bytes');
    const kept = Buffer.from(await (await client.files.content(file.id)).arrayBuffer());
    truth(kept.equals(content), 'the content is the same');
    same((await client.batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' })).object, 'batch', 'object');
  });
  await test('an upload is cancelled', async () => {
    const upload = await client.uploads.create({ bytes: 3, filename: 'x', mime_type: 'text/plain', purpose: 'batch' });
    await client.uploads.parts.create(upload.id, { data: await toFile(Buffer.from('abc'), 'part') });
    same((await client.uploads.cancel(upload.id)).status, 'cancelled', 'status');
    const late = await client.uploads.complete(upload.id, { part_ids: [] }).catch((error) => error);
    same(late.status, 400, 'status');
  });
  await test('what is not there is 404', async () => {
    for (const ask of [() => client.files.retrieve('file-1'), () => client.batches.retrieve('batch_1'), () => client.uploads.cancel('upload_1'), () => client.files.content('file-../../etc/passwd')])
      await ask().then(() => { throw new Error('it was found'); }, (error) => same(error.status, 404, 'status'));
  });
  await test('a file is deleted', async () => {
    const gone = await client.files.delete(file.id);
    same(gone.deleted, true, 'deleted');
    await client.files.retrieve(file.id).then(() => { throw new Error('it is there'); }, (error) => same(error.status, 404, 'status'));
  });
  finish();
}
main();
