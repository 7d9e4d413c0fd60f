// SharedRegion: memory that a client shares with the server under a name, for inputs and outputs that do not travel
// through the connection (the protocol's system and CUDA shared memory extensions).
//
// The client may write to the memory while the server reads it, and shrink or unlink its object. Therefore
//   - every use looks at the object's size first, and asks intact() afterwards (base/bus_error_guard.h);
//   - a tensor is the mapped memory itself only where no value of it can be an address: floats, and whole numbers of 8
//     and 16 bits. 32 and 64 bits wide ones (indices, which a kernel checks before it uses them), BOOL and BYTES are
//     copied once, by pread(), so that what was checked is what is used.
// A region lives while anybody uses it: unregistering it takes its name away, and it is unmapped when the last tensor
// that lies in it has gone (SharedRegions says where). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/tensor.h"

namespace weir::oip {

enum class RegionKind : uint8_t { kSystem, kCuda };

// As the client has registered it.
struct RegionRecord {
  RegionKind kind = RegionKind::kSystem;
  std::string name;
  std::string key;      // of the shared memory object; kSystem
  uint64_t offset = 0;  // of the region in the object; kSystem
  uint64_t device = 0;  // kCuda
  uint64_t bytes = 0;
};

class SharedRegion : public std::enable_shared_from_this<SharedRegion> {
 public:
  explicit SharedRegion(RegionRecord record) : record_(std::move(record)) {}
  virtual ~SharedRegion() = default;
  SharedRegion(const SharedRegion&) = delete;

  const RegionRecord& record() const { return record_; }

  // [offset, offset + bytes) lies in the region for all that follow. Errors: FAILED_PRECONDITION when the memory behind
  // it has gone.
  //
  // The memory itself, which keeps the region; nothing where the processor cannot read it.
  virtual base::Result<std::optional<base::Bytes>> alias(uint64_t offset, uint64_t bytes) = 0;
  virtual base::Status read(uint64_t offset, std::span<std::byte> to) = 0;
  virtual base::Status write(uint64_t offset, std::span<const std::byte> from) = 0;
  // Whether all that was used of it until now was there.
  virtual base::Status intact() const = 0;

 protected:
  base::Status lost() const;

 private:
  const RegionRecord record_;
};

// A part of a region, as a request names it.
struct RegionRange {
  std::string region;
  uint64_t offset = 0, bytes = 0;
  std::shared_ptr<SharedRegion> memory;  // once SharedRegions has found it
};

// Opens the POSIX shared memory object `record.key` and maps the region. Errors: INVALID_ARGUMENT for a key that is no
// plain name, for anything but a regular object, and for a range that it does not have; INTERNAL, in the words that
// Triton's clients know, for an object that cannot be opened; RESOURCE_EXHAUSTED.
base::Result<std::unique_ptr<SharedRegion>> map_system_region(RegionRecord record);

// Whether a tensor of that type may be the client's memory itself.
bool may_alias(msg::DType dtype);

}  // namespace weir::oip
