// The `openai` package's stored chat completions against a running server: node chats_client.js http://127.0.0.1:8080 model
const OpenAI = require('openai').default ?? require('openai');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model] = process.argv;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const chats = client.chat.completions;
const ask = { model, max_completion_tokens: 8, temperature: 0, messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: [{ type: 'text', text: 'Hello!' }] }] };

async function ids(query) {
  const out = [];
  for await (const chat of chats.list(query)) out.push(chat.id);
  return out;
}

async function main() {
  let first, second;
  await test('one is stored, whole and streamed', async () => {
    first = await chats.create({ ...ask, store: true, metadata: { of: 'a test', n: '1' } });
    const { metadata, ...stored } = await chats.retrieve(first.id);
    same(stored, first, 'what is stored');
    same(metadata, { of: 'a test', n: '1' }, 'metadata');
    second = await client.chat.completions.stream({ ...ask, store: true, metadata: { of: 'a test', n: '2' }, stream_options: { include_usage: true } }).finalChatCompletion();
    const again = await chats.retrieve(second.id);
    same(again.object, 'chat.completion', 'object');
    same(again.choices[0].message.content, second.choices[0].message.content, 'the text of the stream');
    same(again.choices[0].finish_reason, second.choices[0].finish_reason, 'why it ended');
    same(again.usage.total_tokens, second.usage.total_tokens, 'usage');
    const kept = await chats.create({ ...ask, metadata: { of: 'a test' } });
    const error = await chats.retrieve(kept.id).catch((e) => e);
    truth(error instanceof OpenAI.NotFoundError, 'one that is not to be stored is not');
  });
  await test('they are listed', async () => {
    same(await ids({ limit: 1, metadata: { of: 'a test' } }), [first.id, second.id], 'the oldest first');
    same(await ids({ order: 'desc', model, metadata: { of: 'a test' } }), [second.id, first.id], 'the newest first');
    same(await ids({ metadata: { of: 'a test', n: '2' } }), [second.id], 'by metadata');
    same(await ids({ model: 'none' }), [], 'by model');
  });
  await test('the messages are listed', async () => {
    const messages = [];
    for await (const message of chats.messages.list(first.id, { limit: 1 })) messages.push(message);
    same(messages.map((m) => m.role), ['system', 'user'], 'roles');
    same([messages[0].content, messages[0].content_parts], ['Be brief.', null], 'a text');
    same([messages[1].content, messages[1].content_parts], [null, ask.messages[1].content], 'parts');
    same(messages[1].id, `${first.id}-1`, 'id');
  });
  await test('one is changed and deleted', async () => {
    same((await chats.update(first.id, { metadata: { of: 'another' } })).metadata, { of: 'another' }, 'changed');
    same(await ids({ metadata: { of: 'a test' } }), [second.id], 'by the metadata that it had');
    same(await ids({ metadata: { of: 'another' } }), [first.id], 'by those that it has');
    same(await chats.delete(first.id), { object: 'chat.completion.deleted', id: first.id, deleted: true }, 'deleted');
    for (const wrong of [() => chats.retrieve(first.id), () => chats.delete(first.id), () => chats.update(first.id, { metadata: {} }), () => chats.messages.list(first.id)]) {
      const error = await wrong().catch((e) => e);
      truth(error instanceof OpenAI.NotFoundError, `${error}`);
    }
    const long = await chats.create({ ...ask, store: true, metadata: { a: 'x'.repeat(3000) } }).catch((e) => e);
    truth(long instanceof OpenAI.BadRequestError && long.param === 'metadata', `${long}`);
  });
  finish();
}
main();
