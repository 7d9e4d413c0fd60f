// The WebSocket protocol (RFC 6455), server side, over an Exchange: the opening handshake in both HTTP versions (RFC
// 6455 §4, RFC 8441) and the frames, without I/O.
//
//   frame = FIN RSV3 opcode4 | MASK length7 [ length16 | length64 ] mask-key4 payload       RFC 6455 §5.2
//
// Extensions are not negotiated; of subprotocols "weir" is chosen where a client offers it. What a peer does against
// the protocol closes the connection with the code that the RFC names: 1002, 1007 (text that is no UTF-8), 1009 (too
// large). Where there can be no memory for a message: 1013 (try again later).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/memory_ledger.h"
#include "wire/body.h"
#include "wire/exchange.h"

namespace weir::wire {

// UTF-8 that comes in pieces (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
class Utf8Check {
 public:
  bool push(std::string_view piece);  // false: it cannot become UTF-8 any more
  bool whole() const { return left_ == 0; }

 private:
  uint8_t left_ = 0, low_ = 0x80, high_ = 0xbf;  // continuation bytes to come, and the range of the next one
};

// RFC 6455 §7.4.1.
namespace close_code {
inline constexpr uint16_t kNormal = 1000, kGoingAway = 1001, kProtocol = 1002, kUnsupported = 1003, kNotUtf8 = 1007,
                          kPolicy = 1008, kTooLarge = 1009, kInternal = 1011, kTryAgain = 1013, kNone = 1005,
                          kAbnormal = 1006;
}

class WebSocket {
 public:
  enum class Kind : uint8_t { kText, kBinary };

  // The owner of a WebSocket: takes its messages, and writes its bytes to the Exchange.
  class Side {
   public:
    virtual void on_message(Kind kind, base::Bytes message) = 0;
    // A PING, a PONG or a close frame has come; it is answered here.
    virtual void on_control() {}
    // Asked before each frame: while true, feed() takes nothing.
    virtual bool full() = 0;
    // The peer has closed or broken the protocol, or there is no memory for its message: `code` is what it said or got.
    // No message follows; what was due to be said of it has been written.
    virtual void on_closing(uint16_t code) = 0;
    virtual void write(base::Bytes bytes) = 0;

   protected:
    ~Side() = default;
  };

  // Messages above 16 KiB are gathered in slabs, which are `owner`'s. What is there of a smaller one at the end of a
  // feed() is charged to the ledger of `slabs`.
  WebSocket(Side& side, base::SlabSource& slabs, uint64_t max_message, BodyOwner owner = {})
      : side_(side), slabs_(slabs), max_message_(max_message), owner_(owner) {
    if (auto* ledger = slabs.ledger()) charge_ = {*ledger, base::MemoryKind::kInput};
  }

  // Bytes from the peer; returns how many were used. What is not used, because the side is full or there is no slab,
  // comes again, with more behind it.
  size_t feed(std::span<const std::byte> bytes);
  // The caller keeps so many bytes that feed() has not taken: charged with the rest. No room: closes with 1013.
  void keep_aside(uint64_t bytes);
  // A message, or a part of one: a frame of it, which others follow (RFC 6455 §5.4). Nothing goes out after close().
  enum class More : uint8_t { kNo, kYes };
  void send(Kind kind, std::vector<base::Bytes> pieces, More more = More::kNo);
  // An empty one. The peer answers with a PONG, so that something comes from it.
  void ping();
  // The reason is cut to what fits, at a character's border.
  void close(uint16_t code, std::string_view reason);
  bool closed() const { return closed_; }
  // Memory that the message holds which is coming; the slab that was not to be had at the last feed(), or 0.
  uint64_t reserved() const { return body_.reserved(); }
  uint64_t wanted() const { return wanted_; }
  // The message that is coming gets no memory: closes with 1013.
  void refuse_memory(std::string_view why);

 private:
  enum class Reading : uint8_t { kHead, kPayload, kNothing };
  size_t take(std::span<const std::byte> bytes);
  void charge();
  size_t read_head(std::span<const std::byte> bytes);
  bool start_frame();
  bool check_frame();
  bool starved(size_t n);
  void read_payload(std::span<const std::byte> bytes);
  void keep(std::string_view piece);
  void end_frame();
  void end_message();
  void on_close_frame();
  void write_frame(uint8_t first, std::vector<base::Bytes> pieces);
  void fail(uint16_t code, std::string_view why);

  Side& side_;
  base::SlabSource& slabs_;
  uint64_t max_message_;
  BodyOwner owner_;
  uint64_t wanted_ = 0;
  Reading reading_ = Reading::kHead;
  std::array<uint8_t, 14> head_{};
  size_t head_size_ = 0;
  uint8_t opcode_ = 0;  // of the frame
  bool final_ = false;  // FIN
  uint64_t left_ = 0;   // payload bytes to come
  uint32_t at_ = 0;     // place in the mask
  std::array<uint8_t, 4> mask_{};
  bool in_message_ = false;  // a fragmented message has begun
  Kind kind_ = Kind::kText;
  std::string message_, control_;
  bool large_ = false;     // the message is gathered in body_, not in message_
  uint64_t gathered_ = 0;  // bytes of it that are there
  BodyCollector body_;
  base::MemoryCharge charge_;  // for message_ and what is aside
  uint64_t aside_ = 0;
  Utf8Check utf8_;
  bool sending_ = false;  // a part of a message has gone out, and not its last one
  bool closed_ = false;
};

// A request for a WebSocket: HTTP/1.1 with Upgrade, or HTTP/2's extended CONNECT, which codecs show as a GET with the
// field `upgrade: websocket`.
bool wants_websocket(const Request& request);
// Answers the opening handshake: 101, or 200 on HTTP/2. Where the request is not one that can be answered so (version,
// key), it is refused, in the form of its path: then false.
bool accept_websocket(Exchange& exchange);

}  // namespace weir::wire
