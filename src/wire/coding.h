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
#include <utility>

#include "base/bytes.h"
#include "base/env.h"
#include "base/memory_ledger.h"
#include "wire/growing_block.h"
#include "wire/snappy.h"

namespace weir::wire {

// kSnappy: of whole messages alone, and never of ours; no name of HTTP's or gRPC's stands for it.
enum class Coding : uint8_t { kIdentity, kGzip, kDeflate, kSnappy };

std::string_view name(Coding coding);  // "identity", "gzip", "deflate", "x-snappy-raw"
// The coding of that name, in any case ("x-gzip" too; an empty name is identity). Nothing when it is none of ours.
std::optional<Coding> coding_of(std::string_view name);
// The best of ours for an Accept-Encoding or grpc-accept-encoding value (RFC 9110 §12.5.3); gzip before deflate.
Coding choose_coding(std::string_view accept);

// A body below 1 KiB is hardly smaller when it is coded, and costs more than it saves; one above 320 KiB would keep all
// others of its shard waiting (zlib deflates 50 to 150 MB/s): it is coded by a worker or goes out as it is. gRPC's
// interoperability tests want an answer of 314,159 bytes compressed.
inline constexpr uint64_t kLeastCoded = 1024, kMostCoded = 320 << 10;
constexpr bool worth_coding(uint64_t bytes) { return bytes >= kLeastCoded && bytes <= kMostCoded; }

struct InflateLimits {
  uint64_t bytes = 64 << 20;  // that may come out; little more may go in
  uint32_t ratio = 100;       // inflated : coded, past the first 512 KiB
};

enum class Inflate : uint8_t {
  kMore,       // all input is taken; more may come. Of a WholeInflater: there is more to do, in another turn
  kFull,       // the output is full; call again with room
  kCorrupt,    // not this coding, a bad checksum, or bytes after the end
  kTooBig,     // past the limit
  kOverRatio,  // past the ratio
  kNoRoom,     // whole messages only: the SlabSource gave nothing; try again later
  kNoMemory,   // whole messages only: nor will it; do not wait
  kDone,       // whole messages only
};

class Inflater {
 public:
  // `coding` is kGzip or kDeflate. "deflate" may be with (as the RFC says) or without (as some send it) the zlib
  // wrapping.
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

// How many bytes are inflated in one turn of a loop: 0.5 to 2 ms. Few, because memory that nobody has touched is made
// meanwhile: a huge page takes 0.2 ms, and as long as 10 ms where a hypervisor has to find it.
inline constexpr size_t kInflateSlice = size_t(512) << 10;
// A coded byte may cost as much as so many bytes that come out: Huffman tables that nothing is coded with take 60 ns
// for each of their bytes.
inline constexpr size_t kInflatedPerCoded = 8;
// Bytes that move into a larger slab in the time of one that is inflated.
inline constexpr size_t kMovedPerInflated = kMovedSlice / kInflateSlice;

// Inflates from the front of `in` to the end of what `block` has, whose room is not made larger. `left` says how much
// may be done, in bytes that come out, and is cut by what was done: also by kInflatedPerCoded for each byte taken from
// `in`. As Inflater::step(), but kMore may leave some of `in` when nothing is left to do.
Inflate inflate_into(Inflater& inflater, GrowingBlock& block, std::span<const std::byte>& in, size_t& left);

// The memory of an Inflater (zlib.h: a window of 32 KiB, and about 7 KiB), to be charged by its owner.
inline constexpr uint64_t kInflaterBytes = 48 << 10;

// A slice that several bodies share, because one read may bring parts of many.
struct InflateShare {
  size_t left = kInflateSlice;
  base::Time turn{};  // to which it belongs

  void enter(base::Time now) {
    if (turn != now) turn = now, left = kInflateSlice;
  }
};

// A whole coded message into one slab, a slice at a time.
class WholeInflater {
 public:
  WholeInflater(Coding coding, base::Bytes coded, InflateLimits limits)
      : coding_(coding), coded_(std::move(coded)), limits_(limits) {}
  // kMore: go on in another turn, having inflated kInflateSlice or moved kMovedSlice. kDone: `*out` is set. At kNoRoom
  // it has let go of its slab, so that no two wait for each other's, and begins anew with the next call.
  Inflate step(base::SlabSource& slabs, base::Bytes* out);

 private:
  bool begin(base::SlabSource& slabs);
  Inflate widen(base::SlabSource& slabs);
  Inflate step_snappy(base::SlabSource& slabs, base::Bytes* out);

  const Coding coding_;
  const base::Bytes coded_;
  const InflateLimits limits_;
  std::optional<Inflater> inflater_;
  std::optional<SnappyDecoder> snappy_;
  base::MemoryCharge charge_;      // for it
  std::span<const std::byte> in_;  // what is left of the coded bytes
  GrowingBlock block_;
};

// A whole coded message into one slab, at once. kDone: `*out` is set; else kCorrupt, kTooBig, kOverRatio, kNoRoom or
// kNoMemory.
Inflate inflate_whole(Coding coding, std::span<const std::byte> in, InflateLimits limits, base::SlabSource& slabs,
                      base::Bytes* out);

// The concatenation of `pieces`, coded for speed (level 1), on the heap. `coding` is not kIdentity.
base::Bytes deflate(Coding coding, std::span<const base::Bytes> pieces);

}  // namespace weir::wire
