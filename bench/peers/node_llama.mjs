// node-llama-cpp on a GGUF file: prefill, decode, and eight sessions at once; one line of JSON.
//
//   node bench/peers/node_llama.mjs NODE_MODULES model.gguf [threads]
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const [modules, path, threads = '1'] = process.argv.slice(2);
const require = createRequire(modules + '/');
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(require.resolve('node-llama-cpp')));

const llama = await getLlama({gpu: false, build: 'never', logLevel: LlamaLogLevel.error, maxThreads: +threads});
const model = await llama.loadModel({modelPath: path, useMmap: false});
const context = await model.createContext(
  {contextSize: 1024, sequences: 8, batchSize: 512, threads: {ideal: +threads, min: +threads}});

const prompt = (seed, n) => Array.from({length: n}, (_, i) => 300 + (i * 7919 + seed * 104729) % 31000);
// With one thread CPU time, of all of the process, as in llm_bench: a busy machine disturbs it less.
const clock = () => {
  const {user, system} = process.cpuUsage();
  return +threads === 1 ? (user + system) / 1e6 : Number(process.hrtime.bigint()) / 1e9;
};
const seconds = async work => {
  const start = clock();
  const n = await work();
  return [n, clock() - start];
};
const best = async (rounds, work) => {
  let rate = 0;
  for (let i = 0; i < rounds; ++i) {
    const [n, took] = await seconds(() => work(i));
    rate = Math.max(rate, n / took);
  }
  return +rate.toFixed(1);
};
// Greedy. Of `tokens`, one, the first new token comes.
async function decode(sequence, tokens, n) {
  let made = 0;
  for await (const _ of sequence.evaluate(tokens, {temperature: 0, yieldEogToken: true}))
    if (++made === n) break;
  return n;
}

const sequences = Array.from({length: 8}, () => context.getSequence());
const one = sequences[0];
const result = {};
result.prefill = await best(4, async i => {
  await one.clearHistory();
  await one.evaluateWithoutGeneratingNewTokens(prompt(i, 512));
  return 512;
});
result.decode = await best(4, async i => {
  await one.clearHistory();
  await one.evaluateWithoutGeneratingNewTokens(prompt(i, 31));
  return decode(one, prompt(i, 1), 64);
});
result.sessions8 = 0;
for (let i = 0; i < 3; ++i) {
  for (const [k, s] of sequences.entries()) {
    await s.clearHistory();
    await s.evaluateWithoutGeneratingNewTokens(prompt(i * 8 + k, 31));
  }
  const [n, took] = await seconds(async () => {
    await Promise.all(sequences.map((s, k) => decode(s, prompt(k, 1), 48)));
    return 8 * 48;
  });
  result.sessions8 = Math.max(result.sessions8, +(n / took).toFixed(1));
}
console.log(JSON.stringify({...result, system: llama.systemInfo}));
process.exit(0);
