#include "wire/h2_head_cache.h"

#include <algorithm>
#include <utility>

#include "wire/text.h"

namespace weir::wire {
namespace {

// RFC 7541 §5.1, of a prefix of `bits`; takes it from the front. False: malformed, or larger than any block.
bool take_integer(std::string_view& from, int bits, size_t& value) {
  if (from.empty()) return false;
  const size_t most = (size_t(1) << bits) - 1;
  value = uint8_t(from[0]) & most;
  from.remove_prefix(1);
  if (value < most) return true;
  for (int shift = 0; shift < 28 && !from.empty(); shift += 7) {
    const auto byte = uint8_t(from[0]);
    from.remove_prefix(1);
    value += size_t(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

// §5.2.
bool take_string(std::string_view& from) {
  size_t size = 0;
  if (!take_integer(from, 7, size) || size > from.size()) return false;
  from.remove_prefix(size);
  return true;
}

constexpr uint8_t kIndexed = 0x80, kAdded = 0x40, kTableSize = 0x20;

// Fields that are acted on as each head comes are none of those that a known head brings.
bool can_come_again(const Request& request) {
  return !request.fields.has("priority") && !request.fields.has("expect") && !request.fields.has("upgrade");
}

}  // namespace

bool leaves_table(std::string_view block) {
  size_t index = 0;
  while (!block.empty()) {
    const auto first = uint8_t(block[0]);
    if (first & kIndexed) {
      if (!take_integer(block, 7, index)) return false;
      continue;
    }
    if (first & (kAdded | kTableSize)) return false;
    if (!take_integer(block, 4, index)) return false;
    if (index == 0 && !take_string(block)) return false;
    if (!take_string(block)) return false;
  }
  return true;
}

const H2HeadCache::Head* H2HeadCache::find(std::string_view block) const {
  for (const Head& head : heads_)
    if (head.block == block) return &head;
  return nullptr;
}

bool H2HeadCache::is_worth_learning(std::string_view block) {
  if (!leaves_table(block)) return forget(), false;
  if (block.size() > kMostBlock) return false;
  if (last_ == block) return true;
  last_ = block;
  return false;
}

void H2HeadCache::learn(std::string_view block, const Request& request, BodyKind body) {
  const uint64_t text = request.method.size() + request.authority.size() + request.target.size();
  if (!can_come_again(request) || text + request.fields.bytes() > kMostText) return;
  Head head{std::string(block),
            request.method,
            request.authority,
            request.target,
            request.fields,
            request.content_length,
            body,
            text + request.fields.bytes(),
            ++ids_};
  if (heads_.size() < kMost)
    heads_.push_back(std::move(head));
  else
    heads_[replace_++ % kMost] = std::move(head);
}

uint64_t H2HeadCache::bytes() const {
  uint64_t all = last_.capacity();
  for (const Head& head : heads_) all += sizeof(Head) + head.block.capacity() + 2 * head.bytes;
  return all;
}

}  // namespace weir::wire
