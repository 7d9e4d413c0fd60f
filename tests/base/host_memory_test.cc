// Free memory as the system's files say it, and promises of it.
#include "base/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weir::base {
namespace {

constexpr uint64_t kGiB = uint64_t(1) << 30;

// A folder in place of the system's root.
class Root {
 public:
  Root() { std::filesystem::create_directories(path_); }
  ~Root() { std::filesystem::remove_all(path_); }
  void write(const std::string& file, const std::string& text) const {
    auto path = std::filesystem::path(path_) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void available(uint64_t bytes) const {
    write("proc/meminfo", "MemTotal:       99999999 kB\nMemAvailable:   " + std::to_string(bytes / 1024) + " kB\n");
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_ = testing::TempDir() + "host_memory_" + std::to_string(::getpid());
};

TEST(AvailableMemory, IsWhatTheSystemSaysWhereNothingLimitsIt) {
  Root root;
  EXPECT_EQ(available_memory(root.path()), UINT64_MAX) << "nothing is known";
  root.available(8 * kGiB);
  EXPECT_EQ(available_memory(root.path()), 8 * kGiB);
  root.write("proc/self/cgroup", "0::/user.slice\n");
  root.write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  root.write("sys/fs/cgroup/user.slice/memory.current", "100\n");
  EXPECT_EQ(available_memory(root.path()), 8 * kGiB);
}

TEST(AvailableMemory, GroupsOfVersion2AndThoseAboveThemLimitIt) {
  Root root;
  root.available(8 * kGiB);
  root.write("proc/self/cgroup", "0::/pods/one\n");
  root.write("sys/fs/cgroup/pods/one/memory.max", std::to_string(4 * kGiB) + "\n");
  root.write("sys/fs/cgroup/pods/one/memory.current", std::to_string(2 * kGiB) + "\n");
  root.write("sys/fs/cgroup/pods/one/memory.stat", "anon 5\ninactive_file " + std::to_string(kGiB) + "\nslab 7\n");
  EXPECT_EQ(available_memory(root.path()), 3 * kGiB) << "page cache goes when memory is wanted";
  root.write("sys/fs/cgroup/pods/memory.max", std::to_string(6 * kGiB) + "\n");
  root.write("sys/fs/cgroup/pods/memory.current", std::to_string(5 * kGiB) + "\n");
  EXPECT_EQ(available_memory(root.path()), kGiB);
  root.write("sys/fs/cgroup/pods/memory.current", std::to_string(7 * kGiB) + "\n");
  EXPECT_EQ(available_memory(root.path()), 0u);
}

TEST(AvailableMemory, AGroupThatIsSlowedDownBeforeItsLimitHasWhatIsLeftBeforeThat) {
  Root root;
  root.available(8 * kGiB);
  root.write("proc/self/cgroup", "0::/pods/one\n");
  root.write("sys/fs/cgroup/pods/one/memory.max", "max\n");
  root.write("sys/fs/cgroup/pods/one/memory.high", std::to_string(3 * kGiB) + "\n");
  root.write("sys/fs/cgroup/pods/one/memory.current", std::to_string(kGiB) + "\n");
  EXPECT_EQ(available_memory(root.path()), 2 * kGiB);
  root.write("sys/fs/cgroup/pods/one/memory.max", std::to_string(2 * kGiB) + "\n");
  EXPECT_EQ(available_memory(root.path()), kGiB);
}

// Version 2 is mounted beside version 1, and knows no controller of memory: that is version 1's.
TEST(AvailableMemory, WhereBothVersionsAreMountedTheOneWithTheControllerLimitsIt) {
  Root root;
  root.available(8 * kGiB);
  root.write("proc/self/cgroup", "4:memory:/docker/1/deep\n0::/docker/1\n");
  root.write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", std::to_string(3 * kGiB) + "\n");
  root.write("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", std::to_string(kGiB) + "\n");
  root.write("sys/fs/cgroup/memory/docker/1/deep/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/docker/1/deep/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(available_memory(root.path()), 2 * kGiB) << "the group's parent";
}

TEST(AvailableMemory, GroupsOfVersion1LimitItToo) {
  Root root;
  root.available(8 * kGiB);
  root.write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/1\n1:name=systemd:/b\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(3 * kGiB) + "\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kGiB) + "\n");
  EXPECT_EQ(available_memory(root.path()), 2 * kGiB) << "a container sees its own group as the root";
  root.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(kGiB) + "\n");
  EXPECT_EQ(available_memory(root.path()), 3 * kGiB);
}

TEST(AvailableMemory, IsKnownHere) { EXPECT_GT(available_memory(), uint64_t(1) << 20); }

TEST(HostMemory, EveryPartIsHalfOfWhatIsLeft) {
  Root root;
  root.available(8 * kGiB);
  HostMemory memory(root.path());
  {
    auto first = memory.reserve_part(100 * kGiB), second = memory.reserve_part(100 * kGiB);
    EXPECT_EQ(first.bytes(), 4 * kGiB);
    EXPECT_EQ(second.bytes(), 2 * kGiB);
    auto small = memory.reserve_part(kGiB / 2);
    EXPECT_EQ(small.bytes(), kGiB / 2);
    EXPECT_EQ(memory.free(), 3 * kGiB / 2);
    auto asked = memory.reserve(9 * kGiB);
    EXPECT_EQ(memory.free(), 0u);
    auto moved = std::move(asked);
    EXPECT_EQ(asked.bytes(), 0u);
    EXPECT_EQ(moved.bytes(), 9 * kGiB);
  }
  EXPECT_EQ(memory.free(), 8 * kGiB);
}

// The system counts those pages already.
TEST(HostMemory, PagesThatAreTakenArePromisedNoMore) {
  Root root;
  root.available(kGiB);
  HostMemory memory(root.path());
  constexpr size_t kBlock = size_t(64) << 20;
  auto* block = static_cast<std::byte*>(
      ::mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(block, MAP_FAILED);
  ::madvise(block, kBlock, MADV_NOHUGEPAGE);
  {
    auto part = memory.reserve_part(kBlock * 2);
    EXPECT_EQ(memory.free(), kGiB - 2 * kBlock);
    part.covers({block, kBlock});
    EXPECT_EQ(memory.free(), kGiB - kBlock);
    for (size_t at = 0; at < kBlock / 2; at += 4096) block[at] = std::byte(1);
    EXPECT_EQ(memory.free(), kGiB - kBlock / 2);
  }
  ::munmap(block, kBlock);
}

}  // namespace
}  // namespace weir::base
