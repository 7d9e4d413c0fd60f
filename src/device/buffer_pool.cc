#include "device/buffer_pool.h"

#include <algorithm>

#include "base/units.h"

namespace weir::device {
namespace {

constexpr uint64_t kLarge = uint64_t(1) << 20;  // such parts go to the other end of a chunk than small ones

uint64_t padded(uint64_t bytes) {
  return (std::max<uint64_t>(bytes, 1) + BufferPool::kAlign - 1) & ~(BufferPool::kAlign - 1);
}
Arena::End end_for(uint64_t bytes) { return bytes >= kLarge ? Arena::End::kHigh : Arena::End::kLow; }

}  // namespace

base::Result<BufferPool::Part> BufferPool::take(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (auto s = device_.fault(); !s.ok()) return s;
  if (auto now = device_.epoch(); now != epoch_) {
    chunks_.clear();  // buffers of an older epoch went with it
    used_ = held_ = 0, epoch_ = now;
  }
  uint64_t size = padded(bytes);
  std::optional<uint64_t> at;
  Chunk* chunk = nullptr;
  for (auto& c : chunks_)
    if (at = c->arena.take(size, kAlign, end_for(size)); at) {
      chunk = c.get();
      break;
    }
  if (!at) {
    base::Status why;
    chunk = grow(size, why);
    if (!chunk) return why;
    at = chunk->arena.take(size, kAlign, end_for(size));
  }
  used_ += size;
  return Part(*this, *chunk, chunk->buffer.data() + *at, bytes, epoch_);
}

// A chunk that holds `bytes`: of the usual size where there is room for that, else as small as it can be.
BufferPool::Chunk* BufferPool::grow(uint64_t bytes, base::Status& why) {
  for (uint64_t size : {std::max(bytes, kChunk), bytes}) {
    if (size > limit_ || held_ > limit_ - size) drop_idle();
    if (size > limit_ || held_ > limit_ - size) continue;
    auto buffer = device_.buffer(size);
    if (!buffer && buffer.error().code == base::Code::kResourceExhausted && drop_idle()) buffer = device_.buffer(size);
    if (!buffer) {
      why = buffer.error();
      if (why.code != base::Code::kResourceExhausted) return nullptr;
      continue;
    }
    held_ += size;
    return chunks_.emplace_back(std::make_unique<Chunk>(std::move(*buffer))).get();
  }
  std::string what = why.ok() ? "the limit of " + base::show_size(limit_) + " is reached" : why.text;
  why = base::try_again(base::Code::kResourceExhausted,
                        "no device memory for a batch of " + base::show_size(bytes) + ": " + what);
  return nullptr;
}

bool BufferPool::drop_idle() {
  return std::erase_if(chunks_, [this](const auto& chunk) {
           if (chunk->arena.taken() > 0) return false;
           held_ -= chunk->buffer.size();
           return true;
         }) > 0;
}

// The chunk is there in its epoch alone.
void BufferPool::give(Chunk& chunk, const std::byte* data, size_t bytes, uint32_t epoch) {
  std::lock_guard lock(mutex_);
  if (epoch != epoch_) return;
  uint64_t size = padded(bytes);
  chunk.arena.give(uint64_t(data - chunk.buffer.data()), size);
  used_ -= size;
}

uint64_t BufferPool::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

uint64_t BufferPool::held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace weir::device
