// POSIX shared memory objects (shm_open(3)) as regions.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bus_error_guard.h"
#include "base/encoding.h"
#include "dialects/oip/shared_memory/shared_region.h"

namespace weir::oip {
namespace {

using base::Code;
using base::failure;
using base::invalid;
using base::Status;

constexpr size_t kLongestKey = 255;  // NAME_MAX

class ObjectFd {
 public:
  explicit ObjectFd(int fd) : fd_(fd) {}
  ObjectFd(ObjectFd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  ~ObjectFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class ObjectMapping {
 public:
  ObjectMapping(void* begin, size_t bytes) : begin_(static_cast<std::byte*>(begin)), bytes_(bytes) {}
  ObjectMapping(const ObjectMapping&) = delete;
  // By parts: other threads that map or unmap something wait while one goes.
  ~ObjectMapping() {
    constexpr size_t kPart = size_t(8) << 20;
    for (size_t at = 0; at < bytes_; at += kPart) ::munmap(begin_ + at, std::min(kPart, bytes_ - at));
  }

 private:
  std::byte* const begin_;
  const size_t bytes_;
};

class SystemRegion final : public SharedRegion {
 public:
  SystemRegion(RegionRecord record, ObjectFd fd, void* begin, size_t bytes)
      : SharedRegion(std::move(record)),
        fd_(std::move(fd)),
        mapping_(begin, bytes),
        guard_(begin, bytes),
        data_(static_cast<std::byte*>(begin) + (bytes - size_t(this->record().bytes))) {}

  bool guarded() const { return bool(guard_); }
  base::Result<std::optional<base::Bytes>> alias(uint64_t offset, uint64_t bytes) override;
  Status read(uint64_t offset, std::span<std::byte> to) override;
  Status write(uint64_t offset, std::span<const std::byte> from) override;
  Status intact() const override { return guard_.lost() ? lost() : Status(); }

 private:
  Status check() const;

  const ObjectFd fd_;
  const ObjectMapping mapping_;  // unmapped after the guard has gone
  const base::BusErrorGuard guard_;
  std::byte* const data_;
};

// A slab that is a part of a region.
struct RegionSlab final : base::Slab {
  RegionSlab(std::byte* at, size_t bytes, std::shared_ptr<SharedRegion> r)
      : Slab(at, bytes, [](Slab* slab) { delete static_cast<RegionSlab*>(slab); }), region(std::move(r)) {}

  const std::shared_ptr<SharedRegion> region;
};

base::Result<uint64_t> size_of_object(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return invalid("it is no shared memory object");
  return uint64_t(st.st_size);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestKey && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

// The object still has the region, and the mapping is still of it.
Status SystemRegion::check() const {
  if (guard_.lost()) return lost();
  auto size = size_of_object(fd_.get());
  const RegionRecord& r = record();
  return size && r.offset + r.bytes <= *size ? Status() : lost();
}

base::Result<std::optional<base::Bytes>> SystemRegion::alias(uint64_t offset, uint64_t bytes) {
  if (Status status = check(); !status.ok()) return status;
  auto* slab = new RegionSlab(data_ + offset, bytes, shared_from_this());
  return std::optional<base::Bytes>(base::Bytes(slab, slab->data, bytes));
}

Status SystemRegion::read(uint64_t offset, std::span<std::byte> to) {
  if (Status status = check(); !status.ok()) return status;
  uint64_t at = record().offset + offset;
  while (!to.empty()) {
    const ssize_t n = ::pread(fd_.get(), to.data(), to.size(), off_t(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return lost();
    to = to.subspan(size_t(n)), at += uint64_t(n);
  }
  return {};
}

// Source and target may overlap: an engine that passes its input on has made a tensor of the same region.
Status SystemRegion::write(uint64_t offset, std::span<const std::byte> from) {
  if (Status status = check(); !status.ok()) return status;
  if (!from.empty()) std::memmove(data_ + offset, from.data(), from.size());
  return intact();
}

// O_NONBLOCK: neither a FIFO's writer nor the holder of a lease on the file is waited for.
ObjectFd open_object(const std::string& name) {
  return ObjectFd(::shm_open(("/" + name).c_str(), O_RDWR | O_NONBLOCK, 0));
}

Status not_opened(const RegionRecord& record, int error) {
  if (error == EMFILE || error == ENFILE || error == ENOMEM)
    return base::try_again(Code::kResourceExhausted, "the server has no room for another shared memory region");
  return failure(Code::kInternal, "Unable to open shared memory region: '" + record.key + "'");
}

Status refused(const RegionRecord& record, const std::string& why) {
  return invalid("failed to register shared memory region '" + record.name + "': invalid args: " + why);
}

Status check_range(const RegionRecord& record, uint64_t size) {
  if (record.bytes == 0) return refused(record, "byte_size is 0");
  if (record.offset <= size && record.bytes <= size - record.offset) return {};
  return refused(record,
                 "offset and byte_size reach beyond the " + std::to_string(size) + " bytes of '" + record.key + "'");
}

}  // namespace

Status SharedRegion::lost() const {
  return failure(Code::kFailedPrecondition, "shared memory region '" + record_.name +
                                                "' has lost memory since it was registered: its object was made "
                                                "smaller, or could not grow; register it again");
}

bool may_alias(msg::DType dtype) {
  using msg::DType;
  switch (dtype) {
    case DType::kFp16:
    case DType::kBf16:
    case DType::kFp32:
    case DType::kFp64:
    case DType::kUint8:
    case DType::kInt8:
    case DType::kUint16:
    case DType::kInt16: return true;
    default: return false;
  }
}

base::Result<std::unique_ptr<SharedRegion>> map_system_region(RegionRecord record) {
  std::string name = record.key.substr(record.key.starts_with('/') ? 1 : 0);
  if (!is_plain_name(name))
    return refused(record,
                   "'key' is the name of a POSIX shared memory object: '/' and up to 255 characters without '/'");
  ObjectFd fd = open_object(name);
  if (fd.get() < 0) return not_opened(record, errno);
  auto size = size_of_object(fd.get());
  if (!size) return refused(record, "'" + record.key + "' is no shared memory object");
  if (Status status = check_range(record, *size); !status.ok()) return status;
  const auto page = uint64_t(::sysconf(_SC_PAGESIZE));
  const uint64_t start = record.offset / page * page;
  const auto bytes = size_t(record.offset - start + record.bytes);
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), off_t(start));
  if (begin == MAP_FAILED)
    return base::try_again(Code::kResourceExhausted,
                           "the server cannot map shared memory region '" + record.name + "': " + std::strerror(errno));
  auto region = std::make_unique<SystemRegion>(std::move(record), std::move(fd), begin, bytes);
  if (region->guarded()) return std::unique_ptr<SharedRegion>(std::move(region));
  return base::try_again(Code::kResourceExhausted, "the server has no room for another shared memory region");
}

}  // namespace weir::oip
