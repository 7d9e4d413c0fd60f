// The server's OpenAPI document under a stock validator, and its real answers under the document's own schemas (ajv).
// node openapi_client.js http://HOST:PORT
'use strict';
const Ajv = require('ajv/dist/2020').default;

const base = process.argv[2];
let Validator, passed = 0, failed = 0;
function check(name, good, why) {
  good ? passed++ : failed++;
  if (!good) console.log(`FAILED ${name}: ${why}`);
}

async function get(path, options) {
  const answer = await fetch(base + path, options);
  return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.text() };
}
const json = (body) => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

async function valid(path) {
  const document = JSON.parse((await get(path)).body);
  const result = await new Validator().validate(document);
  check(`${path} is OpenAPI`, result.valid, JSON.stringify(result.errors ?? '').slice(0, 2000));
  check(`${path} has version 3.1`, document.openapi.startsWith('3.1'), document.openapi);
  return document;
}

function validatorOf(document) {
  const ajv = new Ajv({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: 'api', components: document.components });
  return (schema) => ajv.compile({ $id: `of-${Math.random()}`, ...JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/')) });
}

// The answer to a request must be of the schema that the document gives it.
async function answers(document, operation, path, options, status = '200') {
  const [method, pattern] = operation.split(' ');
  const described = document.paths[pattern][method.toLowerCase()];
  const got = await get(path, options);
  const response = described.responses[String(got.status)] ?? described.responses.default;
  check(`${operation} says ${status}`, String(got.status) === status, `${got.status} ${got.body.slice(0, 300)}`);
  const schema = response.content['application/json'].schema;
  const validate = validatorOf(document)(schema);
  check(`${operation} ${status} is of its schema`, validate(JSON.parse(got.body)), `${JSON.stringify(validate.errors)} ${got.body.slice(0, 300)}`);
  if (options?.body && status === '200') {
    const request = validatorOf(document)(described.requestBody.content['application/json'].schema);
    check(`${operation} takes its schema`, request(JSON.parse(options.body)), JSON.stringify(request.errors));
  }
}

(async () => {
  ({ Validator } = await import(`${process.env.NODE_PATH}/@seriousme/openapi-schema-validator/index.js`));  // no CommonJS
  const document = await valid('/openapi.json');
  const simple = await valid('/v2/models/simple/docs/dataplane.json');
  await valid('/v2/docs/dataplane.json');
  const row = [...Array(16).keys()];
  const tensor = (name) => ({ name, datatype: 'INT32', shape: [1, 16], data: row });
  const infer = json({ inputs: [tensor('INPUT0'), tensor('INPUT1')] });
  const chat = { model: 'chat', messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 };
  await answers(document, 'GET /v2', '/v2');
  await answers(document, 'GET /v2/models', '/v2/models');
  await answers(document, 'GET /v2/models/{model}', '/v2/models/simple');
  await answers(document, 'GET /v2/models/{model}', '/v2/models/nope', undefined, '404');
  await answers(document, 'GET /v2/models/{model}/config', '/v2/models/simple/config');
  await answers(document, 'GET /v2/models/{model}/stats', '/v2/models/simple/stats');
  await answers(document, 'GET /v2/health/ready', '/v2/health/ready');
  await answers(document, 'POST /v2/models/{model}/infer', '/v2/models/simple/infer', infer);
  await answers(document, 'POST /v2/models/{model}/infer', '/v2/models/simple/infer', json({}), '400');
  await answers(simple, 'POST /v2/models/simple/infer', '/v2/models/simple/infer', infer);
  await answers(document, 'POST /v2/repository/index', '/v2/repository/index', json({}));
  await answers(document, 'POST /v2/models/{model}/generate', '/v2/models/chat/generate', json({ text_input: 'hi', parameters: { max_tokens: 3 } }));
  await answers(document, 'POST /v1/chat/completions', '/v1/chat/completions', json(chat));
  await answers(document, 'POST /v1/chat/completions', '/v1/chat/completions', json({ ...chat, temperature: 9 }), '400');
  await answers(document, 'POST /v1/completions', '/v1/completions', json({ model: 'chat', prompt: 'a', max_tokens: 3 }));
  await answers(document, 'POST /v1/embeddings', '/v1/embeddings', json({ model: 'chat', input: 'a' }));
  await answers(document, 'POST /v1/conversations', '/v1/conversations', json({ items: [{ role: 'user', content: 'hi' }] }));
  await answers(document, 'POST /v1/chat/completions', '/v1/chat/completions', json({ ...chat, store: true, metadata: { of: 'a test' } }));
  await answers(document, 'GET /v1/chat/completions', '/v1/chat/completions?limit=1');
  await answers(document, 'GET /v1/models', '/v1/models');
  await answers(document, 'GET /v1/models/{model}', '/v1/models/simple');
  await answers(document, 'POST /v1/models/{model}:predict', '/v1/models/simple:predict', json({ inputs: { INPUT0: [row], INPUT1: [row] } }));
  await answers(document, 'POST /grps/v1/infer/predict', '/grps/v1/infer/predict?model=identity', json({ str_data: 'hi' }));
  await answers(document, 'POST /inference.GRPCInferenceService/ModelMetadata', '/inference.GRPCInferenceService/ModelMetadata', json({ name: 'simple' }));
  const bad = validatorOf(simple)(simple.components.schemas.InferRequest);
  check('a tensor of another model is not of the schema', !bad({ inputs: [{ ...tensor('INPUT0'), shape: [1, 15] }] }), 'it is');
  const page = await get('/docs', { headers: { accept: 'text/html' } });
  check('/docs is a page for browsers', page.type.startsWith('text/html') && page.body.includes('/v2/models/{model}/infer'), page.type);
  const manual = await get('/docs', { headers: { accept: '*/*' } });
  check('/docs is the manual for others', manual.type.startsWith('text/plain') && manual.body.startsWith('#'), manual.type);
  const model = await get('/v2/models/simple/docs');
  check('a model has a page', model.body.includes('/v2/models/simple/infer'), model.body.slice(0, 200));
  const none = await get('/v2/models/nope/docs');
  check('an unknown model has none', none.status === 404, none.status);
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
})();
