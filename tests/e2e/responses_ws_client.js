// The `openai` package's ResponsesWS against a running server: node responses_ws_client.js http://127.0.0.1:8080 model [key]
const OpenAI = require('openai').default ?? require('openai');
const { ResponsesWS } = require('openai/resources/responses/ws');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model, key] = process.argv;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: key ?? 'none', maxRetries: 0 });
const ask = { type: 'response.create', model, input: 'Tell me about the sea.', max_output_tokens: 12, temperature: 0 };
const clock = { type: 'function', name: 'clock', parameters: { type: 'object', properties: { zone: { enum: ['CET', 'UTC'] } }, required: ['zone'], additionalProperties: false } };
const LAST = ['response.completed', 'response.incomplete', 'response.failed', 'error'];

// The events until the end of a response, of all that come on the connection.
function reader(ws) {
  const events = [];
  const waiting = [];
  const deliver = () => {
    while (waiting.length > 0) {
      const end = events.findIndex((event) => LAST.includes(event.type));
      if (end < 0) return;
      waiting.shift()(events.splice(0, end + 1));
    }
  };
  const take = (event) => {
    events.push(event);
    deliver();
  };
  ws.on('event', take);
  ws.on('error', (error) => error.error ?? take({ type: 'error', message: error.message }));
  return () => new Promise((resolve) => {
    waiting.push(resolve);
    deliver();
  });
}
const text = (events) => events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta).join('');

async function main() {
  const plain = await client.responses.create({ ...ask, type: undefined, store: false });
  const ws = new ResponsesWS(client);
  const next = reader(ws);
  let first;
  await test('the events are those of a response', async () => {
    ws.send({ ...ask, store: false });
    const events = await next();
    same(events[0].type, 'response.created', 'the first');
    same(events.map((event) => event.sequence_number), events.map((_, i) => i), 'numbers');
    same(text(events), plain.output_text, 'text');
    first = events.at(-1).response;
    same(first.output[0].content[0].text, plain.output_text, 'the response');
  });
  await test('one that is not stored is continued on the connection', async () => {
    ws.send({ ...ask, store: false, input: 'And now?', previous_response_id: first.id });
    const events = await next();
    const turns = [{ role: 'user', content: ask.input }, { role: 'assistant', content: plain.output_text }, { role: 'user', content: 'And now?' }];
    const whole = await client.responses.create({ ...ask, type: undefined, store: false, input: turns });
    same(text(events), whole.output_text, 'the same as with all turns');
  });
  await test('elsewhere it is not found', async () => {
    const other = new ResponsesWS(client);
    const told = reader(other);
    other.send({ ...ask, previous_response_id: first.id });
    const [event] = await told();
    same([event.type, event.status, event.error.code, event.error.param], ['error', 400, 'previous_response_not_found', 'previous_response_id'], 'event');
    same([event.code, event.param], [event.error.code, event.error.param], "as the package's type has it");
    other.close();
  });
  await test('requests that are sent together run in their order', async () => {
    for (const max_output_tokens of [2, 3, 4]) ws.send({ ...ask, max_output_tokens });
    for (const tokens of [2, 3, 4]) same((await next()).at(-1).response.usage.output_tokens, tokens, 'tokens');
  });
  await test('a warm-up says nothing and is continued', async () => {
    ws.send({ ...ask, generate: false });
    const warm = (await next()).at(-1);
    same([warm.type, warm.response.output], ['response.completed', []], 'warm-up');
    ws.send({ ...ask, input: [], previous_response_id: warm.response.id });
    same(text(await next()), plain.output_text, 'text');
  });
  await test('a tool is called and its result goes back', async () => {
    ws.send({ ...ask, store: false, tools: [clock], tool_choice: { type: 'function', name: 'clock' }, max_output_tokens: 200 });
    const called = (await next()).at(-1).response;
    same(called.output[0].name, 'clock', 'name');
    ws.send({ ...ask, tools: [clock], tool_choice: 'none', previous_response_id: called.id, input: [{ type: 'function_call_output', call_id: called.output[0].call_id, output: 'noon' }] });
    truth(text(await next()).length > 0, 'the conversation goes on');
  });
  await test('an error leaves the connection as it is', async () => {
    ws.send({ ...ask, model: 'none' });
    same((await next())[0].error.code, 'model_not_found', 'code');
    ws.sendRaw('nonsense');
    same((await next())[0].status, 400, 'status');
    ws.send(ask);
    const stored = (await next()).at(-1).response;
    same((await client.responses.retrieve(stored.id)).id, stored.id, 'stored');
  });
  await test('the iterator ends with the connection', async () => {
    const types = [];
    const open = ws.stream();
    ws.close();
    for await (const event of open) types.push(event.type);
    same(types.at(-1), 'close', 'the last');
  });
  await test('another key is refused', async () => {
    if (!key) return;
    const refused = new ResponsesWS(new OpenAI({ baseURL: `${base}/v1`, apiKey: 'another', maxRetries: 0 }));
    const error = await new Promise((resolve) => refused.on('error', resolve));
    truth(error.message.includes('401'), error.message);
  });
  finish();
}

main();
