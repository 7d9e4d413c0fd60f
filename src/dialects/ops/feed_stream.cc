#include "dialects/ops/feed_stream.h"

#include <string>
#include <utility>

#include "wire/sse.h"

namespace weir::ops {

base::Status may_follow(size_t followers, bool draining) {
  if (draining) return base::failure(base::Code::kUnavailable, "the server is shutting down");
  if (followers >= kMostFollowers) return base::failure(base::Code::kUnavailable, "too many follow already");
  return {};
}

void open_feed(wire::Exchange& exchange) {
  exchange.head(wire::stream_head());
  std::string hello;
  wire::append_sse_comment(hello, "following");
  exchange.body(base::Bytes::adopt(std::move(hello)));
}

}  // namespace weir::ops
