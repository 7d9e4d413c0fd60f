// Tokenizes for the comparison with @huggingface/tokenizers (golden_tokenizer_test.py): argument 1 is a tokenizer.json,
// each line of the standard input is a text in hexadecimal. Each line of the output: the ids, then what they decode to,
// in hexadecimal, all and without special tokens. With `--speed FILE` it encodes the file and says how fast.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "base/encoding.h"
#include "text/tokenizer.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

std::string content(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string unhex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

int measure(const text::Tokenizer& tokenizer, const std::string& text) {
  auto now = [] { return double(std::clock()) / CLOCKS_PER_SEC; };  // of this process: other load does not count
  double best = 1e9;
  size_t ids = 0;
  for (int round = 0; round < 5; ++round) {
    double begun = now();
    ids = tokenizer.encode(text, text::AddSpecial::kNo).size();
    best = std::min(best, now() - begun);
  }
  double size = double(text.size()) / (1 << 20);
  std::printf("%.2f MiB, %zu tokens, %.1f ms per MiB, %.1f MiB/s\n", size, ids, best * 1e3 / size, size / best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto tokenizer = text::Tokenizer::parse(content(argv[1]));
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().text.c_str());
    return 1;
  }
  const text::Tokenizer& t = **tokenizer;
  if (argc == 4 && std::string(argv[2]) == "--speed") return measure(t, content(argv[3]));
  for (std::string line; std::getline(std::cin, line);) {
    auto ids = t.encode(unhex(line), text::AddSpecial::kYes);
    std::string out;
    for (uint32_t id : ids) out += std::to_string(id) + " ";
    out += "|" + base::hex(t.decode(ids, text::SkipSpecial::kNo));
    out += "|" + base::hex(t.decode(ids, text::SkipSpecial::kYes));
    std::cout << out << "\n";
  }
}
