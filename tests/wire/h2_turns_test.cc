// HTTP/2: which answers send first where the client's window does not do for all of them (RFC 9218), and how far its
// own windows open.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/h2_client.h"
#include "support/h2_service.h"
#include "wire/h2_receive_window.h"
#include "wire/h2_turns.h"

namespace weir::test {
namespace {

using wire::Exchange;
using wire::H2ReceiveWindow;
using wire::H2Turns;

using namespace std::string_literals;

constexpr size_t kWindow = 65535;  // of the connection: RFC 9113 §6.9.2

std::string ask(uint32_t stream, const std::string& priority) {
  return frame(1, kEndHeaders | kEndStream, stream, block(with(kGet, {{"priority", priority}})));
}

// Bytes of each stream's answer in the first window.
std::map<uint32_t, size_t> sent(size_t answer, const std::string& requests) {
  Server s;
  s.intake.on_whole = [&](Exchange& x) { x.respond(200, "a/b", base::Bytes::adopt(text_of(answer))); };
  s.feed(opening() + requests);
  std::map<uint32_t, size_t> bytes;
  for (const Frame& frame : frames_of(s.take()))
    if (frame.type == 0) bytes[frame.stream] += frame.payload.size();
  return bytes;
}

TEST(H2Turns, TheMoreUrgentAnswerHasTheWindow) {
  auto bytes = sent(60'000, ask(1, "u=5") + ask(3, "u=1") + ask(5, "u=3"));
  EXPECT_EQ(bytes[3], 60'000u);
  EXPECT_EQ(bytes[5], kWindow - 60'000);
  EXPECT_EQ(bytes.count(1), 0u);
}

TEST(H2Turns, AnswersThatComeInPiecesTakeTurns) {
  auto bytes = sent(60'000, ask(1, "i") + ask(3, "i"));
  EXPECT_GE(bytes[1], 16u << 10);
  EXPECT_GE(bytes[3], 5'000u);
  EXPECT_EQ(bytes[1] + bytes[3], kWindow);
}

TEST(H2Turns, OneThatIsBetterHadWholeGoesBeforeThoseInPieces) {
  auto bytes = sent(60'000, ask(1, "i") + ask(3, "u=3"));
  EXPECT_EQ(bytes[3], 60'000u);
}

// Or a stream of tokens would stand still as long as others of its connection ask for files.
TEST(H2Turns, BehindEachThatIsHadWholeOneInPiecesHasATurn) {
  H2Turns turns;
  for (int32_t stream : {1, 3, 5}) turns.push(stream, 3, H2Turns::Kind::kWhole);
  for (int32_t stream : {7, 9}) turns.push(stream, 3, H2Turns::Kind::kIncremental);
  turns.push(11, 2, H2Turns::Kind::kWhole);
  std::vector<int32_t> order;
  for (; !turns.empty(); turns.pop()) {
    EXPECT_EQ(turns.front(), turns.front()) << "it keeps its turn";
    order.push_back(turns.front());
  }
  EXPECT_EQ(order, (std::vector<int32_t>{11, 1, 7, 3, 9, 5}));
}

TEST(H2Turns, ByBytesEachOfThoseInPiecesHasTheSame) {
  H2Turns turns;
  std::map<int32_t, uint64_t> after;
  std::map<int32_t, size_t> sent;
  const std::map<int32_t, size_t> frames{{1, 1000}, {3, 300}, {5, 10}};
  for (const auto& [stream, size] : frames) turns.push(stream, 3, H2Turns::Kind::kIncremental);
  for (int i = 0; i < 10'000; ++i) {
    const int32_t stream = turns.front();
    after[stream] = turns.sends(frames.at(stream));
    sent[stream] += frames.at(stream);
    turns.pop();
    turns.push(stream, 3, H2Turns::Kind::kIncremental, after[stream]);
  }
  for (const auto& [stream, bytes] : sent) EXPECT_NEAR(double(bytes), double(sent[1]), 2000) << stream;
  turns.push(7, 3, H2Turns::Kind::kIncremental);  // has not had one
  std::vector<int32_t> order;
  for (; !turns.empty(); turns.pop()) order.push_back(turns.front());
  EXPECT_LE(std::find(order.begin(), order.end(), 7) - order.begin(), 1);
}

// Frames of 256 KiB are for clients that take them. A token of another stream waits for one of them, not for one of
// each stream.
TEST(H2Turns, ATokenDoesNotWaitForALargeFrameOfEachStream) {
  constexpr size_t kLarge = 4;  // streams
  Streamed streamed;
  Server s;
  streamed.serve(s);
  s.feed(opening() + frame(4, 0, 0, "\0\4"s + u32(0x7fffffff) + "\0\5"s + u32(1 << 20)) + frame(8, 0, 0, u32(1 << 30)));
  for (uint32_t i = 0; i <= kLarge; ++i) s.feed(get(1 + 2 * i));
  for (Exchange* x : streamed.order) x->head({});
  for (size_t i = 0; i < kLarge; ++i) streamed.order.at(i)->body(base::Bytes::adopt(text_of(4 << 20)));
  for (size_t i = 0; i < kLarge; ++i) s.write_once();
  for (int tokens = 0; tokens < 5; ++tokens) {
    streamed.order.at(kLarge)->body(base::Bytes::copy_of("token"));
    size_t before = 0;
    for (bool came = false; !came && before < 4 << 20;)
      for (const Frame& frame : frames_of(s.write_once())) {
        came = came || frame.stream == 1 + 2 * kLarge;
        before += came ? 0 : frame.payload.size();
      }
    EXPECT_LE(before, 512u << 10);
  }
}

TEST(H2Turns, StreamsThatHaveGoneAreForgotten) {
  H2Turns turns;
  for (int32_t stream = 1; stream < 100; stream += 2) turns.push(stream, uint32_t(stream) % 8, H2Turns::Kind::kWhole);
  turns.filter([](int32_t stream) { return stream > 90; });
  EXPECT_EQ(turns.size(), 5u);
  EXPECT_EQ(turns.front(), 97);  // the most urgent of those that are left
  for (size_t n = turns.size(); n > 0; --n) turns.pop();
  EXPECT_TRUE(turns.empty());
}

TEST(H2ReceiveWindow, OpensByHalvesOfWhatIsDealtWith) {
  H2ReceiveWindow window(100);
  EXPECT_TRUE(window.take(60));
  EXPECT_EQ(window.give(40), 0u);
  EXPECT_EQ(window.give(20), 60u);
  EXPECT_TRUE(window.take(100));
  EXPECT_FALSE(window.take(1));
}

TEST(H2ReceiveWindow, ASmallerOneOpensOnlyWhenSoMuchHasCome) {
  H2ReceiveWindow window(100);
  EXPECT_EQ(window.resize(40), 0u);
  EXPECT_TRUE(window.take(50));
  EXPECT_EQ(window.give(50), 0u);
  EXPECT_TRUE(window.take(30));
  EXPECT_EQ(window.give(30), 20u);  // 20 were left
  EXPECT_EQ(window.resize(100), 60u);
}

// The peer may have nothing left to send with, so what was consumed by then is given back at once.
TEST(H2ReceiveWindow, AChangeBySettingsDoesNotLeaveThePeerWithout) {
  H2ReceiveWindow window;
  EXPECT_TRUE(window.take(16'000));
  EXPECT_EQ(window.give(16'000), 0u);
  EXPECT_EQ(window.shift(1'000 - wire::kH2FirstWindow), 16'000u);
}

}  // namespace
}  // namespace weir::test
