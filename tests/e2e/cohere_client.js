// Cohere's client from npm against a running server with a reranker, and with an encoder if one is named:
// node cohere_client.js http://127.0.0.1:8080 rank enc
'use strict';
const { CohereClient, CohereClientV2, CohereError } = require('cohere-ai');

const [root, model, encoder] = process.argv.slice(2);
const query = 'Which animals jump?';
const documents = ['The quick brown fox jumps over the lazy dog.', 'x', 'permissions and limitations'];
let passed = 0, failed = 0;

async function test(name, run) {
  try { await run(); passed++; } catch (error) { failed++; console.log(`FAILED ${name}: ${error.stack}`); }
}
function truth(value, what) { if (!value) throw new Error(JSON.stringify(what)); }
function ranked(results) { return results.every((r, i) => i === 0 || results[i - 1].relevanceScore >= r.relevanceScore); }

async function embeds(client, v2) {
  let floats;
  await test('embed', async () => {
    const said = await client.embed({ model: encoder, texts: documents, inputType: 'search_document' });
    truth(said.responseType === 'embeddings_floats' && said.embeddings.length === 3 && said.texts[1] === 'x', said);
    truth(said.meta.billedUnits.inputTokens > 3, said.meta);
    floats = said.embeddings;
  });
  await test('embed with types', async () => {
    const said = await client.embed({ model: encoder, texts: documents, inputType: 'search_document', embeddingTypes: ['float'] });
    truth(said.responseType === 'embeddings_by_type' && JSON.stringify(said.embeddings.float) === JSON.stringify(floats), said);
  });
  await test('embed, version 2', async () => {
    const { id, embeddings } = await v2.embed({ model: encoder, texts: documents, inputType: 'search_query', embeddingTypes: ['float', 'ubinary'] });
    truth(id && JSON.stringify(embeddings.float) === JSON.stringify(floats), embeddings);
    const bits = floats[0].map((v) => Number(v > 0));
    truth(embeddings.ubinary[0].every((byte, i) => byte === parseInt(bits.slice(8 * i, 8 * i + 8).join('').padEnd(8, '0'), 2)), embeddings.ubinary);
  });
  await test('embed, version 2, contents', async () => {
    const inputs = documents.map((text) => ({ content: [{ type: 'text', text }] }));
    const { embeddings } = await v2.embed({ model: encoder, inputs, inputType: 'search_query', embeddingTypes: ['float'] });
    truth(JSON.stringify(embeddings.float) === JSON.stringify(floats), embeddings);
  });
}

async function main() {
  const asked = { environment: root, token: 'none', maxRetries: 0 };
  const client = new CohereClient(asked), v2 = new CohereClientV2(asked);
  let scores;
  await test('rerank', async () => {
    const { results } = await client.rerank({ model, query, documents });
    truth(results.length === 3 && ranked(results), results);
    scores = new Map(results.map((r) => [r.index, r.relevanceScore]));
    truth(new Set(scores.keys()).size === 3 && [...scores.values()].every((s) => s > 0 && s < 1), results);
  });
  await test('rerank, version 2', async () => {
    const { id, results } = await v2.rerank({ model, query, documents });
    truth(id && ranked(results) && results.every((r) => r.relevanceScore === scores.get(r.index) && !r.document), results);
  });
  await test('top n', async () => {
    const { results } = await v2.rerank({ model, query, documents, topN: 1 });
    truth(results.length === 1 && results[0].relevanceScore === Math.max(...scores.values()), results);
  });
  await test('documents that are objects, and come back', async () => {
    const { results } = await client.rerank({ model, query, documents: documents.map((text) => ({ text })), returnDocuments: true });
    truth(results.every((r) => r.document.text === documents[r.index] && r.relevanceScore === scores.get(r.index)), results);
  });
  await test('documents that are cut', async () => {
    const { results } = await v2.rerank({ model, query, documents: ['word '.repeat(5000), 'x'], maxTokensPerDoc: 4096 });
    truth(results.length === 2, results);
  });
  await test('a model that is not there', async () => {
    const error = await v2.rerank({ model: 'none', query, documents }).catch((e) => e);
    truth(error instanceof CohereError && error.statusCode === 404, error);
  });
  await test('no documents', async () => {
    const error = await client.rerank({ model, query, documents: [] }).catch((e) => e);
    truth(error instanceof CohereError && error.statusCode === 400, error);
  });
  if (encoder) await embeds(client, v2);
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
main();
