// Frameworks against a running server, as they come from npm: node frameworks_client.js http://127.0.0.1:8080 model
// The AI SDK over its OpenAI (chat, responses, completion), OpenAI-compatible and Anthropic providers; LangChain over
// OpenAI (chat, responses), Ollama and Anthropic. The demo model is made to call tools and to keep to schemas.
'use strict';
const { generateText, streamText, tool, stepCountIs, Output } = require('ai');
const { createOpenAI } = require('@ai-sdk/openai');
const { createOpenAICompatible } = require('@ai-sdk/openai-compatible');
const { createAnthropic } = require('@ai-sdk/anthropic');
const { ChatOpenAI } = require('@langchain/openai');
const { ChatOllama } = require('@langchain/ollama');
const { ChatAnthropic } = require('@langchain/anthropic');
const { z } = require('zod');

const [root, model] = process.argv.slice(2);
const prompt = 'Tell me about the sea.';
const schema = z.object({ zone: z.enum(['CET', 'UTC']) });
const zones = schema.shape.zone.options;
let passed = 0, failed = 0;
globalThis.AI_SDK_LOG_WARNINGS = false;

async function test(name, run) {
  try { await run(); passed++; } catch (error) { failed++; console.log(`FAILED ${name}: ${error.stack} ${error.responseBody ?? ''}`); }
}
function truth(value, what) { if (!value) throw new Error(what); }

async function aiSdk(name, provided, speaks) {
  const ask = { model: provided, prompt, maxOutputTokens: 40, temperature: 0, maxRetries: 0 };
  const tools = { clock: tool({ description: 'Tells the time.', inputSchema: schema, execute: async () => 'noon' }) };
  const calling = { ...ask, tools, toolChoice: { type: 'tool', toolName: 'clock' }, maxOutputTokens: 200 };
  let text;
  await test(`${name}: text`, async () => {
    const answer = await generateText(ask);
    ({ text } = answer);
    truth(text.length > 0 && answer.usage.outputTokens > 0, JSON.stringify(answer.usage));
  });
  await test(`${name}: stream`, async () => {
    let streamed = '';
    for await (const piece of streamText(ask).textStream) streamed += piece;
    truth(streamed === text, `${JSON.stringify(streamed)} is not ${JSON.stringify(text)}`);
  });
  if (speaks !== 'chats') return;
  await test(`${name}: a conversation`, async () => {
    const messages = [{ role: 'user', content: 'hi' }, { role: 'assistant', content: 'yes' }, { role: 'user', content: [{ type: 'text', text: 'so?' }] }];
    truth((await generateText({ ...ask, prompt: undefined, system: 'Be brief.', messages })).text.length > 0, 'text');
  });
  await test(`${name}: a tool`, async () => {
    const { toolCalls: [call], finishReason } = await generateText(calling);
    truth(zones.includes(call.input.zone) && !call.invalid, JSON.stringify(call));
    truth(finishReason === 'tool-calls', finishReason);
  });
  await test(`${name}: a tool, streamed`, async () => {
    const result = streamText(calling);
    const types = new Set();
    for await (const part of result.fullStream) types.add(part.type);
    truth(types.has('tool-call') && types.has('tool-input-delta') && !types.has('error'), [...types].join());
    truth(zones.includes((await result.toolCalls)[0].input.zone), 'zone');
  });
  await test(`${name}: any tool`, async () => {
    truth((await generateText({ ...calling, toolChoice: 'required' })).toolCalls.length > 0, 'calls');
  });
  await test(`${name}: two steps`, async () => {
    const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? calling.toolChoice : 'none' });
    const answer = await generateText({ ...calling, stopWhen: stepCountIs(2), prepareStep });
    truth(answer.steps.length === 2 && answer.steps[0].toolResults[0].output === 'noon', 'steps');
    truth(answer.text.length > 0, 'text');
  });
  await test(`${name}: free to call`, async () => { truth((await generateText({ ...ask, tools })).finishReason, 'finishReason'); });
  await test(`${name}: an object`, async () => {
    const { output } = await generateText({ ...ask, output: Output.object({ schema }), maxOutputTokens: 200 });
    truth(zones.includes(output.zone), JSON.stringify(output));
  });
  if (name === 'ai, anthropic') return; // that API has no form of the answer
  await test(`${name}: an object or a call`, async () => {
    const providerOptions = { openai: { parallelToolCalls: false }, weir: { parallel_tool_calls: false } }; // else the demo model calls until it is cut
    const answer = await generateText({ ...ask, tools, output: Output.object({ schema }), maxOutputTokens: 200, providerOptions });
    truth(answer.toolCalls.length ? zones.includes(answer.toolCalls[0].input.zone) : zones.includes(answer.output.zone), answer.text);
  });
}

// `method`: how it asks for an object; for Anthropic its own default, which is a tool: the other leaves out enum.
async function langChain(name, chat, choice, method = 'jsonSchema') {
  await test(`${name}: text`, async () => { truth((await chat.invoke(prompt)).text.length > 0, 'text'); });
  await test(`${name}: stream`, async () => {
    let text = '';
    for await (const chunk of await chat.stream(prompt)) text += chunk.text;
    truth(text.length > 0, 'text');
  });
  await test(`${name}: a tool`, async () => {
    const clock = { type: 'function', function: { name: 'clock', description: 'Tells the time.', parameters: z.toJSONSchema(schema) } };
    const said = await chat.bindTools([clock], { tool_choice: choice }).invoke(prompt);
    // Ollama's API has no choice of tools: the model is free not to call.
    if (choice) truth(zones.includes(said.tool_calls[0].args.zone), JSON.stringify(said.tool_calls));
  });
  await test(`${name}: an object`, async () => {
    const said = await chat.withStructuredOutput(schema, { name: 'clock', method }).invoke(prompt);
    truth(zones.includes(said.zone), JSON.stringify(said));
  });
}

async function main() {
  const apiKey = 'none', baseURL = `${root}/v1`;
  const openai = createOpenAI({ baseURL, apiKey });
  await aiSdk('ai, openai chat', openai.chat(model), 'chats');
  await aiSdk('ai, openai responses', openai.responses(model), 'chats');
  await aiSdk('ai, openai completion', openai.completion(model), 'completes');
  await aiSdk('ai, compatible', createOpenAICompatible({ baseURL, name: 'weir', supportsStructuredOutputs: true })(model), 'chats');
  await aiSdk('ai, anthropic', createAnthropic({ baseURL, apiKey })(model), 'chats');
  const usual = { model, apiKey, temperature: 0, maxTokens: 200, maxRetries: 0 };
  const clock = { type: 'function', function: { name: 'clock' } };
  await langChain('langchain, openai chat', new ChatOpenAI({ ...usual, configuration: { baseURL } }), clock);
  await langChain('langchain, openai responses', new ChatOpenAI({ ...usual, useResponsesApi: true, configuration: { baseURL } }), clock);
  await langChain('langchain, ollama', new ChatOllama({ model, baseUrl: root, temperature: 0, numPredict: 200, maxRetries: 0 }), undefined);
  await langChain('langchain, anthropic', new ChatAnthropic({ ...usual, anthropicApiUrl: root }), { type: 'tool', name: 'clock' }, 'functionCalling');
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
main();
