// The `openai` package's Conversations API against a running server: node conversations_client.js http://127.0.0.1:8080 model
const OpenAI = require('openai').default ?? require('openai');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model] = process.argv;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const ask = { model, max_output_tokens: 12, temperature: 0 };

async function told(id, query = { order: 'asc' }) {
  const out = [];
  for await (const item of client.conversations.items.list(id, query)) out.push(item.content?.[0]?.text ?? item.type);
  return out;
}

async function main() {
  let made;
  await test('one is made, shown and changed', async () => {
    made = await client.conversations.create({ metadata: { topic: 'sea' }, items: [{ type: 'message', role: 'user', content: 'Hello!' }] });
    same(made.object, 'conversation', 'object');
    same(made.metadata, { topic: 'sea' }, 'metadata');
    same(await client.conversations.retrieve(made.id), made, 'retrieved');
    same((await client.conversations.update(made.id, { metadata: { topic: 'land' } })).metadata, { topic: 'land' }, 'changed');
    same((await client.conversations.create()).metadata, {}, 'an empty one');
  });
  await test('items are added, listed page by page, and deleted', async () => {
    const added = await client.conversations.items.create(made.id, { items: [
      { role: 'assistant', content: [{ type: 'output_text', text: 'Hi.' }] },
      { type: 'function_call', call_id: 'c1', name: 'clock', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'noon' },
    ] });
    same(added.data.map((item) => item.type), ['message', 'function_call', 'function_call_output'], 'types');
    same(await told(made.id, { order: 'asc', limit: 1 }), ['Hello!', 'Hi.', 'function_call', 'function_call_output'], 'items');
    same((await told(made.id, {}))[0], 'function_call_output', 'the newest first');
    same((await client.conversations.items.retrieve(added.first_id, { conversation_id: made.id })).content[0].text, 'Hi.', 'one');
    for (const item of added.data.slice(1)) same((await client.conversations.items.delete(item.id, { conversation_id: made.id })).id, made.id, 'the conversation');
    same(await told(made.id), ['Hello!', 'Hi.'], 'what is left');
  });
  await test('a response goes on behind it, and is added to it', async () => {
    const first = await client.responses.create({ ...ask, conversation: made.id, input: 'What is the sea?' });
    same(first.conversation, { id: made.id }, 'conversation');
    const turns = [{ role: 'user', content: 'Hello!' }, { role: 'assistant', content: 'Hi.' }, { role: 'user', content: 'What is the sea?' }];
    same(first.output_text, (await client.responses.create({ ...ask, input: turns })).output_text, 'as with all turns');
    const { input_tokens } = await client.responses.inputTokens.count({ model, conversation: made.id, input: 'And?' });
    const stream = client.responses.stream({ ...ask, conversation: { id: made.id }, input: 'And?' });
    const second = await stream.finalResponse();
    same(second.usage.input_tokens, input_tokens, 'tokens that were counted before');
    same(await told(made.id), ['Hello!', 'Hi.', 'What is the sea?', first.output_text, 'And?', second.output_text], 'items');
  });
  await test('errors are of its classes', async () => {
    const full = Array(21).fill({ role: 'user', content: 'x' });
    const long = await client.conversations.items.create(made.id, { items: full }).catch((e) => e);
    truth(long instanceof OpenAI.BadRequestError && long.param === 'items', `${long}`);
    const both = await client.responses.create({ ...ask, input: 'x', conversation: made.id, previous_response_id: 'resp_1' }).catch((e) => e);
    truth(both instanceof OpenAI.BadRequestError && both.param === 'conversation', `${both}`);
  });
  await test('one that is deleted is gone', async () => {
    same(await client.conversations.delete(made.id), { id: made.id, object: 'conversation.deleted', deleted: true }, 'deleted');
    for (const wrong of [() => client.conversations.retrieve(made.id), () => client.conversations.delete(made.id), () => client.conversations.items.list(made.id), () => client.responses.create({ ...ask, input: 'x', conversation: made.id })]) {
      const error = await wrong().catch((e) => e);
      truth(error instanceof OpenAI.NotFoundError, `${error}`);
    }
  });
  finish();
}
main();
