// Any bytes as a tokenizer.json: refused, or its tokenizer encodes and decodes whatever it is given, within its own
// ids, and streams what it decodes.
//
// Input: a tokenizer.json, then perhaps a zero byte and a text. Without a text, a few hard texts are taken.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tokenizers/decode_stream.h"
#include "tokenizers/tokenizer.h"

namespace {

using tokenizers::AddSpecial;
using tokenizers::SkipSpecial;
using tokenizers::Tokenizer;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void run(const Tokenizer& tokenizer, std::string_view input) {
  auto ids = tokenizer.encode(input, AddSpecial::kYes);
  for (uint32_t id : ids) require(id < tokenizer.size(), "ids are those of the vocabulary");
  ids.push_back(tokenizer.size());
  ids.push_back(~0u);
  for (auto skip : {SkipSpecial::kNo, SkipSpecial::kYes}) {
    tokenizers::DecodeStream stream(tokenizer, skip);
    std::string out;
    for (uint32_t id : ids) stream.step(id, out);
    stream.finish(out);
    require(out == tokenizer.decode(ids, skip), "streamed is decoded");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  size_t end = input.find('\0');
  auto tokenizer = Tokenizer::parse(input.substr(0, end));
  if (!tokenizer) {
    require(tokenizer.error().message.starts_with("tokenizer.json: "), "an error names the file");
    return 0;
  }
  if (end != input.npos) {
    run(**tokenizer, input.substr(end + 1));
    return 0;
  }
  for (std::string_view text :
       {"", " a  b\n\n c's 12345 ", "\xff\xe2\x82", "\xE2\x96\x81\xE2\x96\x81 \xE4\xBD\xA0\xF0\x9F\x98\x80",
        "<s><|end|> <|im_start|>user aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabab"})
    run(**tokenizer, text);
  return 0;
}
