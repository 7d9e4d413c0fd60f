// Where the bytes of large bodies are read to.
#include <cstring>

#include "h1_fixture.h"

namespace weir::wire {
namespace {

// A large body is read to where it will lie, up to its end and no further: what is fed from there is not copied.
TEST(H1, ALargeBodyLandsWhereItWillLie) {
  Conn c;
  c.hold();
  std::string body(300'000, 0);
  for (size_t i = 0; i < body.size(); ++i) body[i] = char('a' + i % 23);
  const std::string request = post(body) + get();
  const size_t end = request.size() - get().size();
  size_t at = request.find("\r\n\r\n") + 4 + 20'000, landed = 0;
  EXPECT_TRUE(c.h1->receive_buffer().empty());
  c.feed(std::string_view(request).substr(0, at));
  while (at < request.size()) {
    const auto to = c.h1->receive_buffer();
    if (to.empty()) {
      c.feed(std::string_view(request).substr(at, std::min<size_t>(10'000, request.size() - at)));
      at += std::min<size_t>(10'000, request.size() - at);
      continue;
    }
    ASSERT_LE(to.size(), end - at);
    const size_t n = std::min<size_t>(to.size(), 70'000);
    std::memcpy(to.data(), request.data() + at, n);
    c.h1->feed(to.first(n));
    at += n, landed += n;
  }
  ASSERT_EQ(c.intake.open.size(), 2u);
  EXPECT_EQ(c.intake.open[0]->content().view(), body);
  EXPECT_EQ(c.intake.open[1]->request().method, "GET");
  EXPECT_GT(landed, 200'000u);
}

TEST(H1, OnlyBodiesThatAreGatheredAsTheyComeHaveALanding) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n", some(30'000, 'x');
  for (const std::string& begin :
       {head + "Transfer-Encoding: chunked\r\n\r\n30000\r\n" + some,
        head + "Content-Encoding: gzip\r\nContent-Length: 200000\r\n\r\n" + gzip(some), head + "Content-Len"}) {
    Conn c;
    c.hold();
    c.feed(begin);
    EXPECT_TRUE(c.h1->receive_buffer().empty()) << begin.substr(0, 90);
  }
  Conn stalled;
  stalled.hold();
  stalled.slabs.empty = true;
  stalled.feed(head + "Content-Length: 200000\r\n\r\n" + some);
  EXPECT_TRUE(stalled.h1->receive_buffer().empty());
  Conn streamed;
  Heard heard;
  streamed.stream(heard);
  streamed.feed(head + "Content-Length: 200000\r\n\r\n" + some);
  EXPECT_TRUE(streamed.h1->receive_buffer().empty());
}

}  // namespace
}  // namespace weir::wire
