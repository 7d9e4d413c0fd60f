// gRPC's message framing (grpc/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message"; gRPC-Web frames messages alike):
//
//   message = flag length payload
//   flag    = %x00 / %x01          ; 1: the payload is compressed with grpc-encoding
//   length  = 4OCTET               ; big-endian
//
// Deframer takes pieces of such a stream, cut anywhere, and puts each payload into one slab of its size, still
// compressed where flag is 1 (wire/coding.h takes that off). The length is the peer's word, so the slab grows by what
// has come of it (wire/body_growth.h says how, and what is copied for that). A compressed payload is a part as a whole,
// for it will wait for room to inflate into.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/body_memory.h"

namespace weir::wire {

inline constexpr size_t kGrpcPrefix = 5;

enum class GrpcFlag : uint8_t { kPlain = 0, kCompressed = 1, kConnectEnd = 2, kWebTrailers = 0x80 };

std::array<std::byte, kGrpcPrefix> grpc_prefix(GrpcFlag flag, uint32_t length);

class Deframer {
 public:
  // Messages longer than `max_message` fail before anything is allocated for them.
  Deframer(base::SlabSource& slabs, uint64_t max_message, BodyOwner owner = {})
      : slabs_(slabs), max_(max_message), owner_(owner) {}

  enum class Step : uint8_t {
    kMore,     // everything taken; no message yet
    kMessage,  // take() it
    kStarved,  // no slab now, of wanted() bytes: come again with what is left of the input
    kFailed,   // error() says why; the stream is lost
  };
  // Takes bytes off the front of `in`, up to the end of one message at most.
  Step next(std::span<const std::byte>& in);
  // Where to read the next bytes of the message that has begun, up to its end or that of its slab
  // (Codec::receive_buffer()). Empty between messages.
  std::span<std::byte> receive_buffer();

  // After kMessage, once.
  base::Bytes take();
  bool compressed() const { return prefix_[0] != std::byte{0}; }
  // Memory that is held for the message.
  uint64_t reserved() const { return block_.capacity(); }
  uint64_t wanted() const { return wanted_; }
  // Bytes of the message still to come, where there is memory for all of them; else 0.
  uint64_t expected() const { return block_.capacity() >= length_ ? length_ - block_.size() : 0; }
  // The stream may end here: not inside a message.
  bool at_boundary() const { return have_ == 0; }
  const base::Status& error() const { return error_; }
  // Lets go of the message that has begun; nothing is read any more.
  void drop() { block_ = {}; }

 private:
  Step fail(base::Code code, std::string text);
  Step read_prefix(std::span<const std::byte>& in);
  Step open_payload(size_t at_hand);
  Step fill(std::span<const std::byte>& in);
  base::Slab* slab(uint64_t bytes);
  Step widen(size_t at_hand);
  Step starved(uint64_t bytes);

  base::SlabSource& slabs_;
  uint64_t max_;
  BodyOwner owner_;
  uint64_t wanted_ = 0;
  std::array<std::byte, kGrpcPrefix> prefix_{};
  uint32_t have_ = 0;    // of the prefix
  uint32_t length_ = 0;  // of the payload, once the prefix is whole
  base::Block block_;    // set from the whole prefix on, unless the payload is empty
  base::Status error_;
};

}  // namespace weir::wire
