#include "generation/kv_memory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir::generation {
namespace {

using base::check;

constexpr size_t kCompared = 1024;  // tokens of a history that are compared with a resident's

}  // namespace

KvMemory::KvMemory(TokenEngine& engine, uint32_t blocks, uint32_t block_size, Cache cache, uint64_t key)
    : engine_(engine),
      caches_(cache == Cache::kOn),
      key_(key),
      kv_(blocks, block_size, key),
      by_session_(0, base::KeyedHash({key, ~key})) {}

KvBlocks::Content KvMemory::content(Sequence& sequence, uint32_t block) const {
  uint32_t size = kv_.block_size(), from = block * size;
  return {sequence.salt(), block == 0 ? 0 : kv_.chain(sequence.blocks[block - 1]),
          std::span(sequence.tokens).subspan(from, size), sequence.images_in(from, from + size, key_),
          sequence.call->adapter};
}

void KvMemory::shorten(std::vector<KvBlocks::Id>& blocks, uint32_t positions) {
  for (; blocks.size() > kv_.needed(positions); blocks.pop_back()) kv_.drop(blocks.back());
}

// An embedding needs the hidden state of every position: nothing may be there already.
void KvMemory::attach(Sequence& s, uint32_t most) {
  check(s.blocks.empty() && s.stored == 0, "a sequence is attached once");
  bool resident = s.resides() && take_resident(s);
  s.write_tokens();
  if (s.is(msg::Aim::kEmbed)) return;
  if (!resident && caches_) find_prefix(s, most);
  s.stored = std::min(s.stored, most);
  shorten(s.blocks, s.stored);
  s.sealed = std::min<uint32_t>(s.sealed, uint32_t(s.blocks.size()));
}

bool KvMemory::take_resident(Sequence& s) {
  auto found = by_session_.find(s.call->session);
  if (found == by_session_.end()) return false;
  auto& resident = *found->second;
  auto history = s.params.history;
  size_t same = std::min(history.size(), resident.tokens.size()), compared = std::min(same, kCompared);
  bool ours = s.tokens.empty() && resident.salt == s.salt() && resident.adapter == s.call->adapter &&
              std::equal(history.begin() + ptrdiff_t(same - compared), history.begin() + ptrdiff_t(same),
                         resident.tokens.begin() + ptrdiff_t(same - compared));
  if (!ours || same == 0) return erase(found->second), false;
  s.tokens = std::move(resident.tokens), s.blocks = std::move(resident.blocks);
  s.tokens.resize(same);
  s.stored = uint32_t(same);
  s.sealed = resident.sealed, s.sealable = resident.sealable;
  residents_.erase(found->second);
  by_session_.erase(found);
  return true;
}

void KvMemory::find_prefix(Sequence& s, uint32_t most) {
  uint32_t size = kv_.block_size();
  for (uint32_t block = 0; s.stored < most && (block + 1) * size <= s.tokens.size(); ++block) {
    auto id = kv_.find(content(s, block));
    if (id == KvBlocks::kNone) break;
    s.blocks.push_back(id);
    s.stored += size;
  }
  s.sealed = uint32_t(s.blocks.size());
}

uint32_t KvMemory::lacking(const Sequence& s) const {
  auto fresh = kv_.needed(s.length()) - uint32_t(s.blocks.size());
  bool copies = s.stored % kv_.block_size() != 0 && !kv_.writable(s.blocks.back());
  return fresh + copies + !s.recomputes.empty();
}

void KvMemory::fill(Sequence& s) {
  own_tail(s);
  while (s.blocks.size() < kv_.needed(s.length())) {
    s.blocks.push_back(kv_.take());
    check(s.blocks.back() != KvBlocks::kNone, "a sequence is filled when there are blocks for it");
  }
  if (!s.recomputes.empty()) widen_scratch(s, 1);
}

// A block that others read, or may find, is not written: the sequence goes on in a copy.
void KvMemory::own_tail(Sequence& s) {
  uint32_t inside = s.stored % kv_.block_size();
  if (inside == 0 || kv_.writable(s.blocks.back())) return;
  auto copy = kv_.take();
  check(copy != KvBlocks::kNone, "a sequence is filled when there are blocks for it");
  engine_.copy_block(s.blocks.back(), copy, inside);
  kv_.drop(s.blocks.back());
  s.blocks.back() = copy;
  s.sealed = std::min<uint32_t>(s.sealed, uint32_t(s.blocks.size()) - 1);
}

bool KvMemory::grow(Sequence& s) { return reach(s, s.stored + 1); }

bool KvMemory::reach(Sequence& s, uint32_t positions) {
  while (s.blocks.size() < kv_.needed(positions)) {
    auto id = kv_.take();
    if (id == KvBlocks::kNone) return false;
    s.blocks.push_back(id);
  }
  return true;
}

void KvMemory::widen_scratch(Sequence& s, uint32_t most) {
  while (s.scratch.size() < most && kv_.available() > 0) s.scratch.push_back(kv_.take());
}

void KvMemory::drop_scratch(Sequence& s, size_t keep) {
  for (; s.scratch.size() > keep; s.scratch.pop_back()) kv_.drop(s.scratch.back());
}

void KvMemory::seal(Sequence& s) {
  if (!caches_) return;
  for (; s.sealable && (s.sealed + 1) * kv_.block_size() <= s.stored; ++s.sealed) {
    auto id = kv_.seal(s.blocks[s.sealed], content(s, s.sealed));
    s.sealable = id != KvBlocks::kNone;
    if (!s.sealable) return;
    s.blocks[s.sealed] = id;
  }
}

uint32_t KvMemory::catch_up(Sequence& s) {
  const uint32_t size = kv_.block_size(), before = s.stored;
  bool asks = s.is(msg::Aim::kEmbed) || !s.scores.empty() || !s.readouts.empty() || !s.recomputes.empty();
  if (!caches_ || asks || !s.sealable || s.stored != s.sealed * size) return 0;
  for (; s.stored + size < s.length(); s.stored += size) {
    auto id = kv_.find(content(s, s.sealed));
    if (id == KvBlocks::kNone) break;
    kv_.drop(s.blocks[s.sealed]);
    s.blocks[s.sealed++] = id;
  }
  return s.stored - before;
}

void KvMemory::release(Sequence& s) {
  drop_scratch(s);
  shorten(s.blocks, 0);
  s.stored = s.sealed = 0;
}

void KvMemory::keep(Sequence& s) {
  drop_scratch(s);
  forget(s.call->session);
  shorten(s.blocks, s.stored);
  if (s.stored == 0) return;
  s.tokens.resize(s.stored);
  residents_.push_back(
      {s.call->session, s.salt(), s.call->adapter, std::move(s.tokens), std::move(s.blocks), s.sealed, s.sealable});
  by_session_[s.call->session] = std::prev(residents_.end());
  s.tokens.clear(), s.blocks.clear();
  s.stored = s.sealed = 0;
}

void KvMemory::cut(base::SessionId session, uint32_t length) {
  auto found = by_session_.find(session);
  if (found == by_session_.end()) return;
  auto& resident = *found->second;
  if (resident.tokens.size() <= length) return;
  if (length == 0) return erase(found->second);
  resident.tokens.resize(length);
  shorten(resident.blocks, length);
  resident.sealed = std::min<uint32_t>(resident.sealed, uint32_t(resident.blocks.size()));
}

void KvMemory::forget(base::SessionId session) {
  if (auto found = by_session_.find(session); found != by_session_.end()) erase(found->second);
}

bool KvMemory::evict() {
  if (residents_.empty()) return false;
  erase(residents_.begin());
  return true;
}

void KvMemory::erase(Residents::iterator resident) {
  by_session_.erase(resident->session);
  shorten(resident->blocks, 0);
  residents_.erase(resident);
}

}  // namespace weir::generation
