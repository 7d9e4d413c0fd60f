#include "base/bus_error_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace weir::base {
namespace {

// An object of shared memory, of zeros, and its mapping.
struct Shared {
  explicit Shared(size_t size) : fd(::memfd_create("guarded", MFD_CLOEXEC)), bytes(size) {
    resize(size);
    begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  ~Shared() {
    ::munmap(begin, bytes);
    ::close(fd);
  }
  void resize(size_t to) const { EXPECT_EQ(::ftruncate(fd, off_t(to)), 0); }
  const int fd;
  const size_t bytes;
  void* begin = nullptr;
};

TEST(BusErrorGuard, PagesThatAreGoneReadAsZerosOnAnyThreadAndTheMappingCountsAsLost) {
  const Shared object(16 << 12);
  {
    BusErrorGuard guard(object.begin, object.bytes);
    auto* bytes = static_cast<volatile char*>(object.begin);
    bytes[15 << 12] = 7;
    EXPECT_EQ(bytes[15 << 12], 7);
    EXPECT_FALSE(guard.lost());
    object.resize(1 << 12);
    std::vector<std::thread> threads;
    for (int page : {15, 3, 9, 5})
      threads.emplace_back([&, page] {
        EXPECT_EQ(bytes[page << 12], 0);
        bytes[page << 12] = 1;
      });
    for (auto& thread : threads) thread.join();
    EXPECT_TRUE(guard.lost());
    EXPECT_EQ(bytes[0], 0);
  }
}

TEST(BusErrorGuardDeathTest, AFaultElsewhereStillEndsTheProcess) {
  const Shared object(4096);
  object.resize(0);
  EXPECT_DEATH(
      {
        char other[64];
        BusErrorGuard guard(other, sizeof other);
        *static_cast<volatile char*>(object.begin) = 1;
      },
      "");
}

}  // namespace
}  // namespace weir::base
