// Reply: one HTTP/1.1 answer to a GET, from a server that is not to be trusted, piece by piece. Pure.
//
//   reply = *informational status-line *( name ":" value CRLF ) CRLF body             RFC 9112
//
// Only a plain 200 is taken: other statuses (redirects among them), codings of the content, and framing that two
// parsers could read in two ways are errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weir::net {

class Reply {
 public:
  static constexpr size_t kMostHead = 16 << 10, kMostLine = 256, kMostTrailers = 4 << 10;

  explicit Reply(uint64_t max_body) : max_body_(max_body) {}

  // Errors: UNAVAILABLE (not HTTP, another status), NOT_FOUND (404, 410), RESOURCE_EXHAUSTED (too large).
  base::Status feed(std::string_view bytes);
  // The server has closed. Errors: UNAVAILABLE where more was to come.
  base::Status end();
  bool done() const { return state_ == State::kDone; }
  // As far as it has come; what it takes grows with what has come, not with what was announced.
  std::string& body() { return body_; }

 private:
  enum class State : uint8_t { kHead, kLength, kToTheEnd, kChunkSize, kChunk, kChunkEnd, kTrailers, kDone };
  base::Status read_head(std::string_view head);
  base::Status read_field(std::string_view line);
  base::Status read_chunk_size();
  bool take_line(std::string_view& bytes, size_t limit, base::Status& status);
  base::Status keep(std::string_view& bytes);

  uint64_t max_body_;
  State state_ = State::kHead;
  std::string line_;  // the head, or a line, as far as it has come
  std::string body_;
  uint64_t left_ = 0;  // of the body, or of the chunk
  size_t heads_ = 0, trailers_ = 0;
  bool chunked_ = false, sized_ = false;
};

}  // namespace weir::net
