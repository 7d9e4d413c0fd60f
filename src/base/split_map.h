// SplitMap: a hash map in parts. A map that grows moves all that is in it at once, a million entries in a tenth of a
// second, for which its thread does nothing else; here each part grows by itself.
#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>
#include <utility>

namespace weir::base {

// `Hash` is as std::unordered_map wants it. Values stay where they are until they are taken out. One thread.
template <class Key, class Value, class Hash>
class SplitMap {
 public:
  explicit SplitMap(const Hash& hash) : hash_(hash) {
    for (Part& part : parts_) part = Part(0, hash);
  }

  // Null: it is not there.
  Value* find(const Key& key) {
    Part& part = part_of(key);
    const auto at = part.find(key);
    return at == part.end() ? nullptr : &at->second;
  }
  const Value* find(const Key& key) const { return const_cast<SplitMap*>(this)->find(key); }
  // False: there is one already, which stays.
  bool emplace(const Key& key, Value value) {
    const bool added = part_of(key).emplace(key, std::move(value)).second;
    size_ += added;
    return added;
  }
  // Takes one out that is there.
  Value take(const Key& key) {
    auto node = part_of(key).extract(key);
    --size_;
    return std::move(node.mapped());
  }
  size_t size() const { return size_; }
  template <class Visit>
  void for_each(Visit visit) {
    for (Part& part : parts_)
      for (auto& [key, value] : part) visit(value);
  }

 private:
  using Part = std::unordered_map<Key, Value, Hash>;
  static constexpr size_t kParts = 64;

  Part& part_of(const Key& key) { return parts_[hash_(key) % kParts]; }

  Hash hash_;
  std::array<Part, kParts> parts_;
  size_t size_ = 0;
};

}  // namespace weir::base
