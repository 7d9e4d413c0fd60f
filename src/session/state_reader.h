// StateReader: the parts of a session's state, which is lines of words and numbers with bytes behind them. What another
// node has kept is read with it, so that every length is checked. Pure; any thread.
//
//   word = percent encoded, at most kLongestWord; numbers are decimal
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/encoding.h"
#include "base/status.h"

namespace weir::session {

// Appends name SP value LF.
inline void put_state_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(" ").append(value).append("\n");
}

// Reads the parts in order; error() names the first that cannot be read, behind which all are empty.
class StateReader {
 public:
  static constexpr size_t kLongestWord = 4096;

  // `text` outlives this.
  explicit StateReader(std::string_view text) : text_(text) {}

  bool good() const { return failed_.empty(); }
  bool whole() const { return text_.empty(); }
  std::string_view rest() const { return text_; }
  // DATA_LOSS.
  base::Status error() const {
    return base::failure(base::Code::kDataLoss, "what was kept of the session cannot be read: its " + failed_);
  }
  void fail(std::string_view part) {
    if (good()) failed_ = part, text_ = {};
  }
  bool has(std::string_view word) const { return text_.starts_with(word); }
  void skip(std::string_view word) {
    if (!has(word)) return fail("form");
    text_.remove_prefix(word.size());
  }
  uint64_t number(std::string_view part, char behind, uint64_t most) {
    uint64_t out = 0;
    auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    const auto size = size_t(end - text_.data());
    if (error != std::errc() || size == text_.size() || *end != behind || out > most) return fail(part), 0;
    text_.remove_prefix(size + 1);
    return out;
  }
  std::string word(std::string_view part, char behind) {
    const size_t end = text_.substr(0, kLongestWord).find(behind);
    std::optional<std::string> out;
    if (end != text_.npos) out = base::percent_decode(text_.substr(0, end));
    if (!out) return fail(part), std::string();
    text_.remove_prefix(end + 1);
    return *std::move(out);
  }
  std::string_view bytes(std::string_view part, uint64_t size) {
    if (size > text_.size()) return fail(part), std::string_view();
    auto out = text_.substr(0, size);
    text_.remove_prefix(size);
    return out;
  }

 private:
  std::string_view text_;
  std::string failed_;
};

}  // namespace weir::session
