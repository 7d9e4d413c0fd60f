#include "wire/h2_block_cache.h"

#include <cstring>
#include <utility>

#include "wire/h2_head_cache.h"

namespace weir::wire {
namespace {

// RFC 7541 §5.2, without Huffman's code.
void append_string(std::string& to, const uint8_t* text, size_t size) {
  constexpr size_t kPrefix = 127;
  if (size < kPrefix) {
    to += char(size);
  } else {
    to += char(kPrefix);
    size_t rest = size - kPrefix;
    for (; rest >= 128; rest >>= 7) to += char((rest & 127) | 128);
    to += char(rest);
  }
  to.append(reinterpret_cast<const char*>(text), size);
}

}  // namespace

H2BlockCache::Key::Key(std::span<const nghttp2_nv> fields) {
  size_t all = 0;
  for (const nghttp2_nv& field : fields) {
    const size_t next = all + 2 + field.namelen + field.valuelen;
    if (next > kMostKey) return;
    char* at = text.data() + all;
    *at++ = char(field.namelen), *at++ = char(field.valuelen);
    std::memcpy(at, field.name, field.namelen);
    std::memcpy(at + field.namelen, field.value, field.valuelen);
    all = next;
  }
  size = uint8_t(all);
}

H2BlockCache::Ref H2BlockCache::find(std::span<const nghttp2_nv> fields) const {
  if (!blocks_ || blocks_->count == 0) return Ref::kNone;
  const Key key(fields);
  if (key.size == 0) return Ref::kNone;
  for (uint32_t i = 0; i < blocks_->count; ++i)
    if (blocks_->list[i].key.view() == key.view()) return blocks_->list[i].ref;
  return Ref::kNone;
}

std::string_view H2BlockCache::block(Ref ref) const {
  for (uint32_t i = 0; blocks_ && i < blocks_->count; ++i)
    if (const Block& known = blocks_->list[i]; known.ref == ref) return {known.bytes.data(), known.size};
  return {};
}

void H2BlockCache::writes(std::span<const nghttp2_nv> fields, base::SteppedCharge& heads) {
  if (!std::exchange(wrote_, true)) return;
  if (!blocks_) {
    if (!heads.take(sizeof(Blocks))) return;
    blocks_ = std::make_unique<Blocks>();
  }
  blocks_->writing = Key(fields);
}

void H2BlockCache::drop(base::SteppedCharge& heads) {
  forget();
  if (std::exchange(blocks_, nullptr)) heads.give(sizeof(Blocks));
}

void H2BlockCache::wrote(std::string_view block) {
  if (!leaves_table(block)) return forget();
  if (!blocks_ || blocks_->writing.size == 0 || block.size() > kMostBlock || block.empty()) return;
  const uint32_t i = blocks_->count < kMost ? blocks_->count++ : blocks_->replace++ % kMost;
  Block& known = blocks_->list[i];
  if (++refs_ == 0) refs_ = 1;
  known.ref = Ref(refs_);
  known.key = std::exchange(blocks_->writing, {});
  known.size = uint8_t(block.size());
  std::memcpy(known.bytes.data(), block.data(), block.size());
}

void H2BlockCache::forget() {
  if (blocks_) blocks_->count = 0;
}

void append_literals(std::string& block, std::span<const nghttp2_nv> fields) {
  for (const nghttp2_nv& field : fields) {
    block += '\0';
    append_string(block, field.name, field.namelen);
    append_string(block, field.value, field.valuelen);
  }
}

}  // namespace weir::wire
