#include "charsmap.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>

#include "utf8.h"

namespace tokenizers {
namespace {

constexpr size_t kWholeBelow = 6;  // bytes of a cluster that is looked up as a whole

// Without the padding.
std::optional<std::string> from_base64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t bits = 0, held = 0;
  for (char c : text) {
    uint32_t digit = c >= 'A' && c <= 'Z'   ? uint32_t(c - 'A')
                     : c >= 'a' && c <= 'z' ? uint32_t(c - 'a' + 26)
                     : c >= '0' && c <= '9' ? uint32_t(c - '0' + 52)
                     : c == '+'             ? 62u
                     : c == '/'             ? 63u
                                            : 64u;
    if (digit == 64) return std::nullopt;
    bits = bits << 6 | digit, held += 6;
    if (held >= 8) out += char(bits >> (held -= 8));
  }
  return out;
}

uint32_t u32(std::string_view bytes, size_t at) {
  auto byte = [&](size_t i) { return uint32_t(uint8_t(bytes[at + i])); };
  return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
}

// One unit of the double array: a label to be reached by, whether a value is there, and where the children are.
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
bool has_value(uint32_t unit) { return unit >> 8 & 1; }
uint32_t children_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }
uint32_t value_of(uint32_t unit) { return unit & ~(1u << 31); }

UGraphemeClusterBreak kind_of(char32_t c) {
  return UGraphemeClusterBreak(u_getIntPropertyValue(UChar32(c), UCHAR_GRAPHEME_CLUSTER_BREAK));
}

// Whether a cluster goes on from a character to the next: rules GB3 to GB999.
class Cluster {
 public:
  explicit Cluster(char32_t first) { take(first, kind_of(first)); }

  bool takes(char32_t c) {
    const auto next = kind_of(c);
    if (!joins(next, c)) return false;
    take(c, next);
    return true;
  }

 private:
  static bool is_control(UGraphemeClusterBreak kind) {
    return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF;
  }
  bool joins(UGraphemeClusterBreak next, char32_t c) const {
    if (last_ == U_GCB_CR) return next == U_GCB_LF;
    if (is_control(last_) || is_control(next)) return false;
    if (last_ == U_GCB_L && (next == U_GCB_L || next == U_GCB_V || next == U_GCB_LV || next == U_GCB_LVT)) return true;
    if ((last_ == U_GCB_LV || last_ == U_GCB_V) && (next == U_GCB_V || next == U_GCB_T)) return true;
    if ((last_ == U_GCB_LVT || last_ == U_GCB_T) && next == U_GCB_T) return true;
    if (next == U_GCB_EXTEND || next == U_GCB_ZWJ || next == U_GCB_SPACING_MARK || last_ == U_GCB_PREPEND) return true;
    if (joined_picture_ && u_hasBinaryProperty(UChar32(c), UCHAR_EXTENDED_PICTOGRAPHIC)) return true;
    return odd_flag_ && next == U_GCB_REGIONAL_INDICATOR;
  }
  void take(char32_t c, UGraphemeClusterBreak kind) {
    joined_picture_ = kind == U_GCB_ZWJ && picture_;
    if (kind != U_GCB_EXTEND) picture_ = u_hasBinaryProperty(UChar32(c), UCHAR_EXTENDED_PICTOGRAPHIC);
    odd_flag_ = kind == U_GCB_REGIONAL_INDICATOR && !odd_flag_;
    last_ = kind;
  }

  UGraphemeClusterBreak last_ = U_GCB_OTHER;
  bool picture_ = false, joined_picture_ = false;  // a picture, and what extends it; the same and a joiner
  bool odd_flag_ = false;                          // half of a flag
};

// Nothing below U+0300 extends what is before it, but a line feed and a joiner that is none (soft hyphen is a control).
bool stands_alone(std::string_view text, size_t at) {
  auto plain = [&](size_t i) { return i == text.size() || (uint8_t(text[i]) < 0x80 && text[i] != '\n'); };
  return uint8_t(text[at]) < 0x80 && plain(at + 1);
}

}  // namespace

size_t grapheme_size(std::string_view text, size_t at) {
  const size_t from = at;
  if (stands_alone(text, at)) return 1;
  Cluster cluster(utf8_next(text, at));
  for (size_t next = at; at < text.size(); at = next)
    if (!cluster.takes(utf8_next(text, next))) break;
  return at - from;
}

std::optional<Charsmap> Charsmap::parse(std::string_view base64) {
  while (base64.ends_with('=')) base64.remove_suffix(1);
  if (base64.size() / 4 * 3 + base64.size() % 4 * 3 / 4 > kMaxTable) return std::nullopt;
  auto bytes = from_base64(base64);
  if (!bytes || bytes->size() < 4) return std::nullopt;
  const size_t trie = u32(*bytes, 0);
  if (trie % 4 != 0 || trie == 0 || trie > bytes->size() - 4) return std::nullopt;
  Charsmap out;
  out.units_.reserve(trie / 4);
  for (size_t at = 4; at < 4 + trie; at += 4) out.units_.push_back(u32(*bytes, at));
  out.texts_ = bytes->substr(4 + trie);
  if (!utf8_valid(out.texts_)) return std::nullopt;
  return out;
}

// Only the shortest of the spellings that `spelling` begins with counts.
std::optional<std::string_view> Charsmap::replacement(std::string_view spelling) const {
  size_t at = children_of(units_[0]);
  for (char c : spelling) {
    at ^= uint8_t(c);
    if (c == 0 || at >= units_.size() || label_of(units_[at]) != uint8_t(c)) return std::nullopt;
    const uint32_t unit = units_[at];
    at ^= children_of(unit);
    if (!has_value(unit)) continue;
    if (at >= units_.size()) return std::nullopt;
    const size_t from = value_of(units_[at]);
    if (from > texts_.size() || (from < texts_.size() && (uint8_t(texts_[from]) & 0xC0) == 0x80)) return std::nullopt;
    auto text = std::string_view(texts_).substr(from, kMaxText + 1);
    const size_t end = std::min(text.find('\0'), text.size());
    return end > kMaxText ? std::nullopt : std::optional(text.substr(0, end));
  }
  return std::nullopt;
}

bool Charsmap::apply(std::string_view text, std::string& out, size_t most) const {
  std::string changed;
  changed.reserve(text.size() + text.size() / 8);
  bool any = false;
  // False: there is no room.
  auto put = [&](std::string_view as, bool replaced, size_t rest) {
    any = any || replaced;
    changed += as;
    return changed.size() + rest <= most;
  };
  size_t at = 0;
  for (bool room = true; at < text.size() && room;) {
    const size_t size = grapheme_size(text, at);
    const auto cluster = text.substr(at, size);
    const auto whole = size < kWholeBelow ? replacement(cluster) : std::nullopt;
    at += size;
    if (whole) {
      room = put(*whole, true, text.size() - at);
      continue;
    }
    for (size_t i = 0; i < size; i += utf8_size(cluster[i])) {
      const auto character = cluster.substr(i, utf8_size(cluster[i]));
      const auto one = replacement(character);
      room = put(one.value_or(character), one.has_value(), text.size() - at);
    }
  }
  if (!any) return false;
  changed += text.substr(at);
  out = std::move(changed);
  return true;
}

}  // namespace tokenizers
