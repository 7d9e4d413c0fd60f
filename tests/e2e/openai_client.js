// The official `openai` package against a running server: node openai_client.js http://127.0.0.1:8080 model
const OpenAI = require('openai').default ?? require('openai');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , base, model] = process.argv;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Tell me about the sea.' }];

async function main() {
  let plain;
  await test('models are listed', async () => {
    const ids = [];
    for await (const each of client.models.list()) ids.push(each.id);
    truth(ids.includes(model), `${model} is in ${ids}`);
    same((await client.models.retrieve(model)).object, 'model', 'object');
  });
  await test('a chat is answered with usage', async () => {
    plain = await client.chat.completions.create({ model, messages, max_completion_tokens: 24, temperature: 0 });
    same(plain.object, 'chat.completion', 'object');
    same(plain.choices[0].message.role, 'assistant', 'role');
    truth(plain.choices[0].message.content.length > 0, 'there is text');
    same(plain.usage.total_tokens, plain.usage.prompt_tokens + plain.usage.completion_tokens, 'usage');
  });
  await test("a developer's message is the system's, hints are taken, and Ollama's name of a model, too", async () => {
    const asked = { model, max_completion_tokens: 24, temperature: 0 };
    const texts = [];
    for (const role of ['system', 'developer']) {
      const answer = await client.chat.completions.create({
        ...asked, messages: [{ role, content: 'Be brief.' }, ...messages],
        ...role === 'developer' && { model: `${model}:latest`, verbosity: 'low', prompt_cache_options: { mode: 'explicit' } },
      });
      same(answer.model, model, 'model');
      texts.push(answer.choices[0].message.content);
    }
    same(texts[1], texts[0], 'text');
  });
  await test('a stream gives the same text, token by token, and usage last', async () => {
    const stream = await client.chat.completions.create({
      model, messages, max_completion_tokens: 24, temperature: 0, stream: true, stream_options: { include_usage: true },
    });
    let text = '';
    let chunks = 0;
    let usage;
    let reason;
    for await (const chunk of stream) {
      chunks++;
      text += chunk.choices[0]?.delta?.content ?? '';
      reason = chunk.choices[0]?.finish_reason ?? reason;
      if (chunk.usage) usage = chunk.usage;
    }
    same(text, plain.choices[0].message.content, 'text');
    same(reason, plain.choices[0].finish_reason, 'finish_reason');
    same(usage.completion_tokens, plain.usage.completion_tokens, 'completion tokens');
    truth(chunks > 5, `${chunks} chunks`);
  });
  await test("the package's own stream runner puts the message together", async () => {
    const runner = client.chat.completions.stream({ model, messages, max_completion_tokens: 24, temperature: 0 });
    const final = await runner.finalChatCompletion();
    same(final.choices[0].message.content, plain.choices[0].message.content, 'text');
  });
  await test('logprobs have alternatives, the likeliest first', async () => {
    const answer = await client.chat.completions.create({
      model, messages, max_completion_tokens: 5, temperature: 0, logprobs: true, top_logprobs: 3,
    });
    const content = answer.choices[0].logprobs.content;
    same(content.length, answer.usage.completion_tokens, 'one for each token');
    for (const entry of content) {
      same(entry.top_logprobs.length, 3, 'alternatives');
      truth(entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob, 'in order');
      same(entry.token, entry.top_logprobs[0].token, 'greedy takes the first');
      truth(entry.logprob <= 0, 'a probability');
    }
  });
  await test('completions score their prompt', async () => {
    const answer = await client.completions.create({ model, prompt: 'The sea is', max_tokens: 0, echo: true, logprobs: 1 });
    same(answer.choices[0].text, 'The sea is', 'text');
    const values = answer.choices[0].logprobs.token_logprobs;
    same(values[0], null, 'the first');
    truth(values.slice(1).every((v) => v < 0), 'the others');
  });
  await test('n, seed and stop', async () => {
    const ask = { model, prompt: 'Once upon a time', max_tokens: 12, n: 2, seed: 7, temperature: 1 };
    const one = await client.completions.create(ask);
    const two = await client.completions.create(ask);
    same(one.choices.length, 2, 'choices');
    same(JSON.stringify(one.choices.map((c) => c.text)), JSON.stringify(two.choices.map((c) => c.text)), 'same seed, same text');
    const plain = { model, prompt: 'The sea', max_tokens: 24, temperature: 0, ignore_eos: true };
    const whole = (await client.completions.create(plain)).choices[0].text;
    const stop = whole.slice(5, 9);  // whatever the model says, across the borders of its tokens
    const cut = await client.completions.create({ ...plain, stop: [stop] });
    same(cut.choices[0].text, whole.slice(0, whole.indexOf(stop)), 'text before the stop');
    same(cut.choices[0].finish_reason, 'stop', 'finish_reason');
  });
  await test('embeddings come as floats and as base64', async () => {
    const floats = await client.embeddings.create({ model, input: ['the sea', 'a ship'], encoding_format: 'float' });
    const packed = await client.embeddings.create({ model, input: ['the sea', 'a ship'] });
    same(floats.data.length, 2, 'inputs');
    same(floats.data[1].embedding.length, packed.data[1].embedding.length, 'length');
    truth(Math.abs(floats.data[1].embedding[0] - packed.data[1].embedding[0]) < 1e-5, 'the same numbers');
  });
  await test('errors are typed', async () => {
    const refused = async (ask) => client.chat.completions.create({ model, messages, ...ask }).then(
      () => { throw new Error('it was accepted'); }, (error) => error);
    let error = await refused({ model: 'nope' });
    truth(error instanceof OpenAI.NotFoundError, `NotFoundError, got ${error}`);
    same(error.code, 'model_not_found', 'code');
    error = await refused({ temperature: 3 });
    truth(error instanceof OpenAI.BadRequestError, `BadRequestError, got ${error}`);
    same(error.param, 'temperature', 'param');
    const schema = { type: 'object', properties: { a: { not: {} } } };
    error = await refused({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict: true } } });
    same(error.param, 'response_format', 'param');
    truth(/\/properties\/a: 'not' is not supported/.test(error.message), error.message);
    error = await refused({ messages: [{ role: 'user', content: 'x'.repeat(1 << 20) }] });
    same(error.code, 'context_length_exceeded', 'code');
  });
  await test('a stream that is broken off leaves the server well', async () => {
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    for await (const chunk of stream) { truth(chunk, 'a chunk'); break; }
    stream.controller.abort();
    const answer = await client.chat.completions.create({ model, messages, max_completion_tokens: 24, temperature: 0 });
    same(answer.choices[0].message.content, plain.choices[0].message.content, 'text');
  });
  finish();
}

main();
