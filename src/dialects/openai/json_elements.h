// JsonElements: the elements of a JSON list, with commas between them, in blocks: a list of a hundred MB (log
// probabilities of a long answer) grows without being copied, which would hold up the shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weir::openai {

class JsonElements {
 public:
  // Begins another element, which the caller appends to this text.
  std::string& next() {
    const bool first = empty();
    std::string& out = room();
    if (!first) out += ',';
    return out;
  }
  void append(const JsonElements& more) {
    if (more.empty()) return;
    next() += more.blocks_.front();
    for (size_t i = 1; i < more.blocks_.size(); ++i) room() += more.blocks_[i];
  }
  bool empty() const { return blocks_.empty() || blocks_.front().empty(); }
  uint64_t size() const { return blocks_.empty() ? 0 : full_ + blocks_.back().size(); }
  // The memory that it takes: a block may have room for twice its text.
  uint64_t held() const {
    return blocks_.empty() ? 0 : full_held_ + blocks_.back().capacity() + blocks_.capacity() * sizeof(std::string);
  }
  // The text, one behind the other.
  std::span<const std::string> blocks() const { return blocks_; }
  void append_to(std::string& out) const {
    for (const std::string& block : blocks_) out += block;
  }
  // Keeps the memory of one block.
  void clear() {
    full_ = full_held_ = 0;
    if (blocks_.empty()) return;
    blocks_.resize(1);
    blocks_.front().clear();
  }

 private:
  static constexpr size_t kBlock = 64 << 10, kElement = 4 << 10;  // bytes; most elements have less

  // The last block, while it is not full, or a new one.
  std::string& room() {
    if (blocks_.empty()) return blocks_.emplace_back();
    if (blocks_.back().size() < kBlock) return blocks_.back();
    full_ += blocks_.back().size();
    full_held_ += blocks_.back().capacity();
    blocks_.emplace_back().reserve(kBlock + kElement);
    return blocks_.back();
  }

  std::vector<std::string> blocks_;  // none but the first is empty
  uint64_t full_ = 0;                // bytes of all but the last
  uint64_t full_held_ = 0;           // their capacities
};

}  // namespace weir::openai
