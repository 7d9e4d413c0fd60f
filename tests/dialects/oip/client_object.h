// A shared memory object as a client of the server has it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

namespace weir::oip {

// Created here, and unlinked in the end.
class ClientObject {
 public:
  explicit ClientObject(size_t bytes, std::string name = "weir_test_" + std::to_string(::getpid()))
      : name_("/" + std::move(name)), fd_(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600)) {
    EXPECT_GE(fd_, 0);
    resize(bytes);
  }
  ~ClientObject() {
    ::close(fd_);
    ::shm_unlink(name_.c_str());
  }
  const std::string& key() const { return name_; }
  void resize(size_t bytes) { ASSERT_EQ(::ftruncate(fd_, off_t(bytes)), 0); }
  template <class T>
  void put(size_t offset, std::vector<T> values) {
    size_t bytes = values.size() * sizeof(T);
    ASSERT_EQ(::pwrite(fd_, values.data(), bytes, off_t(offset)), ssize_t(bytes));
  }
  template <class T>
  std::vector<T> get(size_t offset, size_t count) const {
    std::vector<T> out(count);
    EXPECT_EQ(::pread(fd_, out.data(), count * sizeof(T), off_t(offset)), ssize_t(count * sizeof(T)));
    return out;
  }

 private:
  const std::string name_;
  const int fd_;
};

}  // namespace weir::oip
