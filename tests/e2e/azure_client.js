// The `openai` package's client of Azure OpenAI against a running server: node azure_client.js http://127.0.0.1:8080 model key
const { AzureOpenAI } = require('openai');
const { test, same, truth, finish } = require('./client_cases.js');

const [, , endpoint, model, apiKey = 'none'] = process.argv;
const settings = { endpoint, apiKey, apiVersion: '2024-10-21', maxRetries: 0 };
const client = new AzureOpenAI(settings);
const messages = [{ role: 'user', content: 'Tell me about the sea.' }];
const asked = { messages, max_completion_tokens: 12, temperature: 0 };

async function main() {
  let text;
  await test('the model is the deployment', async () => {
    const answer = await client.chat.completions.create({ ...asked, model });
    text = answer.choices[0].message.content;
    truth(text.length > 0, 'there is text');
  });
  await test('the deployment goes before the model', async () => {
    const deployed = new AzureOpenAI({ ...settings, deployment: model });
    const stream = await deployed.chat.completions.create({ ...asked, model: 'gpt-4o', stream: true });
    let streamed = '';
    for await (const chunk of stream) streamed += chunk.choices[0]?.delta?.content ?? '';
    same(streamed, text, 'text');
  });
  await test('completions and embeddings have deployments, too', async () => {
    const completion = await client.completions.create({ model, prompt: 'a', max_tokens: 2 });
    same(completion.object, 'text_completion', 'object');
    const { data } = await client.embeddings.create({ model, input: ['sea', 'ship'] });
    same(data.length, 2, 'vectors');
  });
  await test('models and responses have none', async () => {
    const ids = [];
    for await (const each of client.models.list()) ids.push(each.id);
    truth(ids.includes(model), `${model} is in ${ids}`);
    const response = await client.responses.create({ model, input: 'sea', max_output_tokens: 16 });
    same(response.object, 'response', 'object');
    same((await client.responses.retrieve(response.id)).id, response.id, 'id');
  });
  await test('the base URL may have the deployment in it', async () => {
    const based = new AzureOpenAI({ apiKey, apiVersion: settings.apiVersion, baseURL: `${endpoint}/openai/deployments/${model}` });
    const answer = await based.chat.completions.create({ ...asked, model: '' });
    same(answer.choices[0].message.content, text, 'text');
  });
  await test('a deployment that is not there is 404', async () => {
    const error = await client.chat.completions.create({ ...asked, model: 'nope' }).then(
      () => { throw new Error('it was accepted'); }, (refused) => refused);
    same(error.status, 404, 'status');
    same(error.code, 'model_not_found', 'code');
  });
  await test('a wrong key is 401', async () => {
    if (apiKey === 'none') return;
    const error = await new AzureOpenAI({ ...settings, apiKey: 'wrong' }).chat.completions.create({ ...asked, model }).then(
      () => { throw new Error('it was accepted'); }, (refused) => refused);
    same(error.status, 401, 'status');
  });
  finish();
}

main();
