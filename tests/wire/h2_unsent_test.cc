// HTTP/2: resets of streams whose heads their client has never sent.
#include <string>

#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {
namespace {

bool ends_with(Server& s, const std::string& bytes) {
  s.feed(bytes);
  for (const Frame& frame : frames_of(s.take()))
    if (frame.type == 7) return true;
  return s.codec->finished();
}

std::string reset(uint32_t stream, uint32_t code) { return frame(3, 0, stream, u32(code)); }

// A call that gRPC's core cancels between taking its id and writing its head; other calls are on the same connection.
TEST(H2Unsent, ACancelledCallThatWasNeverSentEndsNothing) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  EXPECT_FALSE(ends_with(s, opening() + get(1) + rst(3) + get(5)));
  EXPECT_FALSE(ends_with(s, rst(9) + get(7))) << "heads may be written in another order";
  ASSERT_EQ(streamed.order.size(), 3u);
  for (wire::Exchange* x : streamed.order) {
    x->respond(200, "a/b", base::Bytes::copy_of("x"));
    EXPECT_FALSE(s.take().empty());
  }
  EXPECT_FALSE(s.codec->finished());
}

TEST(H2Unsent, OtherResetsOfIdleStreamsAreErrors) {
  const uint32_t far = 3 + 2 * wire::Limits{}.streams;
  for (const std::string& bytes :
       {rst(1), get(1) + reset(3, 0), get(1) + reset(3, 2), get(1) + rst(2), get(1) + rst(far)}) {
    Server s;
    EXPECT_TRUE(ends_with(s, opening() + bytes));
  }
}

TEST(H2Unsent, TheyCountAsResets) {
  Server s;
  s.feed(opening() + get(1));
  s.take();
  int passed = 0;
  for (; passed < 1000 && !s.codec->finished(); ++passed) s.feed(rst(3)), s.take();
  EXPECT_EQ(passed, 201);
}

}  // namespace
}  // namespace weir::test
