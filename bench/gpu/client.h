// The client's side of a load: connections on one epoll loop, each with one request at a time (HTTP/1.1) or many
// (HTTP/2, gRPC). What a server under load is measured with must cost little itself: no library, no copy of large
// bodies, no allocation per piece of an answer.
//
// A connection that breaks ends the program: a load of which a part is missing measures nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weir::load {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what);

// The bytes of a request: `head` with what belongs to this request alone, then `body`, which others share and which
// outlives it. For HTTP/1.1 the head is the request's as it goes out; for gRPC it is the message.
struct Request {
  std::string head;
  std::string_view body;
};

class Hearer {
 public:
  // A piece of an answer, as it comes; valid during the call.
  virtual void on_body(uint32_t job, std::string_view piece) = 0;
  // After the last piece. Not good: another status than 200, or a stream that was reset.
  enum class End : uint8_t { kGood, kBad };
  virtual void on_end(uint32_t job, End end) = 0;

 protected:
  ~Hearer() = default;
};

// Not blocking; its owner calls read() and write() when the socket is ready (edges).
class Conn {
 public:
  virtual ~Conn();
  Conn(const Conn&) = delete;

  int fd() const { return fd_; }
  // When there is room for one: its owner knows how many it has sent. `job` is what the Hearer is told. What does not
  // fit the socket's buffer waits for write().
  virtual void send(uint32_t job, Request request) = 0;
  void read();
  void write();

 protected:
  Conn(uint16_t port, Hearer& hearer);
  virtual void received(std::string_view bytes) = 0;

  Hearer& hearer_;
  std::string out_;        // not yet sent
  std::string_view tail_;  // behind it

 private:
  const int fd_;
  size_t sent_ = 0;  // of out_
};

// Both connect to the loopback.
std::unique_ptr<Conn> make_h1(uint16_t port, Hearer& hearer);
// Unary requests in, streams of messages out; `path` is the method's.
std::unique_ptr<Conn> make_grpc(uint16_t port, Hearer& hearer, const std::string& path);

}  // namespace weir::load
