// gRPC's interoperability cases (grpc's doc/interop-test-descriptions.md) over @grpc/grpc-js, with the official clients'
// flags. `--test_case=all`, or several with commas, runs them on one channel and prints `N passed, N failed`. NODE_PATH
// names the modules. Whether a message came compressed grpc-js does not show: tests/e2e/interop_test.py looks itself.
'use strict';
const assert = require('assert');
const fs = require('fs');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const flags = Object.fromEntries(process.argv.slice(2).map((word) => /^--(\w+)=(.*)$/.exec(word).slice(1)));
const PATIENCE_MS = 240000;
const SPECIAL = '\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \u{1f608}\t\n';
const GZIP = 2;  // of grpc.default_compression_algorithm

const {TestService, UnimplementedService} = grpc.loadPackageDefinition(loader.loadSync(
    'grpc/testing/test.proto', {keepCase: true, defaults: true, enums: String, includeDirs: ['/usr/share/grpc-proto']})).grpc.testing;

function connect(Client = TestService, options = {}) {
  const address = `${flags.server_host || '127.0.0.1'}:${flags.server_port}`;
  options = {'grpc.use_local_subchannel_pool': 1, ...options};
  if (flags.use_tls !== 'true') return new Client(address, grpc.credentials.createInsecure(), options);
  if (flags.server_host_override) options['grpc.ssl_target_name_override'] = flags.server_host_override;
  return new Client(address, grpc.credentials.createSsl(flags.ca_file && fs.readFileSync(flags.ca_file)), options);
}
const client = connect();

const deadline = (ms = PATIENCE_MS) => ({deadline: Date.now() + ms});
const payload = (size) => ({body: Buffer.alloc(size)});
const simple = (more = {}) => ({payload: payload(271828), response_size: 314159, ...more});
const output = (sizes, more = {}) => ({response_parameters: sizes.map((size) => ({size})), ...more});
const expectFailure = (code, promise) => promise.then(
    () => assert.fail(`wanted ${code}, found an answer`), (error) => (assert.strictEqual(error.code, code, error.message), error));

const unary = (method, request, stub = client, metadata = new grpc.Metadata()) => new Promise((resolve, reject) =>
    stub[method](request, metadata, deadline(), (error, answer) => error ? reject(error) : resolve(answer)));
const gather = (stream) => new Promise((resolve, reject) => {
  const answers = [];
  stream.on('data', (answer) => answers.push(answer)).on('end', () => resolve(answers)).on('error', reject);
});
const next = (stream) => new Promise((resolve, reject) => stream.once('data', resolve).once('error', reject));
const heard = (call, event) => new Promise((resolve) => call.once(event, resolve));
const sizes = (answers) => answers.map((answer) => answer.payload.body.length);

async function large(stub = client, more = {}) {
  const answer = await unary('UnaryCall', simple(more), stub);
  assert.ok(answer.payload.body.equals(Buffer.alloc(314159)));
}
// `parts`: [size, whether the server is to find it compressed]
const upload = (stub, parts) => new Promise((resolve, reject) => {
  const call = stub.StreamingInputCall(deadline(), (error, answer) => error ? reject(error) : resolve(answer));
  for (const [size, value] of parts)
    call.write({payload: payload(size), expect_compressed: value === undefined ? null : {value}});
  call.end();
});

const cases = {
  empty_unary: async () => assert.deepStrictEqual({}, await unary('EmptyCall', {})),
  large_unary: () => large(),
  async client_compressed_unary() {
    const request = simple({expect_compressed: {value: true}}), packed = connect(TestService, {'grpc.default_compression_algorithm': GZIP});
    await expectFailure(grpc.status.INVALID_ARGUMENT, unary('UnaryCall', request));
    assert.strictEqual((await unary('UnaryCall', request, packed)).payload.body.length, 314159);
    await large(client, {expect_compressed: {value: false}});
    packed.close();
  },
  async server_compressed_unary() {
    for (const value of [true, false]) await large(client, {response_compressed: {value}});
  },
  async client_streaming() {
    const answer = await upload(client, [27182, 8, 1828, 45904].map((size) => [size]));
    assert.strictEqual(answer.aggregated_payload_size, 74922);
  },
  async client_compressed_streaming() {
    const packed = connect(TestService, {'grpc.default_compression_algorithm': GZIP});
    await expectFailure(grpc.status.INVALID_ARGUMENT, upload(client, [[27182, true]]));
    const answer = await upload(packed, [[27182, true], [45904, true]]);
    assert.strictEqual(answer.aggregated_payload_size, 73086);
    packed.close();
  },
  async server_streaming() {
    const wanted = [31415, 9, 2653, 58979];
    assert.deepStrictEqual(sizes(await gather(client.StreamingOutputCall(output(wanted), deadline()))), wanted);
  },
  async server_compressed_streaming() {
    const request = {response_parameters: [{size: 31415, compressed: {value: true}}, {size: 92653, compressed: {value: false}}]};
    assert.deepStrictEqual(sizes(await gather(client.StreamingOutputCall(request, deadline()))), [31415, 92653]);
  },
  async ping_pong() {
    const call = client.FullDuplexCall(deadline());
    for (const [sent, size] of [[27182, 31415], [8, 9], [1828, 2653], [45904, 58979]]) {
      call.write(output([size], {payload: payload(sent)}));
      assert.strictEqual((await next(call)).payload.body.length, size);
    }
    call.end();
    assert.deepStrictEqual(await gather(call), []);
  },
  async empty_stream() {
    const call = client.FullDuplexCall(deadline());
    call.end();
    assert.deepStrictEqual(await gather(call), []);
  },
  async custom_metadata() {
    const metadata = new grpc.Metadata(), octets = Buffer.from([0xab, 0xab, 0xab]);
    metadata.set('x-grpc-test-echo-initial', 'test_initial_metadata_value');
    metadata.set('x-grpc-test-echo-trailing-bin', octets);
    const stream = client.FullDuplexCall(metadata, deadline());
    stream.end(output([314159], {payload: payload(271828)}));
    const calls = [client.UnaryCall(simple(), metadata, deadline(), () => {}), stream.on('data', () => {})];
    await Promise.all(calls.map(async (call) => {
      const [initial, status] = await Promise.all([heard(call, 'metadata'), heard(call, 'status')]);
      assert.strictEqual(status.code, grpc.status.OK);
      assert.deepStrictEqual(initial.get('x-grpc-test-echo-initial'), ['test_initial_metadata_value']);
      assert.deepStrictEqual(status.metadata.get('x-grpc-test-echo-trailing-bin'), [octets]);
    }));
  },
  async status_code_and_message() {
    const request = {response_status: {code: 2, message: 'test status message'}};
    const stream = client.FullDuplexCall(deadline());
    stream.end(request);
    const calls = [unary('UnaryCall', request), gather(stream)].map((call) => expectFailure(grpc.status.UNKNOWN, call));
    for (const error of await Promise.all(calls)) assert.strictEqual(error.details, 'test status message');
  },
  async special_status_message() {
    const error = await expectFailure(grpc.status.UNKNOWN, unary('UnaryCall', {response_status: {code: 2, message: SPECIAL}}));
    assert.strictEqual(error.details, SPECIAL);
  },
  unimplemented_method: () => expectFailure(grpc.status.UNIMPLEMENTED, unary('UnimplementedCall', {})),
  async unimplemented_service() {
    const stub = connect(UnimplementedService);
    await expectFailure(grpc.status.UNIMPLEMENTED, unary('UnimplementedCall', {}, stub));
    stub.close();
  },
  async cancel_after_begin() {
    const ended = new Promise((resolve, reject) => {
      client.StreamingInputCall(deadline(), (error, answer) => error ? reject(error) : resolve(answer)).cancel();
    });
    await expectFailure(grpc.status.CANCELLED, ended);
  },
  async cancel_after_first_response() {
    const call = client.FullDuplexCall(deadline());
    call.write(output([31415], {payload: payload(27182)}));
    assert.strictEqual((await next(call)).payload.body.length, 31415);
    call.cancel();
    await expectFailure(grpc.status.CANCELLED, gather(call));
  },
  async timeout_on_sleeping_server() {
    const call = client.FullDuplexCall(deadline(50));
    call.write({payload: payload(27182)});
    await expectFailure(grpc.status.DEADLINE_EXCEEDED, gather(call));
  },
  concurrent_large_unary: () => Promise.all([...Array(Number(flags.concurrent || 1000))].map(() => large())),
  async rpc_soak() {
    for (let i = 0; i < Number(flags.soak_iterations || 20); ++i) await large();
  },
  async channel_soak() {
    for (let i = 0; i < Number(flags.soak_iterations || 20); ++i) {
      const stub = connect();
      await large(stub);
      stub.close();
    }
  },
  // The channel that every case has used has one connection, and it is ready.
  async long_lived_channel() {
    await large();
    assert.strictEqual(client.getChannel().getConnectivityState(false), grpc.connectivityState.READY);
  },
};

(async () => {
  const names = !flags.test_case || flags.test_case === 'all' ? Object.keys(cases) : flags.test_case.split(',');
  let failed = 0;
  for (const name of names) {
    try {
      await cases[name]();
    } catch (error) {
      ++failed;
      console.log(`FAILED ${name}: ${error.stack}`);
    }
  }
  client.close();
  console.log(`${names.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
})();
