// An HTTP/2 server whose connection is a session of libnghttp2: what wire's own server is compared with. It answers
// each request when it is told to, and follows the same Guard, FrameRules and H2HeadRules, which both have in common.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "wire/frame_rules.h"
#include "wire/guard.h"
#include "wire/h2_frame_walker.h"
#include "wire/h2_head_rules.h"

namespace weir::test {

class LibraryH2Server {
 public:
  // A request, as far as it has come.
  struct Request {
    std::string path, body;
    int64_t length = -1;
    bool refused = false;  // nobody is told of it
    bool begun = false, ended = false, closed = false;
    std::string answer;
    size_t sent = 0;
    bool answered = false, trailers = false, finished = false;
  };

  LibraryH2Server(const wire::Limits& limits, base::Time now);
  ~LibraryH2Server();
  LibraryH2Server(const LibraryH2Server&) = delete;

  void feed(std::string_view bytes);
  // The bytes that it sends now.
  std::string output();
  // The request's answer: 200, a body, trailers if so.
  void answer(int32_t stream, std::string body, bool trailers);
  void reset(int32_t stream, uint32_t code);
  void drain(bool refuse);
  // It reads and sends nothing any more.
  bool over() const;

  std::map<int32_t, Request> requests;

 private:
  struct Callbacks;

  bool admit(std::string_view bytes);
  void malformed(int32_t stream);
  Request* find(int32_t stream);
  void end(int32_t stream, Request& request);

  wire::Limits limits_;
  base::Time now_;
  wire::Guard guard_;
  wire::FrameRules frame_rules_;
  wire::FrameWalker walker_{24};
  wire::H2HeadRules rules_;
  bool trailers_ = false;
  nghttp2_session* session_ = nullptr;
  bool dead_ = false, said_ = false;  // a verdict of the Guard's, its GOAWAY
};

}  // namespace weir::test
