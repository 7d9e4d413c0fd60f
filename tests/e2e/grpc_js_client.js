// @grpc/grpc-js against the one port: unary, stream, metadata, errors, cancellation. usage: node … PROTO_DIR ADDRESS
'use strict';
const path = require('path');
const assert = require('assert');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [protos, address] = process.argv.slice(2);
const load = (file) => grpc.loadPackageDefinition(
    loader.loadSync(path.join(protos, file), {keepCase: true, longs: Number, includeDirs: [protos]}));
const {inference} = load('inference.proto');
const client = new inference.GRPCInferenceService(address, grpc.credentials.createInsecure());

const request = (id, model = 'simple') => ({
  model_name: model,
  id,
  inputs: ['INPUT0', 'INPUT1'].map((name) => ({
    name, datatype: 'INT32', shape: [1, 16],
    contents: {int_contents: [...Array(16).keys()]},
  })),
});
const call = (method, message, ...rest) => new Promise((resolve, reject) =>
    client[method](message, ...rest, (error, answer) => error ? reject(error) : resolve(answer)));

const cases = {
  async 'typed contents in, raw contents out'() {
    const answer = await call('ModelInfer', request('js'));
    assert.strictEqual(answer.id, 'js');
    const sums = new Int32Array(Uint8Array.from(answer.raw_output_contents[0]).buffer);
    assert.deepStrictEqual([...sums], [...Array(16).keys()].map((i) => 2 * i));
  },
  async 'a hundred calls at once'() {
    const answers = await Promise.all([...Array(100).keys()].map((i) => call('ModelInfer', request(String(i)))));
    assert.deepStrictEqual(answers.map((a) => a.id), [...Array(100).keys()].map(String));
  },
  async 'an error carries its code and text'() {
    await assert.rejects(call('ModelInfer', request('x', 'simpel')),
        (e) => e.code === grpc.status.NOT_FOUND && e.details.includes('simple'));
  },
  async 'a bidirectional stream answers in order'() {
    const stream = client.ModelStreamInfer();
    const ids = [];
    stream.on('data', (a) => ids.push(a.infer_response.id));
    for (let i = 0; i < 20; ++i) stream.write(request(String(i)));
    stream.end();
    await new Promise((resolve, reject) => stream.on('end', resolve).on('error', reject));
    assert.deepStrictEqual(ids, [...Array(20).keys()].map(String));
  },
  async 'a cancelled stream ends as cancelled'() {
    const stream = client.ModelStreamInfer();
    stream.write(request('one'));
    await new Promise((resolve) => stream.once('data', resolve));
    stream.cancel();
    const error = await new Promise((resolve) => stream.on('error', resolve));
    assert.strictEqual(error.code, grpc.status.CANCELLED);
  },
  async 'metadata comes back'() {
    const metadata = new grpc.Metadata();
    metadata.set('x-request-id', 'js-1');
    const unary = client.ModelInfer(request('m'), metadata, () => {});
    const head = await new Promise((resolve) => unary.on('metadata', resolve));
    assert.deepStrictEqual(head.get('x-request-id'), ['js-1']);
  },
};

(async () => {
  let passed = 0, failed = 0;
  for (const [name, run] of Object.entries(cases)) {
    try {
      await run();
      ++passed;
    } catch (error) {
      ++failed;
      console.error(`FAILED ${name}: ${error.stack}`);
    }
  }
  client.close();
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
})();
