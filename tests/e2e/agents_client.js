// The packages `ollama` and `@anthropic-ai/sdk` against a running server: node agents_client.js http://127.0.0.1:8080 model
const { Ollama } = require('ollama');
const Anthropic = require('@anthropic-ai/sdk').default ?? require('@anthropic-ai/sdk');
const { betaTool } = require('@anthropic-ai/sdk/helpers/beta/json-schema');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model] = process.argv;
const ollama = new Ollama({ host: base });
const anthropic = new Anthropic({ baseURL: base, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Tell me about the sea.' }];
const zone = { type: 'object', properties: { zone: { enum: ['CET', 'UTC'] } }, required: ['zone'], additionalProperties: false };
const options = { temperature: 0, num_predict: 24 };

async function refused(run, status) {
  try {
    await run();
  } catch (error) {
    return same(error.status ?? error.status_code, status, `status of ${error.message}`);
  }
  throw new Error('it was not refused');
}

async function ollamaTests() {
  let text;
  await test('ollama: a chat', async () => {
    const answer = await ollama.chat({ model, messages, options });
    text = answer.message.content;
    truth(text.length > 0 && answer.done, 'there is text');
    same(answer.message.role, 'assistant', 'role');
    truth(answer.prompt_eval_count > 0 && answer.eval_count > 0 && answer.total_duration > 0, 'figures');
    truth(answer.created_at instanceof Date || !Number.isNaN(Date.parse(answer.created_at)), 'created_at');
  });
  await test('ollama: a streamed chat has the same text', async () => {
    let streamed = '';
    let last;
    for await (const part of await ollama.chat({ model, messages, options, stream: true })) {
      streamed += part.message.content;
      last = part;
    }
    same(streamed, text, 'text');
    truth(last.done && ['stop', 'length'].includes(last.done_reason), 'it ends with its reason');
  });
  await test('ollama: a prompt, through the template and raw', async () => {
    const answer = await ollama.generate({ model, prompt: messages[0].content, options });
    same(answer.response, text, 'a prompt is a chat of one message');
    let raw = '';
    for await (const part of await ollama.generate({ model, prompt: 'The sea', raw: true, options, stream: true })) raw += part.response;
    truth(raw.length > 0, 'raw text');
  });
  await test('ollama: a stream is aborted', async () => {
    const stream = await ollama.chat({ model, messages, stream: true });
    setImmediate(() => stream.abort());
    try {
      for await (const part of stream) truth(part, 'part');
    } catch (error) {
      same(error.name, 'AbortError', 'error');
    }
  });
  await test('ollama: a tool is called and its result goes back', async () => {
    const ask = { model, messages, tools: [{ type: 'function', function: { name: 'clock', description: 'Tells the time.', parameters: zone } }], options: { temperature: 0, num_predict: 200 } };
    const tool_choice = { type: 'function', function: { name: 'clock' } };
    const { message, done_reason: reason } = await ollama.chat({ ...ask, tool_choice });
    same(message.tool_calls.length, 1, 'calls');
    same(message.tool_calls[0].function.name, 'clock', 'name');
    truth(['CET', 'UTC'].includes(message.tool_calls[0].function.arguments.zone), JSON.stringify(message));
    same(reason, 'stop', 'done_reason');
    const streamed = [];
    for await (const part of await ollama.chat({ ...ask, tool_choice, stream: true })) streamed.push(...part.message.tool_calls ?? []);
    same(JSON.stringify(streamed.map((call) => call.function)), JSON.stringify(message.tool_calls.map((call) => call.function)), 'streamed');
    const next = await ollama.chat({ ...ask, messages: [...messages, message, { role: 'tool', tool_name: 'clock', content: 'noon' }] });
    truth(next.done, 'the chat goes on, free to call or not');
  });
  await test('ollama: models are listed and shown', async () => {
    const names = (await ollama.list()).models.map((each) => each.name);
    truth(names.includes(`${model}:latest`), `${model} is in ${names}`);
    const shown = await ollama.show({ model });
    truth(shown.capabilities.includes('completion'), 'capabilities');
    truth(/^\d+(\.\d+)?[KMB]$/.test(shown.details.parameter_size), JSON.stringify(shown.details));
    truth(shown.model_info[`${shown.details.family}.context_length`] > 0, JSON.stringify(shown.model_info));
    truth((await ollama.ps()).models.length > 0, 'what is loaded');
    same((await ollama.version()).version, '0.13.5', "the version is Ollama's");
    same((await ollama.pull({ model })).status, 'success', 'a model that is here is pulled at once');
  });
  await test('ollama: what Ollama passes over is passed over', async () => {
    const old = { ...options, num_predict: 1e6, mirostat: 0, num_gqa: 1, typical_p: 0.7, stop: [''] };
    const answer = await ollama.chat({ model, messages, options: old, truncate: true, shift: false, unheard_of: 1 });
    truth(answer.message.content.startsWith(text), 'the same text, and longer');
  });
  await test('ollama: log probabilities', async () => {
    const { logprobs } = await ollama.chat({ model, messages, options, logprobs: true, top_logprobs: 2 });
    truth(logprobs.every((each) => each.logprob <= 0 && each.top_logprobs.length === 2), JSON.stringify(logprobs));
    let streamed = 0;
    for await (const part of await ollama.generate({ model, prompt: 'The sea', raw: true, options, logprobs: true, stream: true })) streamed += part.logprobs?.length ?? 0;
    truth(streamed > 0, 'those of a stream');
  });
  await test('ollama: embeddings', async () => {
    const { embeddings } = await ollama.embed({ model, input: ['the sea', 'a hill'] });
    same(embeddings.length, 2, 'count');
    const length = Math.hypot(...embeddings[0]);
    truth(Math.abs(length - 1) < 1e-3, `length ${length}`);
    truth((await ollama.embeddings({ model, prompt: 'the sea' })).embedding.length === embeddings[0].length, 'the older way');
  });
  await test('ollama: what is not there is refused', async () => {
    await refused(() => ollama.chat({ model: 'absent', messages }), 404);
    await refused(() => ollama.delete({ model }), 501);
    await refused(() => ollama.chat({ model, messages, options: { temperature: 'hot' } }), 400);
  });
}

async function anthropicTests() {
  const request = { model, max_tokens: 24, messages, temperature: 0 };
  let plain;
  await test('anthropic: a message', async () => {
    plain = await anthropic.messages.create({ ...request, system: 'Be brief.' });
    same(plain.type, 'message', 'type');
    truth(plain.content[0].text.length > 0, 'there is text');
    truth(['end_turn', 'max_tokens'].includes(plain.stop_reason), plain.stop_reason);
    truth(plain.usage.output_tokens > 0, 'usage');
  });
  await test("anthropic: the package's stream puts the same message together", async () => {
    const stream = anthropic.messages.stream({ ...request, system: 'Be brief.' });
    let text = '';
    stream.on('text', (piece) => { text += piece; });
    const whole = await stream.finalMessage();
    same(text, plain.content[0].text, 'text');
    same(whole.content[0].text, text, 'the final message');
    same(whole.stop_reason, plain.stop_reason, 'stop_reason');
    same(whole.usage.output_tokens, plain.usage.output_tokens, 'usage');
  });
  await test('anthropic: raw events', async () => {
    const types = new Set();
    for await (const event of await anthropic.messages.create({ ...request, stream: true })) types.add(event.type);
    for (const type of ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop'])
      truth(types.has(type), type);
  });
  await test('anthropic: blocks, results of tools and a beginning of the answer', async () => {
    const blocks = [
      { role: 'user', content: [{ type: 'text', text: 'How deep is it?', cache_control: { type: 'ephemeral' } }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'depth', input: { place: 'sea' } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: '4 km' }, { type: 'text', text: 'And now?' }] },
      { role: 'assistant', content: 'It' },
    ];
    truth((await anthropic.messages.create({ ...request, messages: blocks })).content, 'content');
  });
  await test('anthropic: a tool is called and its result goes back', async () => {
    const ask = { ...request, max_tokens: 200, tools: [{ name: 'clock', description: 'Tells the time.', input_schema: zone }], tool_choice: { type: 'tool', name: 'clock' } };
    const called = await anthropic.messages.create(ask);
    same(called.stop_reason, 'tool_use', 'stop_reason');
    same(called.content.length, 1, 'blocks');
    truth(['CET', 'UTC'].includes(called.content[0].input.zone), JSON.stringify(called.content));
    const stream = anthropic.messages.stream(ask);
    let json = '';
    stream.on('inputJson', (piece) => { json += piece; });
    const whole = await stream.finalMessage();
    same(JSON.stringify(whole.content[0].input), JSON.stringify(called.content[0].input), 'the final message');
    same(JSON.stringify(JSON.parse(json)), JSON.stringify(called.content[0].input), 'its pieces');
    same(whole.stop_reason, 'tool_use', 'stop_reason');
    const any = await anthropic.messages.create({ ...ask, tool_choice: { type: 'any', disable_parallel_tool_use: true } });
    same(any.content.filter((block) => block.type === 'tool_use').length, 1, 'one call');
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: called.content[0].id, content: [{ type: 'text', text: 'noon' }] }] };
    const next = await anthropic.messages.create({ ...ask, tool_choice: { type: 'none' }, messages: [...messages, { role: 'assistant', content: called.content }, result] });
    truth(next.content[0].text.length > 0, 'the chat goes on');
  });
  await test("anthropic: the package's runner calls a tool and goes on with its result", async () => {
    const zones = [];
    const run = async (input) => { zones.push(input.zone); return `noon ${input.zone}`; };
    const clock = betaTool({ name: 'clock', description: 'Tells the time.', inputSchema: zone, run });
    const ask = { ...request, max_tokens: 200, tools: [clock], tool_choice: { type: 'any', disable_parallel_tool_use: true }, max_iterations: 2 };
    for (const stream of [false, true]) {
      const replies = [];
      for await (const reply of anthropic.beta.messages.toolRunner({ ...ask, stream })) replies.push(stream ? await reply.finalMessage() : reply);
      same(replies.length, 2, 'turns');
      same(replies[1].stop_reason, 'tool_use', 'stop_reason');
    }
    truth(zones.length >= 2 && zones.every((each) => ['CET', 'UTC'].includes(each)), JSON.stringify(zones));
  });
  await test('anthropic: what agents send', async () => {
    const { data: answer, response } = await anthropic.beta.messages.create({
      ...request,
      max_tokens: 32000,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Tell me about the sea.' }] }, { role: 'system', content: 'There are two agents.' }],
      metadata: { user_id: 'a' },
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      betas: ['context-management-2025-06-27'],
      mcp_servers: [],
      container: null,
      unheard_of: 1,
    }, { timeout: 60_000 }).withResponse(); // without a timeout the package refuses so many tokens
    truth(answer.content[0].text.length > 0, 'there is text');
    truth(['end_turn', 'model_context_window_exceeded'].includes(answer.stop_reason), answer.stop_reason);
    same(response.headers.get('weir-ignored'), 'unheard_of', 'what is ignored');
  });
  await test('anthropic: tokens are counted', async () => {
    const { input_tokens: tokens } = await anthropic.messages.countTokens({ model, messages });
    truth(tokens > 4, `${tokens} tokens`);
  });
  await test('anthropic: a stop sequence is told', async () => {
    const stop = plain.content[0].text.trim().split(' ')[1];
    const answer = await anthropic.messages.create({ ...request, system: 'Be brief.', stop_sequences: [stop] });
    same(answer.stop_reason, 'stop_sequence', 'stop_reason');
    same(answer.stop_sequence, stop, 'stop_sequence');
  });
  await test('anthropic: errors are of its classes', async () => {
    try {
      await anthropic.messages.create({ ...request, model: 'absent' });
    } catch (error) {
      truth(error instanceof Anthropic.NotFoundError, error.constructor.name);
      same(error.error.error.type, 'not_found_error', 'type');
    }
    await refused(() => anthropic.messages.create({ ...request, temperature: 'hot' }), 400);
  });
}

async function main() {
  await ollamaTests();
  await anthropicTests();
  finish();
}
main();
