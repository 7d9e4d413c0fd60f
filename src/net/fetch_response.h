// FetchResponse: parses the HTTP/1.1 response to a GET, piece by piece, from a server that is not trusted. Pure.
//
// The framing is wire/h1_response.h's. Only a plain 200 is taken: other statuses (redirects among them) and codings of
// the content are errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/h1_response.h"

namespace weir::net {

class FetchResponse : private wire::ResponseListener {
 public:
  static constexpr size_t kMostHead = 16 << 10;

  explicit FetchResponse(uint64_t max_body) : max_body_(max_body) {}

  // Errors: UNAVAILABLE (not HTTP, another status), NOT_FOUND (404, 410), RESOURCE_EXHAUSTED (too large).
  base::Status feed(std::string_view bytes);
  // The server has closed. Errors: UNAVAILABLE where more was to come.
  base::Status end();
  bool done() const { return answer_.done(); }
  // As far as it has come; what it takes grows with what has come, not with what was announced.
  std::string& body() { return body_; }

 private:
  base::Status on_head(int status, const wire::Fields& fields) override;
  base::Status on_body(std::string_view piece) override;
  base::Status too_large() const;

  uint64_t max_body_;
  wire::H1Response answer_{kMostHead};
  std::string body_;
};

}  // namespace weir::net
