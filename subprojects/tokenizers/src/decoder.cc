#include "decoder.h"

#include <utility>

#include "byte_level.h"

namespace tokenizers {

namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// As transformers' clean_up_tokenization does it, on one piece.
std::string clean_up(std::string piece) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules)
    for (size_t at = piece.find(from); at != piece.npos; at = piece.find(from, at + to.size()))
      piece.replace(at, from.size(), to);
  return piece;
}

}  // namespace

std::optional<uint8_t> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  int high = digit(piece[3]), low = digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return uint8_t(high << 4 | low);
}

std::string Decoder::bytes(std::string_view piece, Pattern::FailureBudget& failures) const {
  if (byte_level) return bytes_of_spelling(piece).value_or(std::string(piece));
  if (!continuing.empty()) {
    bool goes_on = piece.starts_with(continuing);
    std::string out = goes_on ? std::string(piece.substr(continuing.size())) : ' ' + std::string(piece);
    return cleanup ? clean_up(std::move(out)) : out;
  }
  std::string out(piece);
  for (const auto& step : replace) out = replace_all(out, step, max_normalized(piece.size()), failures);
  if (byte_fallback)
    if (auto byte = byte_of_piece(out)) return std::string(1, char(*byte));
  return out;
}

std::string Decoder::first(std::string_view piece) const {
  return cleanup ? clean_up(std::string(piece)) : std::string(piece);
}

}  // namespace tokenizers
