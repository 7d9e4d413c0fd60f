// The same lines as tokenize_main.cc, from npm's @huggingface/tokenizers.
const fs = require('node:fs');
const { Tokenizer } = require('@huggingface/tokenizers');

const tokenizer = new Tokenizer(JSON.parse(fs.readFileSync(process.argv[2], 'utf8')), {});
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const hex = (text) => Buffer.from(text, 'utf8').toString('hex');
const out = [];
for (const line of fs.readFileSync(0, 'utf8').split('\n').slice(0, -1)) {
  const { ids } = tokenizer.encode(utf8.decode(Buffer.from(line, 'hex')), { add_special_tokens: true });
  const decoded = (skip) => ids.length === 0 ? '' :
    hex(tokenizer.decode(ids, { skip_special_tokens: skip, clean_up_tokenization_spaces: false }));
  out.push(ids.map((id) => id + ' ').join('') + '|' + decoded(false) + '|' + decoded(true));
}
process.stdout.write(out.join('\n') + '\n');
