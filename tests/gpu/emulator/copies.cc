// Asynchronous copies into shared memory, and whether products may read what they have brought.
#include <algorithm>
#include <cstring>
#include <vector>

#include "async.h"

namespace emulator {
namespace {

constexpr size_t kChunk = 16;             // bytes that products read together
constexpr uint32_t kFirstAddress = 1040;  // of dynamic shared memory: as little aligned as it may be

struct Copy {
  void* to;
  const void* from;
  size_t bytes, room;
  uint32_t group;
};
struct Copier {
  std::vector<Copy> copies;
  uint32_t groups = 0;  // committed
  std::vector<size_t> unfenced;
};

// One launch runs at a time.
std::vector<Copier> copiers;     // by thread of the block
std::byte* shared = nullptr;     // the block's
std::vector<char> not_readable;  // chunks of it, for products
bool hopper = false;

Copier& mine() { return copiers[current_thread()]; }

size_t chunk_of(const void* at) {
  auto* byte = static_cast<const std::byte*>(at);
  const auto chunk = size_t(byte - shared) / kChunk;
  return byte < shared ? not_readable.size() : std::min(chunk, not_readable.size());
}

void mark(const void* at, char how) {
  if (const size_t chunk = chunk_of(at); chunk < not_readable.size()) not_readable[chunk] = how;
}

}  // namespace

void begin_async(uint32_t threads, std::byte* memory, size_t bytes) {
  copiers.assign(threads, {});
  shared = memory;
  not_readable.assign(bytes / kChunk, 0);
  hopper = false;
  begin_products(threads);
}

std::string left_by(uint32_t thread) {
  if (!copiers[thread].copies.empty()) return "copies that nobody waits for";
  return has_products(thread) ? "products that nobody waits for" : "";
}

bool is_for_hopper() { return hopper; }

void copy_async(void* to, const void* from, size_t bytes, Where where, size_t room) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % room)
    fail(where, room == kChunk ? "a copy of 16 unaligned" : "a copy of 8 unaligned");
  if (bytes > 0) (void)*static_cast<const volatile std::byte*>(from);  // is noticed where it is hidden
  std::memset(to, 0xff, room);
  mark(to, 1);
  mine().copies.push_back({to, from, bytes, room, mine().groups});
}

void commit_copies() { ++mine().groups; }

void wait_copies(uint32_t but_the_last) {
  Copier& copier = mine();
  std::erase_if(copier.copies, [&](const Copy& c) {
    if (c.group + but_the_last >= copier.groups) return false;
    std::memcpy(c.to, c.from, c.bytes);
    std::memset(static_cast<std::byte*>(c.to) + c.bytes, 0, c.room - c.bytes);
    copier.unfenced.push_back(chunk_of(c.to));
    return true;
  });
}

void fence_copies() {
  for (size_t chunk : mine().unfenced)
    if (chunk < not_readable.size()) not_readable[chunk] = 0;
  mine().unfenced.clear();
}

uint32_t shared_address(const void* at, Where where) {
  hopper = true;
  auto* byte = static_cast<const std::byte*>(at);
  if (byte < shared || byte > shared + not_readable.size() * kChunk)
    fail(where, "an address that is not in dynamic shared memory");
  return kFirstAddress + uint32_t(byte - shared);
}

const std::byte* shared_chunk(uint32_t address, Where where) {
  const size_t chunk = (size_t(address) - kFirstAddress) / kChunk;
  if (address < kFirstAddress || chunk >= not_readable.size()) fail(where, "a matrix that lies beyond shared memory");
  if (not_readable[chunk]) fail(where, "a matrix whose copies are under way, or not fenced");
  return shared + chunk * kChunk;
}

}  // namespace emulator
