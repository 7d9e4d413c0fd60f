#include "utf8.h"

#include <algorithm>
#include <cstring>

namespace tokenizers {

namespace {

// Continuation bytes after a lead byte, and the range of the first of them (Unicode table 3-7).
struct Lead {
  uint8_t more = 0, low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned char b) {
  if (b < 0xC2 || b > 0xF4) return {};
  if (b < 0xE0) return {1, 0x80, 0xBF};
  if (b == 0xE0) return {2, 0xA0, 0xBF};
  if (b == 0xED) return {2, 0x80, 0x9F};
  if (b < 0xF0) return {2, 0x80, 0xBF};
  if (b == 0xF0) return {3, 0x90, 0xBF};
  if (b == 0xF4) return {3, 0x80, 0x8F};
  return {3, 0x80, 0xBF};
}

// Bytes of ASCII at the start, eight at a time.
size_t ascii_run(std::string_view text) {
  size_t i = 0;
  for (uint64_t word; i + 8 <= text.size(); i += 8) {
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  using Kind = Utf8Step::Kind;
  auto b = static_cast<unsigned char>(text[0]);
  if (b < 0x80) return {Kind::kWhole, 1};
  Lead lead = lead_of(b);
  if (lead.more == 0) return {Kind::kIll, 1};
  for (uint8_t i = 1; i <= lead.more; ++i) {
    if (i == text.size()) return {Kind::kCut, i};
    auto c = static_cast<unsigned char>(text[i]);
    if (c < lead.low || c > lead.high) return {Kind::kIll, i};
    lead.low = 0x80, lead.high = 0xBF;
  }
  return {Kind::kWhole, uint8_t(lead.more + 1)};
}

char32_t utf8_code(std::string_view sequence) {
  auto b = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  switch (sequence.size()) {
    case 1: return b(0);
    case 2: return char32_t(b(0) & 0x1F) << 6 | (b(1) & 0x3F);
    case 3: return char32_t(b(0) & 0x0F) << 12 | char32_t(b(1) & 0x3F) << 6 | (b(2) & 0x3F);
    default:
      return char32_t(b(0) & 0x07) << 18 | char32_t(b(1) & 0x3F) << 12 | char32_t(b(2) & 0x3F) << 6 | (b(3) & 0x3F);
  }
}

char32_t utf8_next(std::string_view text, size_t& at) {
  size_t size = utf8_size(text[at]);
  char32_t code = utf8_code(text.substr(at, size));
  at += size;
  return code;
}

void utf8_append(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += {char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))};
  } else if (code < 0x10000) {
    out += {char(0xE0 | code >> 12), char(0x80 | (code >> 6 & 0x3F)), char(0x80 | (code & 0x3F))};
  } else {
    out += {char(0xF0 | code >> 18), char(0x80 | (code >> 12 & 0x3F)), char(0x80 | (code >> 6 & 0x3F)),
            char(0x80 | (code & 0x3F))};
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool utf8_valid(std::string_view text) {
  while (true) {
    text.remove_prefix(ascii_run(text));
    if (text.empty()) return true;
    do {
      Utf8Step step = utf8_step(text);
      if (step.kind != Utf8Step::Kind::kWhole) return false;
      text.remove_prefix(step.size);
    } while (!text.empty() && static_cast<unsigned char>(text[0]) >= 0x80);
  }
}

void utf8_append_lossy(std::string& out, std::string_view text) {
  size_t good = 0, at = 0;  // [good, at) is well formed and not yet copied
  while (at < text.size()) {
    at += ascii_run(text.substr(at));
    if (at == text.size()) break;
    Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Step::Kind::kWhole) {
      out.append(text.substr(good, at - good)).append(kReplacement);
      good = at + step.size;
    }
    at += step.size;
  }
  out.append(text.substr(good));
}

size_t utf8_cut_tail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    auto b = static_cast<unsigned char>(text[text.size() - back]);
    if (b < 0x80) return 0;
    if (b < 0xC0) continue;
    return utf8_step(text.substr(text.size() - back)).kind == Utf8Step::Kind::kCut ? back : 0;
  }
  return 0;
}

}  // namespace tokenizers
