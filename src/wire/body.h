// BodyCollector: the pieces of a request body, inflated if they are coded, into one slab.
//
// Used by every codec for BodyPlan::kWhole. The slab grows by what has come of the Content-Length (wire/body_growth.h);
// where the length is not known (chunked, coded) it grows by doubling. It takes every
// piece that it is given: when the SlabSource has no room it keeps the piece aside and says kStalled; the codec then
// holds its peer back (so that little is kept aside), waits in line (wire/body_memory.h) and calls retry(). It says the
// same when it has inflated kInflateSlice since the last retry(), or has more than kMovedSlice to move into a larger
// slab; then it is paused(), waits in no line, and retry() must come in the next turn of the loop. What is kept aside
// is charged to the ledger of the SlabSource; where that has no room either, the body is refused at once (kNoMemory).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/memory_ledger.h"
#include "wire/body_memory.h"
#include "wire/coding.h"
#include "wire/growing_block.h"

namespace weir::wire {

// The texts of errors that clients read.
inline constexpr std::string_view kOverRatioText =
    "the request body inflates to more than limits.inflate_ratio times its size";
inline constexpr std::string_view kUnknownCodingText = "unknown Content-Encoding; gzip and deflate are supported";
inline constexpr std::string_view kCorruptText = "the request body is not in its Content-Encoding";
inline constexpr std::string_view kNoMemoryForBody = "there is no memory for the request body; try again later";

class BodyCollector {
 public:
  enum class State : uint8_t {
    kOpen,
    kStalled,    // waits for a slab, or for the next turn
    kDone,       // after end(): take() it
    kTooBig,     // more than the limit: 413
    kOverRatio,  // more than the limit's ratio times the coded body, kOverRatioText: 413
    kCorrupt,    // not in its Content-Encoding: 400
    kNoMemory,   // the SlabSource says that it is hopeless, or there is no room to wait in: 503
  };
  struct Shape {
    int64_t content_length = -1;  // of the coded body; -1 when not declared
    Coding coding = Coding::kIdentity;
    InflateLimits limits;
    BodyOwner owner{};
    InflateShare* share = nullptr;  // outlives the body, entered by its owner; null: it has a slice for itself
  };

  // Starts a body; also after an earlier one, whatever became of it.
  void begin(base::SlabSource& slabs, const Shape& shape);
  State put(std::span<const std::byte> piece);
  // Where to read the next piece, or empty (Codec::receive_buffer()): put() of a piece that begins there copies
  // nothing.
  std::span<std::byte> receive_buffer();
  // For codecs that can leave a piece with the peer: makes room, so that put() of `n` uncoded bytes will not stall.
  // kOpen: there is room; else kStalled or kNoMemory, which does not become the state(). Bytes that have come are moved
  // at once.
  State make_room(size_t n);
  // There are no more pieces. kDone, unless something is wrong or stalled: then retry() becomes kDone.
  State end();
  State retry();
  State state() const { return state_; }
  // It is stalled only because others are to have their turn.
  bool paused() const { return state_ == State::kStalled && paused_; }
  // Memory that is held for it.
  uint64_t reserved() const { return block_.held(); }
  // In kStalled, or when make_room() has said so: the slab that was not to be had, in bytes.
  uint64_t wanted() const { return wanted_; }
  // Bytes still to come for which there is memory, where that is all that will come; else 0.
  uint64_t expected() const;
  // In kDone, once.
  base::Bytes take();
  // Lets go of all memory.
  void clear();

 private:
  State advance(std::span<const std::byte> piece);
  State copy(std::span<const std::byte>& piece);
  State inflate(std::span<const std::byte>& piece);
  State grow(uint64_t to);
  State widen(uint64_t to);
  State move();
  base::Slab* more(uint64_t to);
  State settle();
  State keep(std::span<const std::byte> piece);

  base::SlabSource* slabs_ = nullptr;
  Shape shape_;
  State state_ = State::kOpen;
  bool ended_ = false;
  bool paused_ = false;
  size_t slice_ = kInflateSlice;  // what may still be inflated before the next retry(), where nothing is shared
  GrowingBlock block_;
  std::optional<Inflater> inflater_;
  base::MemoryCharge inflater_charge_;
  std::string aside_;  // pieces that wait for a slab
  base::MemoryCharge aside_charge_;
  uint64_t wanted_ = 0;  // the slab that was last asked for
};

// The coding of a request body from its Content-Encoding field; nothing when we have no such coding (415).
std::optional<Coding> body_coding(std::string_view content_encoding);

}  // namespace weir::wire
