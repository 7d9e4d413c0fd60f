#include "bert.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "utf8.h"

namespace tokenizers {
namespace {

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return u_isUWhiteSpace(UChar32(c));
}

bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  return (U_GET_GC_MASK(UChar32(c)) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK)) != 0;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
  return (U_GET_GC_MASK(UChar32(c)) & U_GC_P_MASK) != 0;
}

// The blocks of CJK Unified Ideographs, as BERT lists them.
bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void clean(const BertNormalizer& step, std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    size_t from = at;
    char32_t c = utf8_next(text, at);
    if (step.clean) {
      if (c == 0 || c == 0xFFFD || is_control(c)) continue;
      if (is_space(c)) {
        out += ' ';
        continue;
      }
    }
    bool apart = step.ideographs && is_ideograph(c);
    if (apart) out += ' ';
    out += text.substr(from, at - from);
    if (apart) out += ' ';
  }
}

// Canonical decomposition without its marks (Mn).
bool strip_accents(std::string_view text, std::string& out) {
  if (is_ascii(text)) return false;
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(error);
  std::string apart;
  icu::StringByteSink<std::string> sink(&apart, int32_t(text.size() + text.size() / 2));
  if (!nfd || U_FAILURE(error)) return false;
  nfd->normalizeUTF8(0, icu::StringPiece(text.data(), int32_t(text.size())), sink, nullptr, error);
  if (U_FAILURE(error)) return false;
  std::string plain;
  plain.reserve(apart.size());
  for (size_t at = 0; at < apart.size();) {
    size_t from = at;
    char32_t c = utf8_next(apart, at);
    if (c < 0x80 || u_charType(UChar32(c)) != U_NON_SPACING_MARK) plain.append(apart, from, at - from);
  }
  out = std::move(plain);
  return true;
}

}  // namespace

bool lower_case(std::string_view text, std::string& out) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      lower += char(byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
      ++at;
      continue;
    }
    char32_t c = utf8_next(text, at);
    if (c == 0x130)  // the one character whose lower case is two: i and a dot above
      lower += "i\xCC\x87";
    else
      utf8_append(lower, char32_t(u_tolower(UChar32(c))));
  }
  out = std::move(lower);
  return true;
}

bool bert_normalize(const BertNormalizer& step, std::string_view text, std::string& out) {
  std::string now, next;
  now.reserve(text.size() + text.size() / 8);
  clean(step, text, now);
  if (step.strip_accents && strip_accents(now, next)) now.swap(next);
  if (step.lowercase && lower_case(now, next)) now.swap(next);
  out = std::move(now);
  return true;
}

std::string_view bert_word(std::string_view text, size_t& at) {
  size_t from = at;
  while (at < text.size()) {
    size_t here = at;
    char32_t c = utf8_next(text, at);
    if (is_space(c)) {
      if (here > from) return text.substr(from, here - from);
      from = at;
    } else if (is_punctuation(c)) {
      if (here == from) return text.substr(here, at - here);
      at = here;
      return text.substr(from, here - from);
    }
  }
  return text.substr(from);
}

}  // namespace tokenizers
