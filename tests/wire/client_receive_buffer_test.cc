// The client's codecs: where the bytes of large answers are read to.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "support/client_codec.h"
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "wire/client_codec.h"

namespace weir::test {
namespace {

using support::feed, support::output_of;
using wire::Exchange;
using wire::Fields;

// An answer that knows where each byte of its body goes.
struct Placed final : wire::ClientAnswer {
  explicit Placed(size_t most) : place(most) {}
  std::vector<std::byte> place;
  size_t size = 0, landed = 0;
  bool whole = false;

  void on_head(int, const Fields&) override {}
  size_t on_body(std::span<const std::byte> piece) override {
    std::byte* const to = place.data() + size;
    if (piece.data() == to)
      landed += piece.size();
    else
      std::copy(piece.begin(), piece.end(), to);
    size += piece.size();
    return piece.size();
  }
  std::span<std::byte> receive_buffer() override { return std::span(place).subspan(size); }
  void on_end(const Fields&) override { whole = true; }
  void on_failed(const base::Status&) override {}
  std::string_view text() const { return {reinterpret_cast<const char*>(place.data()), size}; }
};

wire::ClientRequest request() { return {"GET", "http", "h", "/", {}, {}}; }

constexpr size_t kPiece = 5000;  // of what is read to the connection's own buffer

TEST(H2Client, ALargeAnswerIsReadToItsPlace) {
  const std::string large = text_of(3'000'000);
  Server server;
  server.intake.on_whole = [&](Exchange& x) { x.respond(200, "text/plain", base::Bytes::adopt(std::string(large))); };
  auto codec = wire::make_h2_client();
  Placed one(large.size()), other(large.size());
  codec->send(request(), one);
  codec->send(request(), other);
  for (;;) {
    const bool later = server.wire.tick_wanted;
    server.next_turn();
    const std::string up = output_of(*codec);
    server.feed(up);
    const std::string down = server.take();
    if (up.empty() && down.empty() && !later) break;
    feed(*codec, down, kPiece);
  }
  for (const Placed* answer : {&one, &other}) {
    EXPECT_TRUE(answer->whole);
    EXPECT_TRUE(answer->text() == large);
    EXPECT_GT(answer->landed, large.size() / 2);
  }
}

TEST(H1Client, ALargeAnswerIsReadToItsPlaceAndNothingBehindIt) {
  const std::string large = text_of(300'000);
  const std::string down = "HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + large;
  auto codec = wire::make_h1_client();
  for (int i = 0; i < 2; ++i) {
    Placed answer(1 << 20);
    codec->send(request(), answer);
    output_of(*codec);
    feed(*codec, down, kPiece);
    EXPECT_TRUE(answer.whole);
    EXPECT_TRUE(answer.text() == large);
    EXPECT_GT(answer.landed, 290'000u);
    EXPECT_TRUE(codec->receive_buffer().empty());
  }
}

TEST(H1Client, AChunkIsReadToItsPlaceAndItsEndIsNot) {
  const std::string large = text_of(0x20000);
  auto codec = wire::make_h1_client();
  Placed answer(1 << 20);
  codec->send(request(), answer);
  output_of(*codec);
  feed(*codec,
       "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n20000\r\n" + large + "\r\n20000\r\n" + large +
           "\r\n0\r\n\r\n",
       kPiece);
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.text() == large + large);
  EXPECT_GT(answer.landed, 250'000u);
}

// Its place may be gone.
TEST(H1Client, ACancelledAnswerHasNoPlace) {
  auto codec = wire::make_h1_client();
  {
    Placed answer(1 << 20);
    codec->send(request(), answer);
    output_of(*codec);
    feed(*codec, "HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\nbegun", kPiece);
    EXPECT_FALSE(codec->receive_buffer().empty());
    codec->cancel(answer);
  }
  EXPECT_TRUE(codec->receive_buffer().empty());
}

}  // namespace
}  // namespace weir::test
