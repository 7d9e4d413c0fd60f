// HTTP/2: where the bytes of large bodies are read to.
#include <algorithm>
#include <optional>

#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {
namespace {

using wire::Exchange;

// Feeds `all` to the codec as a connection does, and says how much of it was read to where it will lie.
size_t feed_receive_buffers(Server& s, const std::string& all) {
  size_t landed = 0;
  for (size_t at = 0; at < all.size();) {
    const auto to = s.codec->receive_buffer();
    const size_t n = std::min<size_t>({all.size() - at, to.empty() ? 5'000 : to.size(), 70'000});
    const auto bytes = std::as_bytes(std::span(all)).subspan(at, n);
    if (!to.empty()) std::copy(bytes.begin(), bytes.end(), to.begin()), landed += n;
    s.codec->feed(to.empty() ? bytes : to.first(n));
    at += n;
  }
  return landed;
}

struct H2ReceiveBuffer : ::testing::Test {
  H2ReceiveBuffer() {
    limits.stream_window = limits.conn_window = 1 << 20;
    s.emplace(limits);
    s->intake.on_whole = [this](Exchange& x) {
      if (!x.content().empty()) got = x.content().view();
      x.respond(200, "a/b", {});
    };
  }
  wire::Limits limits;
  std::optional<Server> s;
  std::string got;
  const std::string body = text_of(500'000);
};

// No byte of what follows the frame is read there.
TEST_F(H2ReceiveBuffer, TheRestOfALargeFrameIsReadToItsPlaceInTheBody) {
  const auto whole = std::string_view(body);
  const size_t landed = feed_receive_buffers(*s, opening() + post(1) + frame(0, 0, 1, whole.substr(0, 250'000)) +
                                                     frame(0, kEndStream, 1, whole.substr(250'000)) + get(3));
  EXPECT_TRUE(got == body) << got.size();
  EXPECT_GT(landed, 300'000u);
  EXPECT_EQ(s->intake.begun, 2u);
}

// Its payload does not begin where the frame begins, and what is behind it is no payload.
TEST_F(H2ReceiveBuffer, APaddedFrameIsCopied) {
  const auto whole = std::string_view(body);
  const size_t landed = feed_receive_buffers(
      *s, opening() + post(1) +
              frame(0, kPadded, 1, char(99) + std::string(whole.substr(0, 250'000)) + std::string(99, 0)) +
              frame(0, kEndStream | kPadded, 1, '\0' + std::string(whole.substr(250'000))) + get(3));
  EXPECT_TRUE(got == body) << got.size();
  EXPECT_EQ(landed, 0u);
  EXPECT_EQ(s->intake.begun, 2u);
}

TEST_F(H2ReceiveBuffer, SmallFramesAreCopied) {
  const auto whole = std::string_view(body);
  std::string all = opening() + post(1);
  for (size_t at = 0; at < body.size(); at += 16'384)
    all += frame(0, at + 16'384 >= body.size() ? kEndStream : 0, 1, whole.substr(at, 16'384));
  EXPECT_EQ(feed_receive_buffers(*s, all), 0u);
  EXPECT_TRUE(got == body) << got.size();
}

}  // namespace
}  // namespace weir::test
