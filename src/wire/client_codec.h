// ClientCodec: one connection of ours to a server, without I/O: requests in, bytes out; bytes in, answers out. The
// client's half of what Codec is for a server. HTTP/1.1 carries one request at a time, HTTP/2 as many as the server
// allows. One thread; nothing is kept of a body but the pieces that the socket has not taken.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/exchange.h"

namespace weir::wire {

// Gets one answer, on the connection's thread. on_end() or on_failed() is the last call; either may send the next
// request. Views die with the call.
class ClientAnswer {
 public:
  // The final head; 1xx are passed over.
  virtual void on_head(int status, const Fields& fields) = 0;
  // Returns how many bytes of it have been dealt with; for the rest the server is held back until consume(): HTTP/2
  // holds back this answer alone, of which at most 4 MiB come before that.
  virtual size_t on_body(std::span<const std::byte> piece) = 0;
  // Where to read the next piece of the body, or empty (as Codec::receive_buffer()): on_body() of a piece that begins
  // there copies nothing.
  virtual std::span<std::byte> receive_buffer() { return {}; }
  // The answer is whole. HTTP/1.1: its trailers are not told.
  virtual void on_end(const Fields& trailers) = 0;
  // UNAVAILABLE: the connection broke, the server does not speak HTTP or has refused the request unseen. CANCELLED: it
  // has reset it. RESOURCE_EXHAUSTED: its fields are too large.
  virtual void on_failed(const base::Status& why) = 0;

 protected:
  ~ClientAnswer() = default;

 private:
  friend class H2ClientStreams;
  int32_t stream_ = 0;  // that it was sent on last, of whichever connection
};

struct ClientRequest {
  std::string method = "GET", scheme = "http", authority, target = "/";
  Fields fields;                    // lower-case names; no content-length
  base::Bytes body;                 // whole, with
  std::vector<base::Bytes> more{};  // the pieces behind it, none of them empty
  // Fields before `fields`: none, or those of every gRPC call.
  enum class Form : uint8_t { kPlain, kGrpc };
  Form form = Form::kPlain;

  std::span<const Fields::View> fields_of_form() const {
    static constexpr std::array<Fields::View, 2> kGrpc{{{"te", "trailers"}, {"content-type", "application/grpc"}}};
    return form == Form::kGrpc ? std::span<const Fields::View>(kGrpc) : std::span<const Fields::View>();
  }
  size_t body_size() const {
    size_t n = body.size();
    for (const auto& piece : more) n += piece.size();
    return n;
  }
};

class ClientCodec {
 public:
  static constexpr size_t kMostFields = 64 << 10;  // bytes of all fields of an answer, as Fields::bytes()

  virtual ~ClientCodec() = default;

  // Another request may be sent now. False for good where the server takes no more: finished().
  virtual bool has_room() const = 0;
  // has_room(). `answer` outlives its last call or cancel(). The request is copied, but for its body, whose pieces are
  // shared.
  virtual void send(const ClientRequest& request, ClientAnswer& answer) = 0;
  // `answer` is not called any more. HTTP/2 resets its stream; HTTP/1.1 is finished().
  virtual void cancel(ClientAnswer& answer) = 0;

  // `n` more bytes of the body have been dealt with.
  virtual void consume(ClientAnswer& answer, size_t n) = 0;

  // Bytes from the server, in order; then pending() is to be asked.
  virtual void feed(std::span<const std::byte> bytes) = 0;
  // As Codec::receive_buffer().
  virtual std::span<std::byte> receive_buffer() = 0;
  // False while too much waits for consume(): stop reading. To be asked again after feed() and consume().
  virtual bool wants_read() const = 0;
  // The socket is gone, and why: every answer that is not whole fails, unless the end makes it whole.
  virtual void closed(const base::Status& why) = 0;
  // As Codec's.
  virtual size_t pending(std::span<iovec> out) = 0;
  virtual void consumed(size_t n) = 0;

  // No further request will be taken: the server has said so, or has broken a rule. Close when idle() and nothing is
  // pending.
  virtual bool finished() const = 0;
  virtual bool idle() const = 0;
};

std::unique_ptr<ClientCodec> make_h1_client();
std::unique_ptr<ClientCodec> make_h2_client();

}  // namespace weir::wire
