// Memory of small things that come and go with each request, kept for the next one instead of going back to the
// allocator: objects of one class (Recycled), and what vectors and strings have grown to (Spares).
//
// Each thread keeps a few of each kind, so the memory is bounded by the number of kinds and threads and belongs to
// nobody's share. What is given back on another thread stays there. With AddressSanitizer nothing is kept, so that it
// sees what is used after its end.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace weir::base {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kRecycles = false;
#else
inline constexpr bool kRecycles = true;
#endif

// How many are kept of each kind: a turn of a busy shard has so many requests under way.
inline constexpr size_t kRecycled = 256;

// Up to kMost values of one thread; the last one to come is the first to go. One object of a type in each thread.
template <class T, size_t kMost>
class Stack {
 public:
  Stack() = default;
  ~Stack() { ended_ = true; }
  Stack(const Stack&) = delete;

  // A thread that ends has nothing and takes nothing, whatever its other objects do on their way.
  bool empty() const { return ended_ || size_ == 0; }
  bool has_room() const { return kRecycles && !ended_ && size_ < kMost; }
  void push(T value) { values_[size_++] = std::move(value); }
  T pop() { return std::move(values_[--size_]); }

 private:
  // No member: what a destructor writes into its own object may be left out.
  inline static thread_local bool ended_ = false;

  std::array<T, kMost> values_{};
  size_t size_ = 0;
};

// Base of a class whose objects are made by new: class X : Recycled<X>.
template <class T>
class Recycled {
 public:
  static void* operator new(size_t bytes) {
    auto& blocks = kept();
    return bytes == sizeof(T) && !blocks.empty() ? blocks.pop().release() : ::operator new(bytes);
  }
  static void operator delete(void* block, size_t bytes) {
    auto& blocks = kept();
    if (bytes == sizeof(T) && blocks.has_room())
      blocks.push(Block(block));
    else
      ::operator delete(block);
  }

 protected:
  ~Recycled() = default;

 private:
  class Block {
   public:
    Block() = default;
    explicit Block(void* at) : at_(at) {}
    Block(Block&& o) noexcept : at_(o.release()) {}
    Block& operator=(Block&& o) noexcept {
      std::swap(at_, o.at_);
      return *this;
    }
    ~Block() { ::operator delete(at_); }
    void* release() { return std::exchange(at_, nullptr); }

   private:
    void* at_ = nullptr;
  };
  static auto& kept() {
    thread_local Stack<Block, kRecycled> blocks;
    return blocks;
  }
};

// Vectors and strings of one type: what they hold ends with them, what they have grown to is kept.
template <class Container>
class Spares {
 public:
  // An empty one, perhaps with capacity.
  static Container take() {
    auto& all = kept();
    return all.empty() ? Container() : all.pop();
  }
  // Takes what `done` has grown to, unless that is large. It is empty afterwards.
  static void keep(Container&& done) {
    constexpr size_t kLargest = 4096;  // bytes
    Container ended = std::move(done);
    const size_t bytes = ended.capacity() * sizeof(typename Container::value_type);
    auto& all = kept();
    if (bytes < kLeast || bytes > kLargest || !all.has_room()) return;
    ended.clear();
    all.push(std::move(ended));
  }

 private:
  static constexpr size_t kLeast = 16;  // a string's own place is nothing to keep
  static auto& kept() {
    thread_local Stack<Container, kRecycled> all;
    return all;
  }
};
using SpareText = Spares<std::string>;
template <class T>
using SpareVector = Spares<std::vector<T>>;

}  // namespace weir::base
