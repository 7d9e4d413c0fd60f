// Memory: a block of zeros that begins on a cache line, of large pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace weir::llm {

class Memory {
 public:
  Memory() = default;
  // Null data when there is no memory. Pages are taken when they are first written to.
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(Memory&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Memory& operator=(Memory&& o) noexcept {
    std::swap(data_, o.data_), std::swap(size_, o.size_);
    return *this;
  }

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weir::llm
