// @connectrpc/connect-node against the one port, in its three protocols, over HTTP/1.1 and HTTP/2, in JSON and protobuf.
// usage: node … DESCRIPTOR_SET ADDRESS; the set is protoc's, with imports.
'use strict';
const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const {Code, ConnectError, createClient} = require('@connectrpc/connect');
const {createConnectTransport, createGrpcTransport, createGrpcWebTransport} = require('@connectrpc/connect-node');
const {createFileRegistry, fromBinary} = require('@bufbuild/protobuf');
const {FileDescriptorSetSchema} = require('@bufbuild/protobuf/wkt');

const [set, address] = process.argv.slice(2);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, fs.readFileSync(set)));
const service = registry.getService('inference.GRPCInferenceService');
const baseUrl = `http://${address}`;

const transports = {};
for (const httpVersion of ['1.1', '2'])
  for (const useBinaryFormat of [true, false])
    transports[`Connect, HTTP/${httpVersion}, ${useBinaryFormat ? 'protobuf' : 'JSON'}`] =
        createConnectTransport({baseUrl, httpVersion, useBinaryFormat});
transports['Connect, HTTP/2, all compressed'] = createConnectTransport({
  baseUrl, httpVersion: '2', compressMinBytes: 0,
  sendCompression: require('@connectrpc/connect-node').compressionGzip,
});
transports['Connect, HTTP/1.1, GET where there is one'] =
    createConnectTransport({baseUrl, httpVersion: '1.1', useHttpGet: true});
transports['gRPC-Web, HTTP/1.1'] = createGrpcWebTransport({baseUrl, httpVersion: '1.1'});
transports['gRPC-Web, HTTP/2'] = createGrpcWebTransport({baseUrl, httpVersion: '2'});
transports['gRPC'] = createGrpcTransport({baseUrl});

const request = (id, modelName = 'simple') => ({
  modelName,
  id,
  inputs: ['INPUT0', 'INPUT1'].map((name) => ({
    name, datatype: 'INT32', shape: [1n, 16n],
    contents: {intContents: [...Array(16).keys()]},
  })),
});
const doubled = [...Array(16).keys()].map((i) => 2 * i);
const sums = (answer) => [...new Int32Array(Uint8Array.from(answer.rawOutputContents[0]).buffer)];

const cases = {
  async 'a unary call'(client) {
    const answer = await client.modelInfer(request('one'));
    assert.strictEqual(answer.id, 'one');
    assert.deepStrictEqual(sums(answer), doubled);
  },
  async 'a method that only reads'(client) {
    assert.strictEqual((await client.serverReady({})).ready, true);
    assert.strictEqual((await client.modelMetadata({name: 'simple'})).name, 'simple');
  },
  async 'an error has its code, text and id'(client) {
    const error = await client.modelInfer(request('x', 'simpel')).then(() => null, ConnectError.from);
    assert.strictEqual(error.code, Code.NotFound);
    assert.match(error.rawMessage, /simple/);
    assert.match(error.metadata.get('x-request-id') ?? '', /./);
  },
  async 'metadata comes back'(client) {
    let header;
    await client.modelInfer(request('m'), {headers: {'x-request-id': 'mine'}, onHeader: (fields) => header = fields});
    assert.strictEqual(header.get('x-request-id'), 'mine');
  },
  async 'a stream answers in order'(client, name) {
    const ids = [...Array(20).keys()].map(String);
    async function* requests() { for (const id of ids) yield request(id); }
    const got = [];
    for await (const answer of client.modelStreamInfer(requests())) got.push(answer.inferResponse.id);
    assert.deepStrictEqual(got, ids);
  },
  async 'a stream that its client leaves'(client) {
    async function* requests() { yield request('first'); await new Promise((resolve) => setImmediate(resolve)); }
    for await (const answer of client.modelStreamInfer(requests())) {
      assert.strictEqual(answer.inferResponse.id, 'first');
      break;
    }
  },
  async 'a large tensor'(client) {
    const data = crypto.randomBytes(1 << 20);
    const answer = await client.modelInfer({
      modelName: 'identity',
      inputs: [{name: 'INPUT0', datatype: 'UINT8', shape: [1n, BigInt(data.length)]}],
      rawInputContents: [data],
    });
    assert.ok(data.equals(answer.rawOutputContents[0]));
  },
};

(async () => {
  let passed = 0, failed = 0;
  for (const [transport, made] of Object.entries(transports)) {
    const client = createClient(service, made);
    for (const [name, run] of Object.entries(cases)) {
      try {
        await run(client);
        ++passed;
      } catch (error) {
        ++failed;
        console.log(`${transport}: ${name}: ${error.stack}`);
      }
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
})();
