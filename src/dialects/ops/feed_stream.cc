#include "dialects/ops/feed_stream.h"

#include <string>
#include <utility>

#include "wire/sse.h"

namespace weir::ops {

const base::Client* client_of(const wire::Exchange& exchange) {
  const wire::PeerInfo* peer = exchange.request().peer;
  return peer ? peer->client.get() : nullptr;
}

base::Status may_follow(size_t followers, size_t own, const base::Client* client, bool draining) {
  if (draining) return base::failure(base::Code::kUnavailable, "the server is shutting down");
  if (followers >= kMostFollowers) return base::failure(base::Code::kUnavailable, "too many follow already");
  if (client && client->limited() && !base::ShareRule().allows(own, 1, followers, kMostFollowers))
    return base::failure(base::Code::kUnavailable, "this client follows too often already; others need the places");
  return {};
}

void open_feed(wire::Exchange& exchange) {
  exchange.head(wire::stream_head());
  std::string hello;
  wire::append_sse_comment(hello, "following");
  exchange.body(base::Bytes::adopt(std::move(hello)));
}

}  // namespace weir::ops
