// Exchange: one HTTP request and its response, whatever the HTTP version. The waist of the wire side.
//
// A codec (H1, H2) makes an Exchange when a request head is complete and asks the Intake (the router) what to do with
// it. The service that the router finds answers through the Exchange, at once or later, and hangs an ExchangeListener
// on it for the rest: request body pieces, room for more response bytes, the end. Everything happens on the
// connection's shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/client.h"
#include "base/env.h"
#include "base/status.h"
#include "base/ticket.h"
#include "wire/identity.h"
#include "wire/trace.h"

namespace weir::base {
class MemoryLedger;
}

namespace weir::wire {

enum class Version : uint8_t { kHttp10, kHttp11, kHttp2 };
enum class Security : uint8_t { kCleartext, kTls };

// Header or trailer fields in wire order. Names are lower-case. All text lives in one string.
class Fields {
 public:
  struct View {
    std::string_view name, value;
  };
  Fields() = default;
  Fields(const Fields&) = default;
  Fields(Fields&&) = default;
  Fields& operator=(const Fields&) = default;
  Fields& operator=(Fields&& o) noexcept {
    text_.swap(o.text_), entries_.swap(o.entries_);
    o.clear();
    return *this;
  }
  // The memory stays with the thread, for the fields of the next request.
  ~Fields() {
    if (entries_.capacity() > 0) keep_memory();
  }
  void add(std::string_view name, std::string_view value);
  void add_lowered(std::string_view name, std::string_view value);  // for a name in any case
  void set(std::string_view name, std::string_view value);          // replaces all of that name
  void remove(std::string_view name);
  void clear();
  // The first value of that (lower-case) name, or nothing: then data() is null.
  std::string_view find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name).data() != nullptr; }
  size_t size() const { return entries_.size(); }
  View operator[](size_t i) const;
  // Sum over the fields of name + value + 32, as HPACK counts.
  size_t bytes() const { return text_.size() + 32 * entries_.size(); }

 private:
  struct FieldSpan {
    uint32_t at;
    uint32_t name, value;  // lengths; the value follows the name
  };
  void take_memory();
  void keep_memory();

  std::string text_;
  std::vector<FieldSpan> entries_;
};

// Where the connection itself comes from, whatever a proxy says of the client behind it.
enum class Network : uint8_t { kOther, kLoopback };
// Whether the listener that took the connection serves methods of Permission::kAdmin.
enum class AdminMethods : uint8_t { kServed, kElsewhere };

// The peer of a connection; the same for all Exchanges of a connection, unless a trusted proxy names their clients.
struct PeerInfo {
  std::string address;  // "127.0.0.1:5000", "[::1]:5000", "unix"; without a port where a proxy has told none
  Security security = Security::kCleartext;
  bool proxy = false;  // a proxy that is trusted to name its clients (http.trusted_proxies)
  Network network = Network::kOther;
  AdminMethods admin = AdminMethods::kServed;
  base::ClientRef client{};  // the client whose shares it uses; empty: no shares are counted
  // The names in the peer's certificate that the TLS library has verified, "DNS:a.example", "URI:spiffe://…",
  // "email:…", "CN:…", in the certificate's order. Null: it has shown none.
  std::shared_ptr<const std::vector<std::string>> certificate_names{};

  // The host, as tenants are told apart by it: the client's name, or the address without its port.
  std::string_view host() const {
    return client ? std::string_view(client->name()) : std::string_view(address).substr(0, address.rfind(':'));
  }
};

// Whether a codec that keeps an Exchange for the next request keeps what it has read of this one's head.
enum class HeadKept : uint8_t {
  kNot,
  kKept,   // another request may come with the same head
  kAgain,  // it has: head and peer are those of the request before, in this Exchange
};

struct Request {
  Version version = Version::kHttp11;
  std::string method;     // "GET"
  std::string authority;  // Host or :authority
  std::string target;     // origin form as sent: "/v2/models/a%2Fb?x=1"
  Fields fields;
  int64_t content_length = -1;  // -1 when not declared
  const PeerInfo* peer = nullptr;
  const Identity* identity = nullptr;  // the caller; null without authentication. From Intake::begin() to closed()
  HeadKept kept = HeadKept::kNot;

  std::string_view path() const;   // target up to '?', still percent-encoded
  std::string_view query() const;  // after '?', still encoded; empty when none
  // The decoded value of a query parameter, or an empty string.
  std::string query_value(std::string_view name) const;
};

struct Response {
  int status = 200;
  Fields fields;  // content-length is added by the Exchange where it is known
};

// When the parts of a request's way began and ended; kNever where there was none. They are those of its last inference
// where there were several.
struct RequestTimes {
  base::Time whole = base::kNever;      // its body was complete
  base::Time queued = base::kNever;     // handed to the model
  base::Time started = base::kNever;    // its batch was closed
  base::Time computing = base::kNever;  // its inputs were in place
  base::Time computed = base::kNever;   // the answer was there
};

// A record of an Exchange for the access log and the metrics. Each layer fills in what it knows.
struct RequestRecord {
  std::string_view protocol = "http";  // "oip-rest", "oip-grpc", "health", …: a literal
  std::string_view route;              // the pattern that matched, a literal or owned by the router
  std::string model, version;          // the version that served
  std::string request_id;
  std::string traceparent;               // W3C Trace Context, as it is handed on; empty: there is none
  std::unique_ptr<Trace> trace;          // of a request that is traced
  base::Code code = base::Code::kOk;     // the outcome in gRPC's terms
  int status = 0;                        // HTTP status sent; 0 when none was
  std::string_view reject;               // reason of the closed enum in wire/limits.h, or empty
  uint64_t bytes_in = 0, bytes_out = 0;  // bodies
  base::Time began = base::kNever;
  base::Time deadline = base::kNever;  // the client's own, at which the request ends here, too
  base::Duration queue{0}, compute{0};
  RequestTimes times;

  // How long it took until `now`. The clock stands still within a turn of the loop, so what an inline engine measured
  // for itself counts as well.
  base::Duration took(base::Time now) const {
    return std::max(began == base::kNever ? base::Duration{0} : now - began, queue + compute);
  }
  // Back to an empty record; strings keep their memory.
  void clear();
  // The request ends with `status`.
  void set_outcome(const base::Status& status) {
    code = status.code;
    if (trace && !status.ok()) trace->error = status.text;
  }
};

class Exchange;
class SharedPace;
class TrustedProxies;
struct RouteMatch;

// A service attaches one to an Exchange to be told of the rest of it. Owned by the Exchange; destroyed after
// on_close().
class ExchangeListener {
 public:
  virtual ~ExchangeListener() = default;
  // BodyPlan::kStream only: a piece of the request body. The view dies with the call. Give the bytes back with
  // Exchange::consume() once there is room for more.
  virtual void on_data(Exchange&, std::span<const std::byte>) {}
  // Where to read the next piece of the body, or empty (Codec::receive_buffer()): on_data() of a piece that begins
  // there copies nothing.
  virtual std::span<std::byte> receive_buffer() { return {}; }
  // BodyPlan::kStream only: the request is complete.
  virtual void on_end(Exchange&) {}
  // The response backlog has fallen below Exchange::kLowWater after having been above it.
  virtual void on_drain(Exchange&) {}
  // The Exchange is over: the response is in the socket, or the peer or the connection has gone. Last call. `complete`
  // says whether the whole response went out.
  virtual void on_close(Exchange&, bool complete) = 0;
  // Bytes that it holds for the answer beside the backlog (wire/answer_flow.h).
  virtual uint64_t held_for_answer() const { return 0; }
};

enum class BodyPlan : uint8_t {
  kWhole,   // gather the body (inflated if it was coded) into one slab, then Intake::whole()
  kStream,  // hand pieces to the ExchangeListener as they come
  kIgnore,  // the response does not depend on it: discard
};
struct Plan {
  BodyPlan body = BodyPlan::kWhole;
  uint64_t limit = 64 << 20;   // body bytes, after inflating too; more is 413
  std::string_view setting{};  // that `limit` comes from: a literal; empty: none

  // The text of that 413.
  std::string too_large() const;
};

enum class Reset : uint8_t { kCancel, kInternal, kRefused, kNoError };

// The usual head and end of a gRPC answer, in place of head() and end() of an Exchange, without Fields.
class PlainGrpc {
 public:
  virtual void head_of_grpc() = 0;  // 200, application/grpc
  virtual void end_of_grpc() = 0;   // grpc-status 0

 protected:
  ~PlainGrpc() = default;
};

class Exchange {
 public:
  static constexpr size_t kHighWater = 1 << 20;  // backlog at which a polite writer stops
  static constexpr size_t kLowWater = kHighWater / 4;

  virtual ~Exchange();

  const Request& request() const { return request_; }
  // The whole request body; BodyPlan::kWhole, from Intake::whole() on.
  const base::Bytes& content() const { return content_; }
  RequestRecord& record() { return record_; }
  const RequestRecord& record() const { return record_; }
  void attach(std::unique_ptr<ExchangeListener> listener) { listener_ = std::move(listener); }
  ExchangeListener* listener() { return listener_.get(); }
  // Fields that go out with whatever head is sent: the request id, CORS. Set by the Intake; the codec writes them
  // behind the response's own and forgets them with the Exchange.
  Fields& extra_fields() { return extra_fields_; }
  const Fields& extra_fields() const { return extra_fields_; }
  // Sets the caller of the request. The Intake calls this in begin(), and with an empty Caller in closed(). A client
  // that the caller names is the peer's (Request::peer) until the Exchange is used for another request.
  void set_caller(Caller caller);
  // Caller::give_back_place() of its caller.
  friend void give_back_place(Exchange& exchange) { exchange.caller_.give_back_place(); }
  // The Router's alone: what it has found for this Exchange, from begin() to closed(); where the head is kept, until
  // begin() of the next request.
  std::unique_ptr<RouteMatch> match;
  // Null: the codec has no shorter way for it.
  PlainGrpc* plain_grpc = nullptr;
  // BodyPlan::kStream: of the request bodies of its connection, which wait for each other. Null: they do not.
  SharedPace* pace = nullptr;

  // The response, in order: head once, body any number of times, end once. Calls after the peer has gone, or after
  // end(), do nothing. HEAD requests and bodiless statuses drop the body. None of these calls back into the
  // ExchangeListener.
  virtual void head(Response response) = 0;
  virtual void body(base::Bytes piece) = 0;
  virtual void end(Fields trailers = {}) = 0;
  // Breaks the Exchange off: RST_STREAM, or closing the HTTP/1 connection.
  virtual void reset(Reset why) = 0;
  virtual bool responding() const = 0;  // head() has been called (a 100 is sent by the codec itself and does not count)
  // Response bytes accepted here that the socket has not taken yet.
  virtual size_t backlog() const = 0;
  // The writer may go on at once. Otherwise ExchangeListener::on_drain() says when.
  bool has_room() const { return backlog() < kLowWater; }
  // BodyPlan::kStream: `n` bytes of the request body have been dealt with; lets the peer send as many more.
  virtual void consume(size_t n) = 0;
  // BodyPlan::kStream: `n` more bytes of the request body have memory that waits for them, so the peer need not wait
  // for consume(): HTTP/2 opens the stream's window that far, up to the connection's. 0: no more than usual.
  virtual void expect(size_t /*n*/) {}
  virtual base::Time now() const = 0;
  // Held by work for this Exchange that may outlive it (a Call whose client has left): HTTP/2 counts it against
  // Limits::streams until it is given back. Other versions need none.
  virtual base::Ticket ticket() { return {}; }
  // The ledger that the memory of the answer is charged to; null: nobody counts.
  virtual base::MemoryLedger* memory() { return nullptr; }
  // The ExchangeListener's on_drain() is called when the socket next takes something and the backlog is below
  // kLowWater, also if it has not been above it. For whoever makes an answer bit by bit.
  virtual void call_on_drain() {}

  // head + body + end in one, with content-length; compressed when `compress` says so, the peer accepts it and it pays.
  enum class Compress : uint8_t { kNever, kIfAccepted };
  void respond(int status, std::string_view content_type, base::Bytes body, Compress compress = Compress::kNever);
  void respond_text(int status, std::string_view content_type, std::string body, Compress compress = Compress::kNever);
  void respond(Response response, base::Bytes body);

 protected:
  Exchange();
  // A whole answer of one small piece, with its length and without fields of its own, in one step: respond() asks for
  // that first. False: the codec has no shorter way for this one, and nothing has happened.
  virtual bool respond_small(int /*status*/, std::string_view /*content_type*/, std::string_view /*body*/) {
    return false;
  }

  Request request_;
  base::Bytes content_;
  RequestRecord record_;
  std::unique_ptr<ExchangeListener> listener_;
  Fields extra_fields_;
  bool at_once_ = false;  // the head that comes is respond()'s: the end follows without a pause

  // Codecs, once the head is there: makes request_.peer the client that a trusted proxy names. Null: none is trusted.
  void name_client(const TrustedProxies* proxies);
  void forget_client() { forwarded_.reset(); }

 private:
  Caller caller_;
  std::unique_ptr<PeerInfo> forwarded_;  // request_.peer, where a proxy or a node has named it
};

// The layer above a codec. wire::Router is the one in production.
class Intake {
 public:
  // The head is complete. Returns how the body is to be read. May answer at once (404, 405, 401; always with kIgnore):
  // then the codec still reads or discards the body as the plan says, and does not call whole().
  virtual Plan begin(Exchange& exchange) = 0;
  // BodyPlan::kWhole: the body is complete; content() is set.
  virtual void whole(Exchange& exchange) = 0;
  // Instead of whole(), and of the rest of a stream: the codec cannot take the body of a request that begin() has seen.
  // Answers it, if nothing has; by itself as `{"error":"<text>"}`.
  virtual void refuse(Exchange& exchange, int status, std::string_view text);
  // Called once for every Exchange that begin() saw, after its ExchangeListener's on_close().
  virtual void closed(Exchange& exchange) = 0;
  // A request that never became an Exchange (bad framing, too many fields): for the counters and the access log.
  virtual void rejected(std::string_view reason, const PeerInfo& peer) = 0;

 protected:
  ~Intake() = default;
};

}  // namespace weir::wire
