// The same lines as tokenize_main.cc, from npm's @anush008/tokenizers: Hugging Face's library itself.
const fs = require('node:fs');
const { Tokenizer } = require('@anush008/tokenizers');

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const hex = (text) => Buffer.from(text, 'utf8').toString('hex');

(async () => {
  const tokenizer = Tokenizer.fromFile(process.argv[2]);
  const out = [];
  for (const line of fs.readFileSync(0, 'utf8').split('\n').slice(0, -1)) {
    const ids = [...(await tokenizer.encode(utf8.decode(Buffer.from(line, 'hex')))).getIds()];
    const decoded = async (skip) => ids.length === 0 ? '' : hex(await tokenizer.decode(ids, skip));
    out.push(ids.map((id) => id + ' ').join('') + '|' + await decoded(false) + '|' + await decoded(true));
  }
  process.stdout.write(out.join('\n') + '\n');
})();
