#include "base/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace weir::base {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The number that follows `key` at the beginning of a line, else nothing; "max" is none either.
std::optional<uint64_t> number_after(const std::string& text, std::string_view key) {
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    if (text.compare(at, key.size(), key) == 0) {
      size_t from = std::min(text.find_first_not_of(" \t", at + key.size()), text.size());
      uint64_t value = 0;
      auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), value);
      if (error == std::errc()) return value;
    }
    if (text.find('\n', at) == std::string::npos) break;
  }
  return {};
}

// The files of one version of cgroups: in a folder, a limit, one past which the group is slowed down, the bytes in use,
// and the page cache among them.
struct Files {
  const char *mount, *limit, *slowed, *usage, *cache;
};
constexpr Files kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", nullptr, "memory.usage_in_bytes",
                          "total_inactive_file"};
constexpr Files kVersion2{"/sys/fs/cgroup", "memory.max", "memory.high", "memory.current", "inactive_file"};

uint64_t number_in(const std::string& file) { return number_after(contents(file), "").value_or(UINT64_MAX); }

uint64_t left_in(const std::string& folder, const Files& files) {
  uint64_t limit = number_in(folder + files.limit);
  const uint64_t usage = number_in(folder + files.usage);
  if (files.slowed) limit = std::min(limit, number_in(folder + files.slowed));
  if (limit == UINT64_MAX || usage == UINT64_MAX) return UINT64_MAX;
  uint64_t cache = number_after(contents(folder + "memory.stat"), files.cache).value_or(0);
  uint64_t used = usage - std::min(usage, cache);
  return limit - std::min(limit, used);
}

// The group's and those above it. In a container the path may be the host's, of which only the root is mounted.
uint64_t left_in_groups(const std::string& root, std::string path, const Files& files) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    if (path.empty() || path.back() != '/') path += '/';
    least = std::min(least, left_in(root + files.mount + path, files));
    if (path == "/") return least;
    path.pop_back();
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  }
}

// Bytes of the block that have pages; all of it where the system does not say.
uint64_t resident(std::span<const std::byte> block) {
  constexpr size_t kPiece = size_t(64) << 20;
  const auto page = size_t(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(block.data()) / page * page;
  auto end = reinterpret_cast<uintptr_t>(block.data() + block.size());
  std::vector<unsigned char> there(kPiece / page + 1);
  uint64_t pages = 0;
  for (auto at = begin; at < end; at += kPiece) {
    size_t bytes = std::min<size_t>(kPiece, end - at), count = (bytes + page - 1) / page;
    if (::mincore(reinterpret_cast<void*>(at), bytes, there.data()) != 0) return block.size();
    pages += uint64_t(std::count_if(there.begin(), there.begin() + ptrdiff_t(count), [](auto p) { return p & 1; }));
  }
  return std::min<uint64_t>(pages * page, block.size());
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  uint64_t least = UINT64_MAX;
  if (auto kib = number_after(contents(root + "/proc/meminfo"), "MemAvailable:")) least = *kib * 1024;
  std::stringstream groups(contents(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    size_t names = line.find(':'), path = names == line.npos ? line.npos : line.find(':', names + 1);
    if (path == line.npos) continue;
    auto controllers = ',' + line.substr(names + 1, path - names - 1) + ',';
    if (controllers == ",,") least = std::min(least, left_in_groups(root, line.substr(path + 1), kVersion2));
    if (controllers.find(",memory,") != controllers.npos)
      least = std::min(least, left_in_groups(root, line.substr(path + 1), kVersion1));
  }
  return least;
}

HostMemory::Reservation::~Reservation() {
  if (!memory_) return;
  std::lock_guard lock(memory_->mutex_);
  memory_->promises_.erase(at_);
}

uint64_t HostMemory::Reservation::bytes() const { return memory_ ? at_->bytes : 0; }

void HostMemory::Reservation::covers(std::span<const std::byte> block) {
  if (!memory_) return;
  std::lock_guard lock(memory_->mutex_);
  *at_ = {block.size(), block};
}

uint64_t HostMemory::free_locked() const {
  uint64_t left = available_memory(root_);
  if (left == UINT64_MAX) return left;
  for (const auto& promise : promises_) {
    uint64_t taken = promise.block.empty() ? 0 : resident(promise.block);
    left -= std::min(left, promise.bytes - std::min(promise.bytes, taken));
  }
  return left;
}

uint64_t HostMemory::free() const {
  std::lock_guard lock(mutex_);
  return free_locked();
}

HostMemory::Reservation HostMemory::reserve_part(uint64_t most) {
  std::lock_guard lock(mutex_);
  return {*this, promises_.insert(promises_.end(), {std::min(most, free_locked() / 2), {}})};
}

HostMemory::Reservation HostMemory::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return {*this, promises_.insert(promises_.end(), {bytes, {}})};
}

}  // namespace weir::base
