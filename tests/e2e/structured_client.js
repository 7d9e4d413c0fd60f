// Stock clients ask for answers of a form: node structured_client.js http://127.0.0.1:PORT MODEL
// The openai package asks, ajv says whether each answer is valid for its schema. Prints `N passed, N failed`.
'use strict';
const OpenAI = require('openai');
const Ajv = require('ajv/dist/2020');
const formats = require('ajv-formats');

const [root, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${root}/v1`, apiKey: 'none', maxRetries: 0 });
const ajv = new Ajv({ strict: false });
formats(ajv);

const short = { type: 'string', maxLength: 12 };
const schemas = {
  person: { type: 'object', properties: { name: short, age: { type: 'integer', minimum: 0, maximum: 150 } }, required: ['name', 'age'], additionalProperties: false },
  optional: { type: 'object', properties: { a: { type: 'null' }, b: { type: 'boolean' }, c: { enum: ['x', 'y', 3] } } },
  list: { type: 'object', properties: { items: { type: 'array', items: { type: 'number', minimum: -1, maximum: 1 }, minItems: 2, maxItems: 4 } }, required: ['items'] },
  union: { type: ['integer', 'null'] },
  any_of: { anyOf: [{ type: 'object', properties: { kind: { const: 'cat' }, lives: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['kind', 'lives'] }, { type: 'object', properties: { kind: { const: 'dog' } }, required: ['kind'] }] },
  one_of: { oneOf: [{ type: 'string', enum: ['a', 'b'] }, { type: 'boolean' }] },
  all_of: { allOf: [{ type: 'object', properties: { n: { type: 'integer', minimum: 10 } }, required: ['n'] }, { properties: { n: { maximum: 20 } } }] },
  refs: { $defs: { node: { type: 'object', properties: { v: { type: 'integer', minimum: 0, maximum: 9 }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } }, required: ['v', 'next'], additionalProperties: false } }, $ref: '#/$defs/node' },
  pattern: { type: 'object', properties: { code: { type: 'string', pattern: '^[A-Z]{2}-\\d{3}"?$' } }, required: ['code'] },
  date_time: { type: 'object', properties: { at: { type: 'string', format: 'date-time' }, on: { type: 'string', format: 'date' } }, required: ['at', 'on'] },
  uuid: { type: 'object', properties: { id: { type: 'string', format: 'uuid' }, ip: { type: 'string', format: 'ipv4' } }, required: ['id', 'ip'] },
  tuple: { type: 'array', prefixItems: [short, { type: 'integer', minimum: 1, maximum: 3 }], items: false, minItems: 2 },
  extra: { type: 'object', properties: { a: { type: 'integer', minimum: 1, maximum: 2 } }, required: ['a'], additionalProperties: { type: 'boolean' }, maxProperties: undefined },
  map: { type: 'object', additionalProperties: { type: 'boolean' }, propertyNames: { pattern: '^[a-z]{1,3}$' }, maxProperties: 3 },
  nested: { type: 'object', properties: Object.fromEntries(['x', 'y', 'z'].map(k => [k, { type: 'object', properties: { ok: { type: 'boolean' }, tag: { enum: ['é', '"', '\\'] } }, required: ['ok', 'tag'] }])), required: ['x', 'y', 'z'] },
};

let passed = 0, failed = 0;
async function test(name, run) {
  try { await run(); passed++; } catch (error) { failed++; console.log(`FAILED ${name}: ${error.stack}`); }
}
function truth(condition, what) { if (!condition) throw new Error(what); }
function valid(name, text) {
  const value = JSON.parse(text);
  const check = ajv.compile(schemas[name]);
  truth(check(value), `${name}: ${text}: ${ajv.errorsText(check.errors)}`);
}
const ask = { model, messages: [{ role: 'user', content: 'Tell me of curl.' }], max_tokens: 400 };
const form = name => ({ type: 'json_schema', json_schema: { name, strict: true, schema: schemas[name] } });
// The toy model may go on in a form that has no end; these end where they are told to.
const unbounded = new Set(['refs', 'extra']);

async function main() {
  for (const name of Object.keys(schemas)) {
    for (const sampling of [{ temperature: 0 }, { temperature: 1.5, seed: 7, n: 3 }, { temperature: 1, top_p: 0.9, presence_penalty: 1, logit_bias: { 20: 30 } }]) {
      await test(`${name} ${JSON.stringify(sampling)}`, async () => {
        const answer = await client.chat.completions.create({ ...ask, ...sampling, response_format: form(name) });
        for (const choice of answer.choices) {
          truth(choice.finish_reason === 'stop' || unbounded.has(name), `${name} ends: ${choice.finish_reason} ${choice.message.content}`);
          if (choice.finish_reason === 'stop') valid(name, choice.message.content);
        }
      });
    }
    await test(`${name}, streamed`, async () => {
      const stream = await client.chat.completions.create({ ...ask, temperature: 1, seed: 3, stream: true, response_format: form(name) });
      let text = '', reason = null;
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta?.content ?? '';
        reason = chunk.choices[0]?.finish_reason ?? reason;
      }
      if (reason === 'stop') valid(name, text);
      else truth(unbounded.has(name), `${name}: ${reason}`);
    });
  }
  await test('client.chat.completions.parse', async () => {
    const answer = await client.chat.completions.parse({ ...ask, response_format: { ...form('person'), $brand: undefined } });
    valid('person', answer.choices[0].message.content);
  });
  await test('a choice, a regular expression and a grammar', async () => {
    const say = async extra => (await client.chat.completions.create({ ...ask, temperature: 1, ...extra })).choices[0].message.content;
    truth(['red', 'green'].includes(await say({ guided_choice: ['red', 'green'] })), 'guided_choice');
    truth(['red', 'green'].includes(await say({ structured_outputs: { choice: ['red', 'green'] } })), 'structured_outputs');
    truth(/^[a-f]{3}-\d+!$/.test(await say({ guided_regex: '[a-f]{3}-\\d{1,5}!' })), 'guided_regex');
    truth(/^(ab)+c$/.test(await say({ grammar: 'root ::= x{1,5} "c"\nx ::= "ab"' })), 'grammar');
    truth(/^(ab)+c$/.test(await say({ structured_outputs: { grammar: 'root ::= "ab" ("c" | "abc")' } })), 'structured_outputs.grammar');
  });
  await test('completions', async () => {
    const answer = await client.completions.create({ model, prompt: 'curl', max_tokens: 100, json_schema: schemas.person });
    valid('person', answer.choices[0].text);
  });
  await test('what cannot be expressed is refused with its pointer', async () => {
    for (const [schema, why] of [[{ properties: { a: { multipleOf: 1024, type: 'integer' } } }, '/properties/a/multipleOf'], [{ not: {} }, "'not'"]]) {
      const error = await client.chat.completions.create({ ...ask, response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict: true } } }).catch(e => e);
      truth(error.status === 400 && error.param === 'response_format' && error.message.includes(why), `${error}`);
    }
  });
  await test('where the schema is not strict it is passed over', async () => {
    const schema = { type: 'array', items: { type: 'integer', multipleOf: 5, maximum: 100 }, uniqueItems: true, minItems: 2, maxItems: 2 };
    for (const strict of [false, undefined]) {
      const answer = await client.chat.completions.create({ ...ask, response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict } } });
      const said = JSON.parse(answer.choices[0].message.content);
      truth(said.length === 2 && said.every(Number.isInteger), JSON.stringify(said));
    }
  });
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}
main();
