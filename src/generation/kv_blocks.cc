#include "generation/kv_blocks.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/sip_hash.h"

namespace weir::generation {

using base::check;

Digest digest_of(std::span<const std::byte> data, uint64_t key) {
  auto hash = base::hash128({key, ~key}, data);
  return {hash.low, hash.high};
}

KvBlocks::KvBlocks(uint32_t blocks, uint32_t block_size, uint64_t key)
    : block_size_(block_size), key_(key), blocks_(blocks), ids_(size_t(blocks) * block_size) {
  check(blocks > 0 && block_size > 0, "there are blocks, and they hold something");
  free_.reserve(blocks);
  for (Id id = blocks; id-- > 0;) free_.push_back(id);  // the first one is taken first
  scratch_.resize(5 + (size_t(block_size) + 1) / 2);
}

KvBlocks::Id KvBlocks::take() {
  Id id = kNone;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (oldest_ != kNone) {
    id = oldest_;
    uncache(id);
    forget(id);
  } else {
    return kNone;
  }
  blocks_[id].holders = 1;
  return id;
}

void KvBlocks::share(Id id) {
  if (blocks_[id].holders++ > 0) return;
  check(blocks_[id].chain != 0, "only a sealed block is found without a holder");
  uncache(id);
}

void KvBlocks::drop(Id id) {
  auto& block = blocks_[id];
  check(block.holders > 0, "a block is dropped by its holders");
  if (--block.holders > 0) return;
  if (block.chain != 0)
    cache(id);
  else
    free_.push_back(id);
}

void KvBlocks::cache(Id id) {
  auto& block = blocks_[id];
  block.older = newest_, block.newer = kNone;
  (newest_ == kNone ? oldest_ : blocks_[newest_].newer) = id;
  newest_ = id;
  ++cached_;
}

void KvBlocks::uncache(Id id) {
  auto& block = blocks_[id];
  (block.older == kNone ? oldest_ : blocks_[block.older].newer) = block.newer;
  (block.newer == kNone ? newest_ : blocks_[block.newer].older) = block.older;
  block.older = block.newer = kNone;
  --cached_;
}

void KvBlocks::forget(Id id) {
  sealed_.erase(blocks_[id].key);
  blocks_[id].chain = 0;
}

Digest KvBlocks::key_of(const Content& content) {
  check(content.ids.size() == block_size_, "whole blocks are sealed");
  scratch_[0] = content.salt, scratch_[1] = content.after;
  scratch_[2] = content.images.low, scratch_[3] = content.images.high;
  scratch_[4] = content.adapter;
  scratch_.back() = 0;
  std::memcpy(&scratch_[5], content.ids.data(), content.ids.size_bytes());
  return digest_of(std::as_bytes(std::span(scratch_)), key_);
}

bool KvBlocks::holds(Id id, const Content& content) const {
  const auto& block = blocks_[id];
  return block.after == content.after && block.salt == content.salt && block.adapter == content.adapter &&
         block.images == content.images &&
         std::equal(content.ids.begin(), content.ids.end(), ids_.begin() + ptrdiff_t(size_t(id) * block_size_));
}

KvBlocks::Id KvBlocks::find(const Content& content) {
  auto found = sealed_.find(key_of(content));
  if (found == sealed_.end() || !holds(found->second, content)) return kNone;
  share(found->second);
  return found->second;
}

KvBlocks::Id KvBlocks::seal(Id id, const Content& content) {
  auto& block = blocks_[id];
  check(writable(id), "a block is sealed once, by its one holder");
  auto key = key_of(content);
  auto [at, fresh] = sealed_.try_emplace(key, id);
  if (!fresh) {
    Id twin = at->second;
    if (!holds(twin, content)) return kNone;
    share(twin);
    drop(id);
    return twin;
  }
  block.chain = ++chains_;
  block.after = content.after, block.salt = content.salt, block.adapter = content.adapter;
  block.images = content.images, block.key = key;
  std::copy(content.ids.begin(), content.ids.end(), ids_.begin() + ptrdiff_t(size_t(id) * block_size_));
  return id;
}

}  // namespace weir::generation
