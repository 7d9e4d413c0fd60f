// HTTP/2: the coders of an idle connection's header blocks have been put away, and something happens.
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {
namespace {

using wire::Exchange;
using namespace std::chrono_literals;

constexpr int kPing = 6, kGoaway = 7, kWindowUpdate = 8, kRstStream = 3, kSettings = 4;

std::vector<Frame> frames_of_type(std::string_view bytes, int type) {
  std::vector<Frame> found;
  for (Frame& frame : frames_of(bytes))
    if (frame.type == type) found.push_back(std::move(frame));
  return found;
}

// A server and its client after one request, asleep since some seconds.
struct Idle {
  explicit Idle(wire::Limits limits = {}) : server(limits) {
    server.intake.on_whole = [](Exchange& x) {
      wire::Response answer;
      answer.fields.add("x-answer", "entered into the table");
      x.head(std::move(answer));
      x.body(x.content());
      x.end({});
    };
    ask();
    sleep();
  }
  void sleep() {
    server.advance(3s);
    client.talk(server);
    server.advance(3s);
  }
  // One whole request, with fields of both sides' tables.
  void ask(const std::string& value = "of the request's table") {
    const int32_t id = client.request(with(kPost, {{"x-question", value}}), "body of " + value);
    client.talk(server);
    EXPECT_EQ(client[id].body, "body of " + value);
    EXPECT_EQ(client[id].field("x-answer"), "entered into the table");
    EXPECT_EQ(Answer::find(server.intake.seen.back().fields, "x-question"), value);
  }

  Server server;
  Client client;
};

TEST(H2Dormant, BothTablesOfFieldsAreWhatTheyWere) {
  Idle idle;
  const size_t first = nghttp2_session_get_hd_inflate_dynamic_table_size(idle.client.session);
  EXPECT_GT(first, 0u);
  for (int i = 0; i < 5; ++i) {
    idle.ask();  // all of indices: a table that is not the same answers with other fields, or with COMPRESSION_ERROR
    idle.ask("new " + std::to_string(i));
    idle.sleep();
  }
  EXPECT_TRUE(idle.client.goaways.empty());
}

// The peer's tables shrink, vanish and grow beyond what they were while the session is away.
TEST(H2Dormant, SettingsComeWhileItSleeps) {
  Idle idle;
  for (uint32_t size : {0u, 100u, 4096u, 60000u, 4096u}) {
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, size},
                                               {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1000 + size}};
    nghttp2_submit_settings(idle.client.session, 0, settings, 2);
    idle.client.talk(idle.server);
    idle.sleep();
    idle.ask();
    idle.ask("with a table of " + std::to_string(size));
    idle.sleep();
  }
  EXPECT_TRUE(idle.client.goaways.empty());
}

TEST(H2Dormant, FramesOfTheConnectionComeWhileItSleeps) {
  Idle idle;
  idle.server.feed(frame(kPing, 0, 0, "12345678"));
  const auto pongs = frames_of_type(idle.server.take(), kPing);
  ASSERT_EQ(pongs.size(), 1u);
  EXPECT_EQ(pongs[0].payload, "12345678");
  EXPECT_EQ(pongs[0].flags, kAck);
  idle.sleep();
  idle.server.feed(frame(kWindowUpdate, 0, 0, std::string("\0\0\1\0", 4)));
  EXPECT_EQ(idle.server.take(), "");
  idle.sleep();
  idle.server.feed(frame(kWindowUpdate, 0, 1, std::string("\0\0\1\0", 4)));  // of a stream that is over
  idle.server.feed(frame(kRstStream, 0, 1, std::string("\0\0\0\x8", 4)));
  idle.sleep();
  idle.ask();
  EXPECT_TRUE(idle.client.goaways.empty());
}

// The window that was widened while it slept, and again, is there for a large answer.
TEST(H2Dormant, AWindowUpdateIsNotLost) {
  Idle idle;
  const nghttp2_settings_entry wide{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20};
  nghttp2_submit_settings(idle.client.session, 0, &wide, 1);
  idle.client.talk(idle.server);
  for (int i = 0; i < 2; ++i) {
    idle.sleep();
    idle.server.feed(frame(kWindowUpdate, 0, 0, std::string("\0\0\x80\0", 4)));
  }
  idle.sleep();
  idle.server.intake.on_whole = [](Exchange& x) { x.respond_text(200, "a/b", text_of(200000)); };
  idle.client.request(kGet);
  idle.server.feed(idle.client.output());
  size_t sent = 0;
  for (const Frame& frame : frames_of_type(idle.server.take(), 0)) sent += frame.payload.size();
  EXPECT_GT(sent, 0xffffu);
  EXPECT_LE(sent, 0xffffu + 0x10000u);
}

TEST(H2Dormant, ABadFrameIsStillRefused) {
  Idle idle;
  idle.server.feed(frame(kWindowUpdate, 0, 0, std::string("\0\0\0\0", 4)));  // an increment of 0
  const auto goaways = frames_of_type(idle.server.take(), kGoaway);
  ASSERT_EQ(goaways.size(), 1u);
  EXPECT_EQ(goaways[0].payload.substr(4, 4), std::string("\0\0\0\1", 4));  // PROTOCOL_ERROR
  EXPECT_TRUE(idle.server.codec->finished());
}

TEST(H2Dormant, AGoawayOfThePeerEndsIt) {
  Idle idle;
  EXPECT_FALSE(idle.server.codec->finished());
  idle.server.feed(frame(kGoaway, 0, 0, std::string(8, '\0')));
  idle.server.take();
  idle.sleep();
  idle.server.codec->eof();
  EXPECT_TRUE(idle.server.codec->finished());
}

TEST(H2Dormant, TheEndOfThePeersSideEndsIt) {
  Idle idle;
  EXPECT_TRUE(idle.server.codec->wants_read());
  EXPECT_FALSE(idle.server.codec->finished());
  idle.server.codec->eof();
  EXPECT_TRUE(idle.server.codec->finished());
  idle.server.codec->closed();
}

TEST(H2Dormant, ADrainReachesIt) {
  Idle idle;
  idle.server.codec->drain(wire::Drain::kAnnounce);
  auto goaways = frames_of_type(idle.server.take(), kGoaway);
  ASSERT_EQ(goaways.size(), 1u);
  EXPECT_EQ(goaways[0].payload, std::string("\x7f\xff\xff\xff\0\0\0\0", 8));
  EXPECT_FALSE(idle.server.codec->finished());
  idle.server.advance(2s);
  EXPECT_FALSE(idle.server.codec->finished());
  idle.server.codec->drain(wire::Drain::kRefuse);
  goaways = frames_of_type(idle.server.take(), kGoaway);
  ASSERT_EQ(goaways.size(), 1u);
  EXPECT_EQ(goaways[0].payload, std::string("\0\0\0\1\0\0\0\0", 8));
  EXPECT_TRUE(idle.server.codec->finished());
}

TEST(H2Dormant, ItIsOverAfterTheIdleTime) {
  wire::Limits limits;
  limits.idle = 20s;
  Idle idle(limits);
  idle.server.advance(12s);
  EXPECT_FALSE(idle.server.codec->finished());
  idle.server.advance(10s);
  idle.client.talk(idle.server);
  ASSERT_EQ(idle.client.goaways.size(), 1u);
  EXPECT_EQ(idle.client.goaways[0].second, 0u);
  EXPECT_TRUE(idle.server.codec->finished());
}

// A reset of the peer's, and a server that ends: the session is let go of while it is away.
TEST(H2Dormant, ItMayEndWhereverItIs) {
  for (int rounds = 0; rounds < 3; ++rounds) {
    Idle idle;
    if (rounds == 1) idle.server.codec->closed();
    if (rounds == 2) idle.server.restart();
  }
}

// One that sends a field of the table's size as the longest that HPACK's Huffman code makes of it: the library asks for
// as much memory for that as for a frame. A larger frame has taken the first one's place before.
TEST(H2Dormant, AFieldOfThePeersIsNotInTheRoomForAFrame) {
  Idle idle;
  const nghttp2_settings_entry large[] = {{NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 1 << 16},
                                          {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}};
  nghttp2_submit_settings(idle.client.session, 0, large, 2);
  idle.client.talk(idle.server);
  const auto echoes = idle.server.intake.on_whole;
  idle.server.intake.on_whole = [](Exchange& x) { x.respond_text(200, "a/b", text_of(60000)); };
  const int32_t id = idle.client.request(kGet);
  idle.client.talk(idle.server);
  ASSERT_EQ(idle.client[id].body.size(), 60000u);
  idle.server.intake.on_whole = echoes;

  constexpr size_t kLetters = 2450;  // each 0xf9, in 28 bits
  std::string code;
  for (size_t i = 0; i < kLetters / 2; ++i) code += std::string("\xff\xff\xff\xef\xff\xff\xfe", 7);
  const size_t more = code.size() - 127;  // RFC 7541, 5.1
  std::string length{char(0xff), char(0x80 | (more & 0x7f)), char(more >> 7)};
  const std::string get = std::string("\x82\x86\x84\x01\x01x", 6);
  idle.server.feed(
      frame(1, kEndHeaders | kEndStream, uint32_t(id + 2), get + std::string("\x40\x05x-big", 7) + length + code));
  idle.server.take();
  EXPECT_EQ(Answer::find(idle.server.intake.seen.back().fields, "x-big"), std::string(kLetters, char(0xf9)));
  idle.server.advance(3s);
  idle.server.take();
  idle.server.advance(3s);
  idle.server.feed(frame(1, kEndHeaders | kEndStream, uint32_t(id + 4), get + char(0xbe)));  // the newest of the table
  idle.server.take();
  EXPECT_EQ(Answer::find(idle.server.intake.seen.back().fields, "x-big"), std::string(kLetters, char(0xf9)));
}

uint64_t resident_bytes() {
  uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * uint64_t(::sysconf(_SC_PAGESIZE));
}

// The system has the page of a sleeping connection's coders back, and a tick of an idle connection does not wake it.
TEST(H2Dormant, PagesAreBackAfterATickAndStayAway) {
  constexpr size_t kMany = 400, kLeast = 3 << 10;  // bytes each: the page of the coders
  std::vector<std::unique_ptr<Idle>> all;
  for (size_t i = 0; i < kMany; ++i) all.push_back(std::make_unique<Idle>());
  const uint64_t asleep = resident_bytes();
  for (auto& idle : all) idle->ask();
  const uint64_t awake = resident_bytes();
  EXPECT_GT(awake, asleep + kMany * kLeast);
  for (auto& idle : all) idle->sleep();
  EXPECT_LT(resident_bytes(), awake - kMany * kLeast);
  for (auto& idle : all) idle->server.advance(10s);
  EXPECT_LT(resident_bytes(), awake - kMany * kLeast);
}

}  // namespace
}  // namespace weir::test
