// Bytes: a reference-counted slice of a slab, so that a tensor travels from the socket to the engine without a copy.
//
// A Slab is one block of memory with a count and the function that gives it back to its owner (the heap, a pool, a
// pinned pool). A Block is the one writer of a fresh slab; it freezes into Bytes, which many may read from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace weir::base {

struct Slab {
  using Release = void (*)(Slab*);

  std::byte* data;
  size_t capacity;
  Release release;  // called once, by whichever thread drops the last reference
  std::atomic<uint32_t> refs{1};

  Slab(std::byte* d, size_t n, Release r) : data(d), capacity(n), release(r) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
};

inline void retain(Slab* slab) { slab->refs.fetch_add(1, std::memory_order_relaxed); }
inline void drop(Slab* slab) {
  if (slab->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) slab->release(slab);
}

class Client;
class MemoryLedger;

// Where slabs come from. What a source with a budget offers beside take() has the meaning that it has without one by
// default. Any thread.
class SlabSource {
 public:
  // A body that has come so far takes the rest of its slab at once, unless memory is scarce (wire/body_growth.h).
  static constexpr uint64_t kPlenty = uint64_t(2) << 20;

  // A slab of at least `bytes` with one reference, or null when the source is at its limit: the caller then stops
  // reading from its peer (flow control) and tries again when room is back; it fails the request only if that is
  // hopeless().
  virtual Slab* take(size_t bytes) = 0;
  // Asked after take() or take_part() of so many bytes was null. True: waiting would be in vain, because all that is
  // out would not be enough if it came back. Who would wait refuses then, and the client tries again later.
  virtual bool hopeless(size_t) const { return false; }
  // A slab of at least `bytes` for the part of a body whose rest is still to come; null when the share for parts is
  // spent. Whoever holds a part and waits for more could wait for others who do the same: parts together never take
  // more than a share of the budget (one that is alone may be larger), and the rest is always there for somebody to
  // become whole, and to come to an end.
  virtual Slab* take_part(size_t bytes) { return take(bytes); }
  // So much is out that who holds memory for a slow peer keeps others waiting.
  virtual bool scarce() const { return false; }
  // The same for who takes the whole slab of a body that has come in part: that gives a part back, so what parts hold
  // does not count. Else the parts of one client could keep each other from becoming whole.
  virtual bool scarce_for_wholes() const { return scarce(); }
  // Charges the memory of `slab` to `client` until it comes back. It is a slab of this source that nobody shares yet.
  virtual void charge(Slab* /*slab*/, Client& /*client*/) {}
  // The ledger that this source charges (base/memory_ledger.h), or null.
  virtual MemoryLedger* ledger() { return nullptr; }

 protected:
  ~SlabSource() = default;
};

// A slab of the plain heap, 64-byte aligned; never null (throws bad_alloc).
Slab* heap_slab(size_t bytes);

// The plain heap as a source, without a limit: for tests, tools and small control messages.
SlabSource& heap();

class Bytes {
 public:
  Bytes() = default;
  // Takes over one reference of `slab`.
  Bytes(Slab* slab, const std::byte* data, size_t size) : slab_(slab), data_(data), size_(size) {}
  Bytes(const Bytes& o) : slab_(o.slab_), data_(o.data_), size_(o.size_) {
    if (slab_) retain(slab_);
  }
  Bytes(Bytes&& o) noexcept
      : slab_(std::exchange(o.slab_, nullptr)),
        data_(std::exchange(o.data_, nullptr)),
        size_(std::exchange(o.size_, 0)) {}
  Bytes& operator=(Bytes o) noexcept {
    std::swap(slab_, o.slab_), std::swap(data_, o.data_), std::swap(size_, o.size_);
    return *this;
  }
  ~Bytes() {
    if (slab_) drop(slab_);
  }

  static Bytes copy_of(std::string_view text);
  // Keeps the string alive inside the slab; no copy of long strings.
  static Bytes adopt(std::string text);
  // Memory that outlives every reader (literals, generated arrays).
  static Bytes constant(std::string_view text) {
    return {nullptr, reinterpret_cast<const std::byte*>(text.data()), text.size()};
  }

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }
  std::span<const std::byte> span() const { return {data_, size_}; }
  const Slab* slab() const { return slab_; }

  // [from, from + n) of this, sharing the slab. The range must lie inside.
  Bytes slice(size_t from, size_t n) const {
    if (slab_) retain(slab_);
    return {slab_, data_ + from, n};
  }
  // A slice given by a view that lies inside this.
  Bytes slice(std::string_view part) const { return slice(size_t(part.data() - view().data()), part.size()); }

 private:
  Slab* slab_ = nullptr;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The one writer of a slab, until it is frozen.
class Block {
 public:
  Block() = default;
  explicit Block(Slab* slab) : slab_(slab) {}
  Block(Block&& o) noexcept : slab_(std::exchange(o.slab_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Block& operator=(Block&& o) noexcept {
    std::swap(slab_, o.slab_), std::swap(size_, o.size_);
    return *this;
  }
  ~Block() {
    if (slab_) drop(slab_);
  }

  explicit operator bool() const { return slab_ != nullptr; }
  std::byte* data() { return slab_->data; }
  size_t size() const { return size_; }
  size_t capacity() const { return slab_ ? slab_->capacity : 0; }
  size_t room() const { return capacity() - size_; }
  void resize(size_t n) { size_ = n; }  // within capacity; the bytes are whatever was there
  // Bytes that lie at the end already stay where they are: somebody has read them to there.
  void append(const void* from, size_t n) {
    if (n > 0 && from != slab_->data + size_) std::memcpy(slab_->data + size_, from, n);  // `from` may be null for none
    size_ += n;
  }
  // The Block is empty afterwards.
  Bytes freeze() {
    size_t n = std::exchange(size_, 0);
    Slab* slab = std::exchange(slab_, nullptr);
    return slab ? Bytes(slab, slab->data, n) : Bytes();
  }

 private:
  Slab* slab_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weir::base
