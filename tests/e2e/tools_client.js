// The `openai` package calls tools on a running server: node tools_client.js http://127.0.0.1:8080 model
// The demo model chooses no tool sensibly: it is made to call them, and what it says is held to their schemas.
const OpenAI = require('openai').default ?? require('openai');
const Ajv = require('ajv/dist/2020');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model] = process.argv;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const ajv = new Ajv({ strict: false });
const messages = [{ role: 'user', content: 'How is the weather in Paris?' }];
const parameters = {
  weather: { type: 'object', properties: { city: { enum: ['Paris', 'Rome'] }, days: { type: 'integer', minimum: 1, maximum: 7 } }, required: ['city', 'days'], additionalProperties: false },
  clock: { type: 'object', properties: { zone: { enum: ['CET', 'UTC'] } }, required: ['zone'], additionalProperties: false },
};
const tools = Object.entries(parameters).map(([name, schema]) => ({ type: 'function', function: { name, description: `Tells the ${name}.`, parameters: schema } }));
const named = (name) => ({ type: 'function', function: { name } });
const ask = { model, messages, tools, max_completion_tokens: 300, temperature: 0 };
function valid(call) {
  same(call.type, 'function', 'type');
  truth(/^call_\w{10,}$/.test(call.id), call.id);
  const check = ajv.compile(parameters[call.function.name]);
  truth(check(JSON.parse(call.function.arguments)), `${call.function.arguments}: ${ajv.errorsText(check.errors)}`);
}

async function refused(extra, param) {
  const error = await client.chat.completions.create({ ...ask, ...extra }).then(() => new Error('it was accepted'), (e) => e);
  truth(error instanceof OpenAI.BadRequestError, `BadRequestError, got ${error}`);
  same(error.param, param, 'param');
}

async function main() {
  let plain;
  await test('a tool that is named is called', async () => {
    plain = (await client.chat.completions.create({ ...ask, tool_choice: named('weather') })).choices[0];
    same(plain.message.content, null, 'content');
    same(plain.message.tool_calls.length, 1, 'calls');
    same(plain.message.tool_calls[0].function.name, 'weather', 'name');
    same(plain.finish_reason, 'tool_calls', 'finish_reason');
    valid(plain.message.tool_calls[0]);
  });
  await test('a stream has the same call in pieces', async () => {
    const stream = await client.chat.completions.create({ ...ask, tool_choice: named('weather'), stream: true });
    let names = 0, pieces = 0, text = '', reason = null;
    for await (const chunk of stream) {
      const [choice] = chunk.choices;
      reason = choice?.finish_reason ?? reason;
      for (const call of choice?.delta?.tool_calls ?? []) {
        same(call.index, 0, 'index');
        if (call.function.name) { names++; truth(call.id, 'id'); }
        if (call.function.arguments) { pieces++; text += call.function.arguments; }
      }
    }
    same(names, 1, 'the name comes once');
    truth(pieces > 3, `${pieces} pieces`);
    same(text, plain.message.tool_calls[0].function.arguments, 'arguments');
    same(reason, 'tool_calls', 'finish_reason');
  });
  await test("the package's stream puts the message together", async () => {
    const heard = [];
    const runner = client.chat.completions.stream({ ...ask, tool_choice: 'required', parallel_tool_calls: false });
    runner.on('tool_calls.function.arguments.done', (event) => heard.push(event.name));
    const final = await runner.finalChatCompletion();
    const { tool_calls: calls } = final.choices[0].message;
    same(calls.length, 1, 'calls');
    same(heard.join(), calls[0].function.name, 'events');
    valid(calls[0]);
  });
  await test('required calls, several of them and of several choices', async () => {
    for (const seed of [1, 2, 3]) {
      const answer = await client.chat.completions.create({ ...ask, tool_choice: 'required', temperature: 1.5, seed, n: 2, max_completion_tokens: 800 });
      for (const choice of answer.choices) {
        truth(choice.message.tool_calls.length > 0, 'calls');
        if (choice.finish_reason !== 'length') choice.message.tool_calls.forEach(valid);
        same(new Set(choice.message.tool_calls.map((call) => call.id)).size, choice.message.tool_calls.length, 'ids');
      }
    }
  });
  await test('results go back and the chat goes on', async () => {
    const [call] = plain.message.tool_calls;
    const rest = [plain.message, { role: 'tool', tool_call_id: call.id, content: '{"sky":"blue"}' }];
    const next = await client.chat.completions.create({ ...ask, messages: [...messages, ...rest], tool_choice: 'none' });
    truth(next.choices[0].message.content.length > 0, 'text');
    const spoken = { role: 'assistant', content: null, tool_calls: plain.message.tool_calls };
    truth((await client.chat.completions.create({ ...ask, messages: [...messages, spoken, rest[1]] })).choices.length, 'auto');
  });
  await test('runTools calls the functions', async () => {
    const heard = [];
    const runner = client.chat.completions.runTools({
      ...ask, tools: undefined, tool_choice: named('clock'),
      tools: [{ type: 'function', function: { name: 'clock', parse: JSON.parse, function: (said) => { heard.push(said); return 'noon'; }, parameters: parameters.clock } }],
    }, { maxChatCompletions: 1 });
    await runner.done();
    same(heard.length, 1, 'calls');
    truth(['CET', 'UTC'].includes(heard[0].zone), JSON.stringify(heard));
    truth(runner.messages.some((m) => m.role === 'tool' && m.content === 'noon'), 'the result is in the messages');
  });
  await test('with auto the model is free not to call', async () => {
    const answer = await client.chat.completions.create({ ...ask, tool_choice: 'auto', max_completion_tokens: 8 });
    truth(answer.choices[0].message.content !== undefined, 'content');
  });
  await test('with auto and a form the answer is a call, or has the form', async () => {
    const schema = { type: 'object', properties: { mood: { enum: ['calm', 'wild'] } }, required: ['mood'], additionalProperties: false };
    const response_format = { type: 'json_schema', json_schema: { name: 'mood', schema, strict: true } };
    const seen = new Set();
    for (let seed = 1; seed <= 12 && seen.size < 2; seed++) {
      const { choices: [{ message }] } = await client.chat.completions.create({ ...ask, tool_choice: 'auto', temperature: 2, seed, response_format });
      if (message.tool_calls) message.tool_calls.forEach(valid);
      else truth(['calm', 'wild'].includes(JSON.parse(message.content).mood), message.content);
      seen.add(Boolean(message.tool_calls));
    }
  });
  await test('what cannot be is refused by name', async () => {
    await refused({ tool_choice: named('absent') }, 'tool_choice');
    await refused({ tools: undefined, tool_choice: 'required' }, 'tool_choice');
    await refused({ tools: [{ type: 'function', function: { name: 'x', strict: true, parameters: { not: {} } } }], tool_choice: 'required' }, 'tools');
    await refused({ response_format: { type: 'json_object' }, tool_choice: 'required' }, 'response_format');
  });
  finish();
}
main();
