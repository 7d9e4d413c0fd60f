// H1Response: parses the responses of an HTTP/1.1 server that is not trusted, piece by piece: the client's half of the
// protocol. Pure. It keeps at most a head or a line, and nothing of a body.
//
//   response = *informational status-line *( name ":" value CRLF ) CRLF body           RFC 9112
//
// Framing that two parsers could read in two ways is an error. begin() is called before each response of a connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/exchange.h"

namespace weir::wire {

// Is told of one response. An error that it returns ends feed() with that error.
class ResponseListener {
 public:
  // The final head; 1xx are passed over, but 101.
  virtual base::Status on_head(int status, const Fields& fields) = 0;
  virtual base::Status on_body(std::string_view piece) = 0;

 protected:
  ~ResponseListener() = default;
};

class H1Response {
 public:
  static constexpr size_t kMostLine = 256, kMostTrailers = 4 << 10;

  // `most_head`: bytes of all heads of one answer, informational ones included.
  explicit H1Response(size_t most_head = 64 << 10) : most_head_(most_head) {}

  enum class Body : uint8_t { kAsFramed, kNone };  // kNone: the request was HEAD
  void begin(Body body = Body::kAsFramed);
  // Takes bytes off the front of `bytes` up to the end of the answer. Errors: UNAVAILABLE where it is not HTTP
  // ("not HTTP/1.1: its status line"), or the listener's.
  base::Status feed(std::string_view& bytes, ResponseListener& listener);
  // The server has closed. Errors: UNAVAILABLE where more was to come.
  base::Status end();
  bool done() const { return state_ == State::kDone; }
  // Whether the connection may carry another request: once done().
  bool reusable() const { return reusable_; }
  // Bytes of the body that come next, before anything else does.
  uint64_t body_to_come() const {
    return state_ == State::kLength || state_ == State::kToTheEnd || state_ == State::kChunk ? left_ : 0;
  }
  // The length that the head announces; -1: none.
  int64_t announced() const { return sized_ ? int64_t(length_) : -1; }

 private:
  enum class State : uint8_t { kHead, kLength, kToTheEnd, kChunkSize, kChunk, kChunkEnd, kTrailers, kDone };
  base::Status step(std::string_view& bytes, ResponseListener& listener);
  base::Status read_head(std::string_view head, ResponseListener& listener);
  base::Status read_field(std::string_view line, Fields& fields);
  void choose_body(int status);
  base::Status read_chunk_size();
  base::Status take_trailer(std::string_view& bytes);
  bool take_line(std::string_view& bytes, size_t limit, base::Status& status);
  base::Status hand_on(std::string_view& bytes, ResponseListener& listener);

  const size_t most_head_;
  State state_ = State::kHead;
  Body body_ = Body::kAsFramed;
  std::string line_;                // the head, or a line, as far as it has come
  uint64_t left_ = 0, length_ = 0;  // of the body, or of the chunk
  size_t heads_ = 0, trailers_ = 0;
  bool chunked_ = false, sized_ = false, reusable_ = false;
};

}  // namespace weir::wire
