// Content codings: gzip (RFC 1952) and deflate (RFC 1950) by zlib, inflating with a limit on what comes out.
//
// One place for HTTP bodies (Content-Encoding) and for gRPC messages (grpc-encoding): the names are the same. Inflating
// is stepwise into memory that the caller owns, so that a bomb costs no more than the caller's limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace weir::wire {

enum class Coding : uint8_t { kIdentity, kGzip, kDeflate };

std::string_view name(Coding coding);  // "identity", "gzip", "deflate"
// The coding of that name, in any case ("x-gzip" too; an empty name is identity). Nothing when it is none of ours.
std::optional<Coding> coding_of(std::string_view name);
// The best of ours for an Accept-Encoding or grpc-accept-encoding value (RFC 9110 §12.5.3); gzip before deflate.
Coding choose_coding(std::string_view accept);

// A body below 1 KiB is hardly smaller when it is coded, and costs more than it saves; one above 1 MiB would keep all
// others of its shard waiting (zlib deflates 50 to 150 MB/s).
inline constexpr uint64_t kLeastCoded = 1024, kMostCoded = 1 << 20;
constexpr bool worth_coding(uint64_t bytes) { return bytes >= kLeastCoded && bytes <= kMostCoded; }

struct InflateLimits {
  uint64_t bytes = 64 << 20;  // that may come out
  uint32_t ratio = 100;       // inflated : coded, past the first 512 KiB
};

enum class Inflate : uint8_t {
  kMore,      // all input is taken; more may come
  kFull,      // the output is full; call again with room
  kCorrupt,   // not this coding, a bad checksum, or bytes after the end
  kTooBig,    // past the limit or the ratio
  kNoRoom,    // inflate_whole() only: the SlabSource gave nothing; try again later
  kNoMemory,  // inflate_whole() only: nor will it; do not wait
  kDone,      // inflate_whole() only
};

class Inflater {
 public:
  // `coding` is not kIdentity. "deflate" may be with (as the RFC says) or without (as some send it) the zlib wrapping.
  Inflater(Coding coding, InflateLimits limits);
  ~Inflater();
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;

  // Takes from the front of `in` and writes to the front of `out`; both are cut by what was used.
  Inflate step(std::span<const std::byte>& in, std::span<std::byte>& out);
  // The coded stream has come to its end (for gzip: of a member). Asked when there is no more input.
  bool complete() const;
  // Nothing has been put in.
  bool fresh() const;

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

// A whole coded message into one slab. kDone: `*out` is set; else kCorrupt, kTooBig, kNoRoom or kNoMemory.
Inflate inflate_whole(Coding coding, std::span<const std::byte> in, InflateLimits limits, base::SlabSource& slabs,
                      base::Bytes* out);

// The concatenation of `pieces`, coded for speed (level 1), on the heap. `coding` is not kIdentity.
base::Bytes deflate(Coding coding, std::span<const base::Bytes> pieces);

}  // namespace weir::wire
