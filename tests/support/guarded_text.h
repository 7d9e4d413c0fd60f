// A text behind whose last byte a page begins that nobody may read: a parser that looks one byte too far ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

namespace weir::support {

class GuardedText {
 public:
  explicit GuardedText(std::string_view text) : page_(size_t(::sysconf(_SC_PAGESIZE))) {
    room_ = (text.size() + page_ - 1) / page_ * page_;
    void* memory = ::mmap(nullptr, room_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<char*>(memory);
    ::mprotect(base_ + room_, page_, PROT_NONE);
    text_ = {base_ + room_ - text.size(), text.size()};
    if (!text.empty()) std::memcpy(base_ + room_ - text.size(), text.data(), text.size());
  }
  ~GuardedText() { ::munmap(base_, room_ + page_); }
  GuardedText(const GuardedText&) = delete;
  GuardedText& operator=(const GuardedText&) = delete;

  std::string_view view() const { return text_; }

 private:
  size_t page_, room_;
  char* base_;
  std::string_view text_;
};

}  // namespace weir::support
