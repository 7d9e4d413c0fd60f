// SharedRegion: one of the two regions that a child has of the server, and how much of it was needed lately.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/memory_ledger.h"
#include "base/status.h"
#include "engines/process/child.h"
#include "engines/process/protocol.h"
#include "engines/process/region.h"

namespace weir::process {

class SharedRegion {
 public:
  static constexpr uint64_t kFirst = 1 << 20;  // bytes, of the first one and at least

  // `type`: kInputRegion or kOutputRegion.
  SharedRegion(Type type, base::MemoryLedger* ledger) : type_(type), ledger_(ledger) {}

  // Sends the child a region of so many bytes at least, or of all that was needed lately, in place of the one before.
  // Errors: RESOURCE_EXHAUSTED, and the one before stays; UNAVAILABLE.
  base::Status make(Child& child, uint64_t bytes);
  void note_use(uint64_t bytes) {
    if (bytes > used_) used_ = bytes;
  }
  // Replaces a region that has at least twice the room that was needed since the last call, if there is memory. The
  // server and the child must have no use for what is in it.
  void shrink(Child& child);

  std::byte* data() const { return region_.data(); }
  size_t size() const { return region_.size(); }
  bool has(uint64_t offset, uint64_t bytes) const { return region_.has(offset, bytes); }

 private:
  const Type type_;
  base::MemoryLedger* const ledger_;
  Region region_;
  uint64_t used_ = 0;  // bytes, at most, since shrink()
};

}  // namespace weir::process
