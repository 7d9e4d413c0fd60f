// HTTP/2: a client that sends GOAWAY.
#include <string>

#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {
namespace {

using base::Bytes;
using wire::Exchange;

TEST(H2, ThePeersGoawayLetsRunningRequestsFinish) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + get(1) + frame(7, 0, 0, u32(0) + u32(0)));
  s.take();
  EXPECT_FALSE(s.codec->finished());
  streamed.order.at(0)->respond(200, "a/b", Bytes::copy_of("x"));
  EXPECT_FALSE(s.take().empty());
  EXPECT_TRUE(s.codec->finished());
}

// Go's ClientConn.Shutdown() names the next stream of its own; others name one twice, and a larger one then.
TEST(H2, AGoawayOfThePeerMayNameAnyStream) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + get(1));
  for (uint32_t last : {0u, 3u, 0x7fffffffu}) s.feed(frame(7, 0, 0, u32(last) + u32(0)));
  for (const Frame& frame : frames_of(s.take())) EXPECT_NE(frame.type, 7);
  EXPECT_FALSE(s.codec->finished());
  ASSERT_EQ(streamed.order.size(), 1u);
  streamed.order[0]->respond(200, "a/b", Bytes::copy_of("x"));
  EXPECT_FALSE(s.take().empty());
  EXPECT_TRUE(s.codec->finished());
}

// It says which of our streams it takes, and nothing of its own (RFC 9113 §6.8).
TEST(H2, RequestsBehindAGoawayOfThePeerAreServedWhileOthersAre) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + get(1) + frame(7, 0, 0, u32(0) + u32(0)) + get(3));
  s.take();
  ASSERT_EQ(streamed.order.size(), 2u);
  for (Exchange* x : streamed.order) {
    EXPECT_FALSE(s.codec->finished());
    x->respond(200, "a/b", Bytes::copy_of("x"));
    EXPECT_FALSE(s.take().empty());
  }
  EXPECT_TRUE(s.codec->finished());
}

}  // namespace
}  // namespace weir::test
