// PieceMap: short strings -> numbers, built once and read by any thread. Open addressing over one block of text: no
// allocation per entry, and a look-up costs one hash and one or two cache lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tokenizers {

class PieceMap {
 public:
  void reserve(size_t entries, size_t bytes);
  // The last value of a key wins.
  void put(std::string_view key, uint32_t value);
  // Null when it is not there. Valid until the next put().
  const uint32_t* find(std::string_view key) const;
  uint32_t* find(std::string_view key) {
    return const_cast<uint32_t*>(static_cast<const PieceMap*>(this)->find(key));  // the table is this object's own
  }
  std::optional<uint32_t> get(std::string_view key) const {
    const uint32_t* value = find(key);
    return value ? std::optional(*value) : std::nullopt;
  }
  size_t size() const { return used_; }
  size_t longest() const { return longest_; }  // bytes of the longest key

  template <class F>  // f(key, value&)
  void for_each(F&& f) {
    for (Slot& slot : slots_)
      if (slot.size != kFree) f(std::string_view(text_).substr(slot.at, slot.size), slot.value);
  }

 private:
  static constexpr uint32_t kFree = ~0u;
  struct Slot {
    uint32_t at = 0, size = kFree, hash = 0, value = 0;
  };
  static uint64_t hash(std::string_view key);
  void grow();

  std::string text_;
  std::vector<Slot> slots_;
  size_t used_ = 0, longest_ = 0;
};

// Strings by number: one block and its borders.
class StringList {
 public:
  void reserve(size_t entries, size_t bytes) { ends_.reserve(entries), text_.reserve(bytes); }
  void push(std::string_view text) {
    text_ += text;
    ends_.push_back(uint32_t(text_.size()));
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    size_t from = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(from, ends_[i] - from);
  }

 private:
  std::string text_;
  std::vector<uint32_t> ends_;
};

}  // namespace tokenizers
