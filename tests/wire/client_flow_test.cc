// The HTTP/2 client: answers whose bytes wait, beside others.
#include <deque>
#include <string>
#include <utility>

#include "support/client_codec.h"
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "wire/client_codec.h"

namespace weir::test {
namespace {

using support::talk;
using wire::ClientCodec;
using wire::Exchange;
using wire::Fields;

struct Counted final : wire::ClientAnswer {
  bool takes = false;  // what comes is dealt with
  size_t size = 0, waits = 0;
  int ends = 0, failures = 0;

  void on_head(int, const Fields&) override {}
  size_t on_body(std::span<const std::byte> piece) override {
    size += piece.size();
    waits += takes ? 0 : piece.size();
    return takes ? piece.size() : 0;
  }
  void on_end(const Fields&) override { ++ends; }
  void on_failed(const base::Status&) override { ++failures; }
  void go_on(ClientCodec& codec) {
    takes = true;
    codec.consume(*this, std::exchange(waits, 0));
  }
};

wire::ClientRequest get_request() { return {"GET", "http", "h", "/", {}, {}}; }

TEST(H2Client, HoweverManyAnswersWaitTheyHoldNoOtherUp) {
  Server server;
  const std::string large = text_of(6'000'000);
  server.intake.on_whole = [&](Exchange& x) { x.respond(200, "text/plain", base::Bytes::constant(large)); };
  auto codec = wire::make_h2_client();
  std::deque<Counted> slow(80);
  for (auto& answer : slow) codec->send(get_request(), answer);
  talk(*codec, server);
  Counted other;
  other.takes = true;
  codec->send(get_request(), other);
  talk(*codec, server);
  EXPECT_EQ(other.ends, 1);
  EXPECT_EQ(other.size, large.size());
  for (auto& answer : slow) EXPECT_LE(answer.size, size_t(1) << 20) << "one that does not flow has a small window";
  for (auto& answer : slow) answer.go_on(*codec);
  talk(*codec, server);
  for (auto& answer : slow) EXPECT_TRUE(answer.ends == 1 && answer.size == large.size());
}

TEST(H2Client, AnAnswerThatFlowsHasALargerWindow) {
  const std::string piece = frame(0, 0, 1, std::string(16384, 'x'));
  for (bool flows : {false, true}) {
    auto codec = wire::make_h2_client();
    Counted answer;
    feed(*codec, frame(4, 0, 0, ""));
    codec->send(get_request(), answer);
    auto give = [&](const std::string& bytes, int times) {
      for (int i = 0; i < times; ++i) {
        feed(*codec, bytes);
        output_of(*codec);
      }
    };
    give({}, 1);
    give(frame(4, 1, 0, ""), 1);  // the settings hold from here on
    give(frame(1, kEndHeaders, 1, block({{":status", "200"}})), 1);
    answer.takes = flows;
    if (flows) give(piece, 40);
    answer.takes = false;
    give(piece, 64);
    EXPECT_EQ(answer.failures, 0);
    give(piece, 64);
    EXPECT_EQ(answer.failures, flows ? 0 : 1) << "more than the window is an error";
  }
}

TEST(H2Client, AnAnswerThatIsGivenUpWhileItWaitsTakesNoRoomWithIt) {
  Server server;
  const std::string large = text_of(2'000'000);
  server.intake.on_whole = [&](Exchange& x) { x.respond(200, "text/plain", base::Bytes::constant(large)); };
  auto codec = wire::make_h2_client();
  for (int i = 0; i < 100; ++i) {
    Counted answer;
    codec->send(get_request(), answer);
    talk(*codec, server);
    EXPECT_GT(answer.waits, 0u);
    codec->cancel(answer);
    talk(*codec, server);
  }
  Counted last;
  last.takes = true;
  codec->send(get_request(), last);
  talk(*codec, server);
  EXPECT_EQ(last.size, large.size());
}

}  // namespace
}  // namespace weir::test
