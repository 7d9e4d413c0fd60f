// Tokenizes a text: tokenizers_tokenize TOKENIZER_JSON TEXT. Prints one line per token, its id and its piece, and then
// the text that the ids decode to.
#include "tokenizers/tokenizer.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tokenizers_tokenize TOKENIZER_JSON TEXT\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  auto tokenizer = tokenizers::Tokenizer::parse(file);
  if (!tokenizer) {
    std::cerr << argv[1] << ": " << tokenizer.error().message << "\n";
    return 1;
  }
  auto ids = (*tokenizer)->encode(argv[2], tokenizers::AddSpecial::kYes);
  for (uint32_t id : ids) std::cout << id << "\t" << (*tokenizer)->piece(id) << "\n";
  std::cout << (*tokenizer)->decode(ids, tokenizers::SkipSpecial::kYes) << "\n";
}
