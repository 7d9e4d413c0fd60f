// LlamaIndex and instructor, as they come from npm, against a running server: node extraction_client.js URL model
// The demo model is made to call tools and to keep to schemas: what is tested is form, streaming and round trips.
'use strict';
const OpenAI = require('openai').default;
const Instructor = require('@instructor-ai/instructor').default;
const { z } = require('zod/v3'); // what instructor's own parts are made for
const { OpenAI: LlamaOpenAI, OpenAIEmbedding } = require('@llamaindex/openai');
const { Settings, Document, VectorStoreIndex, SimpleChatEngine, SummaryIndex, tool: llamaTool } = require('llamaindex');

const [root, model] = process.argv.slice(2);
const messages = [{ role: 'user', content: 'Tell me about the sea.' }];
const zone = z.object({ zone: z.enum(['CET', 'UTC']) });
const truth = (value, what) => { if (!value) throw new Error(typeof what === 'string' ? what : JSON.stringify(what)); };
let passed = 0, failed = 0;

async function test(name, run) {
  try { await run(); passed++; } catch (error) { failed++; console.log(`FAILED ${name}: ${error.stack}`); }
}

async function instructor() {
  const client = new OpenAI({ baseURL: `${root}/v1`, apiKey: 'none', maxRetries: 0 });
  const ask = { model, messages, temperature: 0, max_tokens: 200, max_retries: 0 };
  for (const mode of ['TOOLS', 'JSON', 'JSON_SCHEMA', 'MD_JSON']) {
    const made = Instructor({ client, mode });
    // MD_JSON holds the model to nothing: it is only asked, which the demo model does not hear.
    if (mode === 'MD_JSON') {
      await test(`instructor ${mode}: what does not fit is said`, async () => {
        const error = await made.chat.completions.create({ ...ask, max_tokens: 20, response_model: { schema: zone, name: 'Zone' } }).catch((e) => e);
        truth(error instanceof Error, error);
      });
      continue;
    }
    if (mode === 'JSON') { // the schema stands in the prompt alone; any object is JSON
      await test('instructor JSON: an object', async () => {
        const any = await made.chat.completions.create({ ...ask, max_tokens: 400, response_model: { schema: z.object({}).passthrough(), name: 'Any' } });
        truth(typeof any === 'object', any);
      });
      continue;
    }
    await test(`instructor ${mode}: a value of the schema`, async () => {
      const value = await made.chat.completions.create({ ...ask, response_model: { schema: zone, name: 'Zone' } });
      truth(zone.safeParse(value).success, value);
    });
    await test(`instructor ${mode}: nested values`, async () => {
      const schema = z.object({ places: z.array(zone).min(1).max(2), note: z.enum(['a', 'b']) });
      const value = await made.chat.completions.create({ ...ask, response_model: { schema, name: 'Places' } });
      truth(schema.safeParse(value).success, value);
    });
    await test(`instructor ${mode}: a stream of ever more`, async () => {
      const stream = await made.chat.completions.create({ ...ask, stream: true, response_model: { schema: zone, name: 'Zone' } });
      let last;
      for await (const partial of stream) last = partial;
      truth(zone.safeParse(last).success, last);
    });
  }
}

async function llamaindex() {
  const llm = new LlamaOpenAI({ model, apiKey: 'none', baseURL: `${root}/v1`, temperature: 0, maxTokens: 40, maxRetries: 0 });
  const embedModel = new OpenAIEmbedding({ model, apiKey: 'none', baseURL: `${root}/v1`, maxRetries: 0 });
  Settings.llm = llm;
  Settings.embedModel = embedModel;
  let text;
  await test('llamaindex: chat', async () => {
    const answer = await llm.chat({ messages });
    text = answer.message.content;
    truth(text.length > 0, answer);
  });
  await test('llamaindex: chat as a stream', async () => {
    let streamed = '';
    for await (const piece of await llm.chat({ messages, stream: true })) streamed += piece.delta;
    truth(streamed === text, `${streamed} is not ${text}`);
  });
  await test('llamaindex: complete', async () => {
    truth((await llm.complete({ prompt: 'Tell me about the sea.' })).text.length > 0, 'text');
  });
  await test('llamaindex: a conversation', async () => {
    const engine = new SimpleChatEngine({ llm });
    truth((await engine.chat({ message: 'hi' })).message.content.length > 0, 'first');
    truth((await engine.chat({ message: 'and?' })).message.content.length > 0, 'second');
  });
  await test('llamaindex: a tool is called and its result goes back', async () => {
    const clock = llamaTool({ name: 'clock', description: 'Tells the time.', parameters: zone, execute: ({ zone: at }) => `noon in ${at}` });
    const forced = new LlamaOpenAI({ model, apiKey: 'none', baseURL: `${root}/v1`, temperature: 0, maxTokens: 200, maxRetries: 0, additionalChatOptions: { tool_choice: 'required' } });
    const { message } = await forced.chat({ messages, tools: [clock] });
    const [call] = message.options.toolCall;
    truth(call.name === 'clock', message);
    const result = await clock.call(typeof call.input === 'string' ? JSON.parse(call.input) : call.input);
    truth(/^noon in (CET|UTC)$/.test(result), result);
    const next = await llm.chat({ messages: [...messages, message, { role: 'user', content: result, options: { toolResult: { id: call.id, result, isError: false } } }] });
    truth(next.message.content.length > 0, next);
  });
  await test('llamaindex: an answer of a schema', async () => {
    const { message } = await llm.chat({ messages, responseFormat: zone });
    truth(zone.safeParse(JSON.parse(message.content)).success, message);
  });
  await test('llamaindex: embeddings, one and many', async () => {
    const one = await embedModel.getTextEmbedding('the sea');
    const [again, other] = await embedModel.getTextEmbeddings(['the sea', 'a hill']);
    truth(one.length > 0 && one.every((v, i) => v === again[i]) && other.length === one.length, one.length);
  });
  await test('llamaindex: an index of vectors is asked', async () => {
    const documents = ['The sea is wide.', 'A hill is high.'].map((said) => new Document({ text: said }));
    const index = await VectorStoreIndex.fromDocuments(documents);
    const nodes = await index.asRetriever({ similarityTopK: 1 }).retrieve({ query: 'The sea is wide.' });
    truth(nodes.length === 1 && nodes[0].node.text === 'The sea is wide.', nodes);
    truth((await index.asQueryEngine().query({ query: 'What is wide?' })).toString().length > 0, 'answer');
  });
  await test('llamaindex: an index without vectors is asked', async () => {
    const index = await SummaryIndex.fromDocuments([new Document({ text: 'The sea is wide.' })]);
    truth((await index.asQueryEngine().query({ query: 'What is wide?' })).toString().length > 0, 'answer');
  });
}

instructor().then(llamaindex).then(() => {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
});
