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

#include "tokenizers/tokenizer.h"

namespace {

std::string content(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string unhex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (unsigned char b : bytes) (out += "0123456789abcdef"[b >> 4]) += "0123456789abcdef"[b & 15];
  return out;
}

int measure(const tokenizers::Tokenizer& tokenizer, const std::string& text) {
  auto now = [] { return double(std::clock()) / CLOCKS_PER_SEC; };  // of this process: other load does not count
  double best = 1e9;
  size_t ids = 0;
  for (int round = 0; round < 5; ++round) {
    double begun = now();
    ids = tokenizer.encode(text, tokenizers::AddSpecial::kNo).size();
    best = std::min(best, now() - begun);
  }
  double size = double(text.size()) / (1 << 20);
  std::printf("%.2f MiB, %zu tokens, %.1f ms per MiB, %.1f MiB/s\n", size, ids, best * 1e3 / size, size / best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto tokenizer = tokenizers::Tokenizer::parse(content(argv[1]));
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  const tokenizers::Tokenizer& t = **tokenizer;
  if (argc == 4 && std::string(argv[2]) == "--speed") return measure(t, content(argv[3]));
  for (std::string line; std::getline(std::cin, line);) {
    auto ids = t.encode(unhex(line), tokenizers::AddSpecial::kYes);
    std::string out;
    for (uint32_t id : ids) out += std::to_string(id) + " ";
    out += "|" + hex(t.decode(ids, tokenizers::SkipSpecial::kNo));
    out += "|" + hex(t.decode(ids, tokenizers::SkipSpecial::kYes));
    std::cout << out << "\n";
  }
}
