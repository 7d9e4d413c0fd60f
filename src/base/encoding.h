// The byte encodings that every protocol needs, in one place: percent, base64, hex.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace weir::base {

// RFC 3986 decoding of one path segment or query part. Nothing on a bad escape ("%zz", a cut "%4").
std::optional<std::string> percent_decode(std::string_view text);
// Escapes everything outside unreserved characters.
std::string percent_encode(std::string_view text);

enum class Padding : bool { kNone, kFull };
std::string base64_encode(std::string_view bytes, Padding padding = Padding::kFull);
// Accepts standard alphabet with or without padding; nothing on any other byte, or on a length that cannot be.
std::optional<std::string> base64_decode(std::string_view text);

std::string hex(std::string_view bytes);

// The beginning of `text` of at most `most` bytes, not cut through a character of UTF-8: what goes into a string of
// protobuf has to stay UTF-8.
std::string_view cut_text(std::string_view text, size_t most);

// Words that came from elsewhere (a file's names, a library's message), as they may stand in a text for people and in a
// string of protobuf: what is not UTF-8, and control characters but line ends, become '?', and all is cut to about
// `most` bytes.
std::string presentable(std::string_view text, size_t most);

// The candidate nearest to `word` by edit distance, if it is near enough to be a typing slip; else empty. Words of more
// than kLongestWord bytes are near to nothing.
inline constexpr size_t kLongestWord = 256;
template <class Range>
std::string_view near_miss(std::string_view word, const Range& candidates);
// kLongestWord where one is longer than that.
size_t edit_distance(std::string_view a, std::string_view b);

template <class Range>
std::string_view near_miss(std::string_view word, const Range& candidates) {
  std::string_view best;
  if (word.size() > kLongestWord) return best;
  size_t least = word.size() / 3 + 2;
  for (const auto& c : candidates) {
    std::string_view candidate = c;
    size_t longer = std::max(word.size(), candidate.size()), shorter = std::min(word.size(), candidate.size());
    if (longer > kLongestWord || longer - shorter >= least) continue;  // no nearer than they differ in length
    size_t d = edit_distance(word, candidate);
    if (d < least) least = d, best = candidate;
  }
  return best;
}

}  // namespace weir::base
