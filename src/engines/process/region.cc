#include "engines/process/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>

namespace weir::process {
namespace {

constexpr uint64_t kLeastRegion = 64 << 10, kMostRegion = uint64_t(1) << 40;

base::Status no_region(std::string_view what) {
  return base::try_again(base::Code::kResourceExhausted,
                         "no memory to share with a model's process: " + std::string(what));
}

}  // namespace

base::Result<Region> Region::make(uint64_t bytes, base::MemoryLedger* ledger) {
  if (bytes > kMostRegion) return no_region("it asks for too much");
  Region region;
  uint64_t size = std::bit_ceil(std::max(bytes, kLeastRegion));
  if (ledger) region.charge_ = base::MemoryCharge(*ledger, base::MemoryKind::kProcesses);
  if (!region.charge_.grow(size)) return no_region(ledger->shortage());
  region.fd_ = ::memfd_create("weir-tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (region.fd_ < 0 || ::ftruncate(region.fd_, off_t(size)) != 0 ||
      ::fcntl(region.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return no_region(std::generic_category().message(errno));
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd_, 0);
  if (data == MAP_FAILED) return no_region(std::generic_category().message(errno));
  region.data_ = static_cast<std::byte*>(data), region.size_ = size;
  return region;
}

Region::~Region() {
  if (data_) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace weir::process
