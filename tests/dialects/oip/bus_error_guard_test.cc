#include "dialects/oip/shared_memory/bus_error_guard.h"

#include <gtest/gtest.h>

#include <thread>

#include "client_object.h"

namespace weir::oip {
namespace {

TEST(BusErrorGuard, PagesThatAreGoneReadAsZerosOnAnyThreadAndTheMappingCountsAsLost) {
  ClientObject object(16 << 12);
  object.put<int>(15 << 12, {7});
  int fd = ::shm_open(object.key().c_str(), O_RDWR, 0);
  void* begin = ::mmap(nullptr, 16 << 12, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  {
    BusErrorGuard guard(begin, 16 << 12);
    auto* bytes = static_cast<volatile char*>(begin);
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
  ::munmap(begin, 16 << 12);
  ::close(fd);
}

TEST(BusErrorGuardDeathTest, AFaultElsewhereStillEndsTheProcess) {
  ClientObject object(4096);
  int fd = ::shm_open(object.key().c_str(), O_RDWR, 0);
  void* begin = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  object.resize(0);
  EXPECT_DEATH(
      {
        char other[64];
        BusErrorGuard guard(other, sizeof other);
        *static_cast<volatile char*>(begin) = 1;
      },
      "");
  ::munmap(begin, 4096);
  ::close(fd);
}

}  // namespace
}  // namespace weir::oip
