// OpenTelemetry's own npm packages on both sides of the server. NODE_PATH says where they are.
//   node otel_client.js call PROTO_DIR ADDRESS   asks over REST and gRPC inside spans of its own; prints those spans
//   node otel_client.js decode < BODIES          reads requests of an exporter, one line of base64 each; prints them as JSON
const { context, propagation, trace } = require('@opentelemetry/api');
const { W3CTraceContextPropagator } = require('@opentelemetry/core');
const { BasicTracerProvider } = require('@opentelemetry/sdk-trace-base');

function carrierOf(span) {
  const carrier = {};
  propagation.inject(trace.setSpan(context.active(), span), carrier);
  return carrier;
}

async function call(protos, address) {
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const tracer = new BasicTracerProvider().getTracer('client');
  const spans = {};
  const begin = (name) => {
    const span = tracer.startSpan(name);
    spans[name] = span.spanContext();
    return span;
  };

  const rest = begin('rest');
  const body = { inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] };
  const answer = await fetch(`http://${address}/v2/models/identity/infer`, {
    method: 'POST', body: JSON.stringify(body), headers: { ...carrierOf(rest), baggage: 'user.id=al%20ice,password=secret' },
  });
  if (!answer.ok) throw new Error(`REST: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
  spans.answered = { traceparent: answer.headers.get('traceparent') };
  rest.end();

  const grpc = require('@grpc/grpc-js');
  const loader = require('@grpc/proto-loader');
  const proto = grpc.loadPackageDefinition(loader.loadSync(`${protos}/inference.proto`, { keepCase: true }));
  const client = new proto.inference.GRPCInferenceService(address, grpc.credentials.createInsecure());
  const rpc = begin('grpc');
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(carrierOf(rpc))) metadata.set(name, value);
  const request = {
    model_name: 'identity',
    inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1, 4], contents: { fp32_contents: [1, 2, 3, 4] } }],
  };
  await new Promise((done, failed) => client.ModelInfer(request, metadata, (error) => (error ? failed(error) : done())));
  client.close();
  rpc.end();
  console.log(JSON.stringify(spans));
}

function decode() {
  const root = require('@opentelemetry/otlp-transformer/build/src/generated/root');
  const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
  const lines = require('fs').readFileSync(0, 'latin1').split('\n').filter(Boolean);
  const hex = (key, value) => (/(Id|^id)$/.test(key) && typeof value === 'string' ? Buffer.from(value, 'base64').toString('hex') : value);
  const requests = lines.map((line) => Request.toObject(Request.decode(Buffer.from(line, 'base64')), { longs: String, bytes: String }));
  console.log(JSON.stringify(requests, hex));
}

const [, , word, ...rest] = process.argv;
if (word === 'decode') decode();
else call(...rest).catch((error) => { console.error(error); process.exit(1); });
