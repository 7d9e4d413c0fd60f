// StringBlock: the elements of a BYTES tensor, one behind the other as msg::append_string() lays them, in a slab.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/memory_ledger.h"

namespace weir::marshal {

class StringBlock {
 public:
  // `bytes`: how many are likely to come, lengths and all; it grows by doubling beyond.
  StringBlock(base::SlabSource& slabs, size_t bytes) : slabs_(slabs), first_(bytes) {}

  void append(std::string_view element) {
    auto n = uint32_t(element.size());
    if (block_.room() < sizeof n + n) grow(block_.size() + sizeof n + n);
    const unsigned char length[] = {uint8_t(n), uint8_t(n >> 8), uint8_t(n >> 16), uint8_t(n >> 24)};
    block_.append(length, sizeof length);
    block_.append(element.data(), n);
  }
  base::Bytes freeze() { return block_.freeze(); }

 private:
  void grow(size_t least) {
    size_t want = std::max({least, first_, block_.capacity() * 2});
    base::Block larger(base::take_now(slabs_, want));
    if (block_) larger.append(block_.data(), block_.size());
    block_ = std::move(larger);
  }

  base::SlabSource& slabs_;
  size_t first_;
  base::Block block_;
};

}  // namespace weir::marshal
