// The peer for Server-Sent Events: fastify, streaming chat completion chunks. One loop stands for the model: each turn
// gives every open stream its next token, as a batch's step does.
//
// usage: NPM_HOME=FOLDER node fastify_sse.mjs PORT [MILLISECONDS A STEP]
import {createRequire} from 'node:module';

const fastify = createRequire(process.env.NPM_HOME + '/')('fastify');
const app = fastify();
const streams = new Set();
let stepping = false;
const stepMs = Number(process.argv[3] ?? 0);
const soon = stepMs > 0 ? (f) => setTimeout(f, stepMs) : setImmediate;

function step() {
  for (const stream of streams) {
    const last = stream.left-- === 0;
    const choice = last ? {index: 0, delta: {}, finish_reason: 'length'} : {index: 0, delta: {content: 'a'}, finish_reason: null};
    stream.reply.write('data: ' + JSON.stringify({id: stream.id, object: 'chat.completion.chunk', created: stream.created,
                                                  model: stream.model, choices: [choice]}) + '\n\n');
    if (!last) continue;
    stream.reply.end('data: [DONE]\n\n');
    streams.delete(stream);
  }
  stepping = streams.size > 0;
  if (stepping) soon(step);
}

let serial = 0;
app.post('/v1/chat/completions', (request, reply) => {
  reply.hijack();
  reply.raw.writeHead(200, {'content-type': 'text/event-stream', 'cache-control': 'no-cache'});
  streams.add({reply: reply.raw, left: request.body.max_tokens, id: 'chatcmpl-' + ++serial, model: request.body.model,
               created: Math.floor(Date.now() / 1000)});
  if (!stepping) stepping = true, soon(step);
});
await app.listen({port: Number(process.argv[2]), host: '127.0.0.1'});
