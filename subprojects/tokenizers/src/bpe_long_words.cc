// Merging of long words: the whole of a text without spaces, or a run of one character.
#include <algorithm>
#include <functional>

#include "bpe.h"

namespace tokenizers {

void Bpe::Work::clear(size_t count) {
  nodes.resize(count);
  buckets.clear();
  ranks.clear();
  index.assign(256, ~0ull);
  used = 0;
}

void Bpe::Work::grow_index() {
  std::vector<uint64_t> old(index.size() * 2, ~0ull);
  old.swap(index);
  for (uint64_t entry : old) {
    if (entry == ~0ull) continue;
    size_t mask = index.size() - 1, i = place(entry >> 32, mask);
    while (index[i] != ~0ull) i = (i + 1) & mask;
    index[i] = entry;
  }
}

uint32_t Bpe::Work::bucket_of(uint32_t rank) {
  if ((used + 1) * 2 > index.size()) grow_index();
  size_t mask = index.size() - 1, i = place(rank, mask);
  for (; index[i] != ~0ull; i = (i + 1) & mask)
    if (index[i] >> 32 == rank) return uint32_t(index[i]);
  index[i] = uint64_t(rank) << 32 | buckets.size();
  ++used;
  buckets.emplace_back();
  return uint32_t(buckets.size() - 1);
}

void Bpe::Work::push(uint32_t rank, uint32_t position) {
  uint32_t number = bucket_of(rank);
  Bucket& bucket = buckets[number];
  if (bucket.row.empty() || bucket.row.back() < position) {
    bucket.row.push_back(position);
  } else {
    bucket.late.push_back(position);
    std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
  }
  if (bucket.listed) return;
  bucket.listed = true;
  ranks.push_back(uint64_t(rank) << 32 | number);
  std::push_heap(ranks.begin(), ranks.end(), std::greater<>());
}

bool Bpe::Work::pop(uint32_t& rank, uint32_t& position) {
  while (!ranks.empty()) {
    Bucket& bucket = buckets[uint32_t(ranks.front())];
    rank = uint32_t(ranks.front() >> 32);
    bool in_row = bucket.head < bucket.row.size();
    if (in_row && (bucket.late.empty() || bucket.row[bucket.head] <= bucket.late.front())) {
      position = bucket.row[bucket.head++];
      return true;
    }
    if (!bucket.late.empty()) {
      position = bucket.late.front();
      std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
      bucket.late.pop_back();
      return true;
    }
    bucket.row.clear();
    bucket.head = 0;
    bucket.listed = false;
    std::pop_heap(ranks.begin(), ranks.end(), std::greater<>());
    ranks.pop_back();
  }
  return false;
}

void Bpe::merge_long(Work& work, std::vector<uint32_t>& out) const {
  auto count = uint32_t(work.symbols.size());
  work.clear(count);
  auto& nodes = work.nodes;
  auto pair_up = [&](uint32_t at) {
    Work::Node& node = nodes[at];
    node.merge = node.after == kNoId ? Merge{} : merge_of(node.id, nodes[node.after].id);
    if (node.merge.rank != kNoId) work.push(node.merge.rank, at);
  };
  for (uint32_t i = 0; i < count; ++i)
    nodes[i] = {work.symbols[i], i == 0 ? kNoId : i - 1, i + 1 == count ? kNoId : i + 1, {}};
  for (uint32_t i = 0; i < count; ++i) pair_up(i);
  constexpr uint32_t kCheckEvery = 4096;
  for (uint32_t rank = 0, at = 0, looked = 0; work.pop(rank, at);) {
    if (++looked % kCheckEvery == 0 && work.cancelled && work.cancelled->load(std::memory_order_relaxed)) break;
    Work::Node& node = nodes[at];
    if (node.merge.rank != rank) continue;  // merged away, or another pair by now
    Work::Node& eaten = nodes[node.after];
    node.id = node.merge.result;
    node.after = eaten.after;
    eaten.merge = {};
    if (node.after != kNoId) nodes[node.after].before = at;
    pair_up(at);
    if (node.before != kNoId) pair_up(node.before);
  }
  for (uint32_t i = 0; i != kNoId; i = nodes[i].after) out.push_back(nodes[i].id);
}

}  // namespace tokenizers
