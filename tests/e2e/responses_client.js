// The `openai` package's Responses API against a running server: node responses_client.js http://127.0.0.1:8080 model
const OpenAI = require('openai').default ?? require('openai');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model] = process.argv;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const zone = { type: 'object', properties: { zone: { enum: ['CET', 'UTC'] } }, required: ['zone'], additionalProperties: false };
const tools = [{ type: 'function', name: 'clock', description: 'Tells the time.', parameters: zone, strict: true }];
const ask = { model, input: 'Tell me about the sea.', max_output_tokens: 24, temperature: 0 };
const calling = { ...ask, tools, tool_choice: { type: 'function', name: 'clock' }, max_output_tokens: 200 };

async function main() {
  let plain, called;
  await test('a text is answered', async () => {
    plain = await client.responses.create({ ...ask, instructions: 'Be brief.' });
    same(plain.object, 'response', 'object');
    truth(plain.output_text.length > 0, 'there is text');
    same(plain.output_text, plain.output[0].content[0].text, 'output_text');
    truth(['completed', 'incomplete'].includes(plain.status), plain.status);
    same(plain.usage.total_tokens, plain.usage.input_tokens + plain.usage.output_tokens, 'usage');
    same(plain.instructions, 'Be brief.', 'instructions');
  });
  await test('it is the same as a chat', async () => {
    const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: ask.input }];
    const chat = await client.chat.completions.create({ model, messages, max_completion_tokens: 24, temperature: 0 });
    same(plain.output_text, chat.choices[0].message.content, 'text');
  });
  await test("the package's stream puts the response together", async () => {
    const stream = client.responses.stream({ ...ask, instructions: 'Be brief.' });
    let text = '';
    const types = new Set();
    for await (const event of stream) {
      types.add(event.type);
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    const final = await stream.finalResponse();
    same(text, plain.output_text, 'text');
    same(final.output_text, plain.output_text, 'final text');
    for (const type of ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added', 'response.output_text.done', 'response.content_part.done', 'response.output_item.done'])
      truth(types.has(type), type);
  });
  await test('a tool is called', async () => {
    called = await client.responses.create(calling);
    same(called.output.length, 1, 'items');
    same(called.output[0].type, 'function_call', 'type');
    truth(['CET', 'UTC'].includes(JSON.parse(called.output[0].arguments).zone), called.output[0].arguments);
    same(called.status, 'completed', 'status');
  });
  await test('a stream calls the same tool', async () => {
    let text = '', done;
    for await (const event of await client.responses.create({ ...calling, stream: true })) {
      if (event.type === 'response.function_call_arguments.delta') text += event.delta;
      if (event.type === 'response.function_call_arguments.done') done = event.arguments;
    }
    same(text, done, 'pieces');
    same(text, called.output[0].arguments, 'arguments');
  });
  await test('its result goes back', async () => {
    const input = [{ role: 'user', content: ask.input }, ...called.output, { type: 'function_call_output', call_id: called.output[0].call_id, output: 'noon' }];
    const next = await client.responses.create({ ...ask, tools, tool_choice: 'none', input });
    truth(next.output_text.length > 0, 'the conversation goes on');
    const further = await client.responses.create({ ...ask, input: [...input, ...next.output, { role: 'user', content: [{ type: 'input_text', text: 'And now?' }] }] });
    truth(further.output_text.length > 0, 'and on');
  });
  await test('parse() gives values of a schema', async () => {
    const answer = await client.responses.parse({ ...ask, max_output_tokens: 200, text: { format: { type: 'json_schema', name: 'clock', schema: zone, strict: true } } });
    truth(['CET', 'UTC'].includes(JSON.parse(answer.output_text).zone), answer.output_text);
  });
  await test('one goes on behind another, is retrieved and deleted', async () => {
    const next = await client.responses.create({ ...ask, input: 'And now?', previous_response_id: plain.id });
    same(next.previous_response_id, plain.id, 'previous_response_id');
    const turns = [{ role: 'user', content: ask.input }, { role: 'assistant', content: plain.output_text }, { role: 'user', content: 'And now?' }];
    const whole = await client.responses.create({ ...ask, input: turns, store: false });
    same(next.output_text, whole.output_text, 'the same as with all turns');
    same((await client.responses.retrieve(plain.id)).output[0].content[0].text, plain.output_text, 'retrieved');
    const items = [];
    for await (const item of client.responses.inputItems.list(next.id, { order: 'asc', limit: 1 })) items.push(item.content[0].text);
    same(items.join('|'), turns.map((turn) => turn.content).join('|'), 'items of the input');
    const { input_tokens } = await client.responses.inputTokens.count({ model, input: 'And now?', previous_response_id: plain.id });
    same(input_tokens, next.usage.input_tokens, 'tokens that are counted beforehand');
    await client.responses.delete(plain.id);
    for (const id of [plain.id, whole.id]) {
      const error = await client.responses.retrieve(id).catch((e) => e);
      truth(error instanceof OpenAI.NotFoundError, `${error}`);
    }
  });
  await test('a stream goes on where it broke off', async () => {
    const told = [];
    for await (const event of await client.responses.create({ ...ask, stream: true })) told.push(event);
    const id = told[0].response.id;
    for (const last of [-1, 3, told.length - 2]) {
      const rest = [];
      const query = { stream: true, ...(last < 0 ? {} : { starting_after: last }) };
      for await (const event of await client.responses.retrieve(id, query)) rest.push(event);
      same(JSON.stringify(rest), JSON.stringify(told.slice(last + 1)), `events behind ${last}`);
    }
    const final = await client.responses.stream({ response_id: id }).finalResponse();
    same(final.output_text, told.at(-1).response.output_text ?? final.output_text, 'text');
  });
  await test('one in the background is streamed', async () => {
    const types = [];
    let id;
    for await (const event of await client.responses.create({ ...ask, background: true, stream: true })) types.push(event.type), id ??= event.response.id;
    same(types[0], 'response.created', 'the first event');
    truth(['response.completed', 'response.incomplete'].includes(types.at(-1)), types.at(-1));
    truth((await client.responses.retrieve(id)).output_text.length > 0, 'it is stored');
  });
  await test('a long conversation is made short', async () => {
    const input = [{ role: 'user', content: 'Hello!' }, { role: 'assistant', content: 'Hi.' }, { role: 'user', content: 'What is the sea?' }];
    const short = await client.responses.compact({ model, input });
    same(short.object, 'response.compaction', 'object');
    same(short.output.map((item) => item.type).join(), 'message,message,compaction', 'items');
    same(short.usage.total_tokens, short.usage.input_tokens + short.usage.output_tokens, 'usage');
    const next = await client.responses.create({ ...ask, input: [...short.output, { role: 'user', content: 'And now?' }] });
    truth(next.output_text.length > 0, 'it goes on');
  });
  await test('errors are of its classes', async () => {
    for (const [extra, param] of [[{ previous_response_id: 'resp_1' }, 'previous_response_id'], [{ tools: [{ type: 'web_serch' }] }, 'tools'], [{ temperature: 9 }, 'temperature']]) {
      const error = await client.responses.create({ ...ask, ...extra }).then(() => new Error('it was accepted'), (e) => e);
      truth(error instanceof OpenAI.BadRequestError, `${error}`);
      same(error.param, param, 'param');
    }
    const absent = await client.responses.create({ ...ask, model: 'absent' }).catch((e) => e);
    truth(absent instanceof OpenAI.NotFoundError, `${absent}`);
  });
  await test('only tools that are allowed are called', async () => {
    const other = { ...tools[0], name: 'calendar' };
    const answer = await client.responses.create({ ...calling, tools: [other, ...tools], tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'clock' }] } });
    truth(answer.output.filter((item) => item.type === 'function_call').every((item) => item.name === 'clock'), JSON.stringify(answer.output));
  });
  await test('logprobs are included', async () => {
    const answer = await client.responses.create({ ...ask, include: ['message.output_text.logprobs'], top_logprobs: 3 });
    const [{ text, logprobs }] = answer.output[0].content;
    same(logprobs.map((one) => one.token).join('').startsWith(text.slice(0, 4)), true, 'tokens');
    truth(logprobs.every((one) => one.top_logprobs.length === 3 && one.logprob <= one.top_logprobs[0].logprob), JSON.stringify(logprobs[0]));
  });
  finish();
}
main();
