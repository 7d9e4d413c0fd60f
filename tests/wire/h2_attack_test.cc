// Attacks of hostile peers, and the fate of each: reliability is tested here row by row.
#include <functional>
#include <random>

#include "support/h2_client.h"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using base::Bytes;
using wire::Exchange;

// Reason of the GOAWAY among `frames`; -1: none.
int64_t goaway_code(const std::vector<Frame>& frames) {
  for (const Frame& f : frames) {
    if (f.type != 7) continue;
    const auto* p = reinterpret_cast<const uint8_t*>(f.payload.data()) + 4;
    return int64_t(p[0]) << 24 | p[1] << 16 | p[2] << 8 | p[3];
  }
  return -1;
}

constexpr int64_t kCalm = 11, kProtocol = 1;

struct Attack {
  const char* name;
  std::function<std::string(uint32_t)> nth;  // bytes of round i
  std::string_view reason;
  int64_t code;
  uint32_t rounds;  // within which it must be over
};

std::string id_of_round(uint32_t i, const std::function<std::string(uint32_t)>& make) { return make(2 * i + 1); }

const std::vector<Attack> kAttacks{
    {"rapid reset", [](uint32_t i) { return id_of_round(i, [](uint32_t s) { return post(s) + rst(s); }); }, "h2_rst_rx",
     kCalm, 250},
    {"rapid reset of what is answered at once",
     [](uint32_t i) { return id_of_round(i, [](uint32_t s) { return get(s) + rst(s); }); }, "h2_rst_rx", kCalm, 250},
    {"window overflow",
     [](uint32_t i) { return id_of_round(i, [](uint32_t s) { return post(s) + frame(8, 0, s, u32(0x7fffffff)); }); },
     "h2_rst_tx", kCalm, 110},
    {"content-length mismatch",
     [](uint32_t i) {
       return id_of_round(i, [](uint32_t s) {
         return frame(1, kEndHeaders, s, block(with(kPost, {{"content-length", "3"}}))) +
                frame(0, kEndStream, s, "12345");
       });
     },
     "h2_rst_tx", kCalm, 110},
    {"upper-case name",
     [](uint32_t i) {
       return id_of_round(i, [](uint32_t s) {
         return frame(1, kEndHeaders | kEndStream, s, block(with(kGet, {{"Bad", "1"}})));
       });
     },
     "h2_rst_tx", kCalm, 110},
    {"pseudo field in trailers",
     [](uint32_t i) {
       return id_of_round(i, [](uint32_t s) {
         return post(s) + frame(1, kEndHeaders | kEndStream, s, block({{":path", "/"}}));
       });
     },
     "h2_rst_tx", kCalm, 110},
    {"ping", [](uint32_t) { return frame(6, 0, 0, "12345678"); }, "h2_ping", kCalm, 101},
    {"settings", [](uint32_t) { return frame(4, 0, 0, ""); }, "h2_settings", kCalm, 10},
    {"empty data", [](uint32_t i) { return (i == 0 ? post(1) : "") + frame(0, 0, 1, ""); }, "h2_empty", kCalm, 2},
    {"padding only",
     [](uint32_t i) { return (i == 0 ? post(1) : "") + frame(0, kPadded, 1, std::string("\2\0\0", 3)); }, "h2_empty",
     kCalm, 2},
    {"priority", [](uint32_t) { return frame(2, 0, 1, u32(0) + "x"); }, "h2_prio", kCalm, 101},
    {"unknown frames", [](uint32_t) { return frame(0x42, 0, 0, "x"); }, "h2_prio", kCalm, 101},
    {"window updates", [](uint32_t) { return frame(8, 0, 0, u32(1)); }, "h2_window", kCalm, 6},
    {"continuation",
     [](uint32_t i) {
       return i == 0 ? frame(1, 0, 1, block(kGet)) : frame(9, 0, 1, block({{"a", "b"}}));
     },
     "h2_continuation", kCalm, 10},
    {"skipped id", [](uint32_t i) { return get(i == 0 ? 101 : 1); }, "h2_stream_id", kProtocol, 2},
    {"hpack bomb",
     [](uint32_t i) {
       // One indexed literal (RFC 7541 §6.2.1), then references to it.
       std::string big = block(kGet);
       big += std::string("\x40\1a\x7f\x81\x1d", 6) + std::string(3840, 'v');
       return i == 0 ? frame(1, kEndHeaders, 1, big + std::string(10000, '\xbe')) : frame(0, 0, 1, "x");
     },
     "header_bytes", kCalm, 1},
    {"no preface", [](uint32_t) { return std::string("GET / HTTP/1.1\r\nHost: example\r\n\r\n"); }, "preface",
     kProtocol, 1},
    {"data on stream 0", [](uint32_t) { return frame(0, 0, 0, "x"); }, "parse", kProtocol, 1},
    {"headers on an even stream", [](uint32_t) { return get(2); }, "parse", kProtocol, 1},
};

TEST(H2Attack, EachEndsInItsGoawayAndIsCountedOnce) {
  for (const Attack& a : kAttacks) {
    Server s;
    if (a.reason != "preface") s.feed(opening());
    s.take();
    int64_t code = -1;
    uint32_t round = 0;
    for (; round < a.rounds + 1 && !s.codec->finished(); ++round) {
      s.feed(a.nth(round));
      int64_t now = goaway_code(frames_of(s.take()));
      if (now >= 0) code = now;
    }
    EXPECT_LE(round, a.rounds) << a.name;
    if (a.reason == "h2_rst_tx") {
      EXPECT_EQ(round, s.limits.glitches.burst + 1) << a.name << ": each is counted once";
    }
    EXPECT_EQ(code, a.code) << a.name;
    EXPECT_TRUE(s.codec->finished()) << a.name;
    ASSERT_EQ(s.intake.rejections.size(), 1u) << a.name;
    EXPECT_EQ(s.intake.rejections[0], a.reason) << a.name;
    EXPECT_EQ(s.intake.begun, s.intake.closes) << a.name;
    // Nothing comes afterwards.
    s.feed(a.nth(round));
    EXPECT_EQ(s.take(), "") << a.name;
  }
}

TEST(H2Attack, TheSameInOneReadWithoutReadingOurs) {
  for (const Attack& a : kAttacks) {
    Server s;
    std::string bytes = a.reason != "preface" ? opening() : "";
    for (uint32_t i = 0; i < 3 * a.rounds; ++i) bytes += a.nth(i);
    s.feed(bytes);
    for (int i = 0; i < 1000 && !s.codec->finished(); ++i) {
      s.write_once();
      s.next_turn();
    }
    EXPECT_TRUE(s.codec->finished()) << a.name;
    EXPECT_EQ(s.intake.rejections.size(), 1u) << a.name;
    EXPECT_EQ(s.intake.begun, s.intake.closes) << a.name;
    EXPECT_LE(s.intake.begun, 300u) << a.name;
  }
}

TEST(H2Attack, TooManyFieldsAre431AndTheConnectionLives) {
  Server s;
  Client c;
  Headers many = kGet;
  for (int i = 0; i < 150; ++i) many.emplace_back("x-" + std::to_string(i), "v");
  Headers large = with(kGet, {{"x-large", std::string(20000, 'v')}});
  Headers grpc = with(many, {{"content-type", "application/grpc;charset=utf-8"}});
  int32_t first = c.request(many), second = c.request(large), third = c.request(grpc), fine = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(c[first].status(), "431");
  EXPECT_EQ(c[second].status(), "431");
  EXPECT_EQ(c[third].status(), "200");
  EXPECT_EQ(c[third].field("grpc-status"), "8");
  EXPECT_EQ(c[fine].status(), "200");
  EXPECT_EQ(s.intake.begun, 1u);
  EXPECT_EQ(s.intake.rejections, (std::vector<std::string>{"header_count", "header_bytes", "header_count"}));
}

TEST(H2Attack, MoreStreamsThanAllowedBeforeTheAckAreRefused) {
  Server s;
  s.intake.on_begin = [](Exchange&) { return wire::Plan{wire::BodyPlan::kStream, 0}; };
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "");
  for (uint32_t i = 0; i < 500; ++i) bytes += post(2 * i + 1);
  s.feed(bytes);
  size_t refused = 0;
  for (int i = 0; i < 100; ++i, s.next_turn())
    for (const Frame& f : frames_of(s.write_once())) refused += f.type == 3 && f.payload == u32(7);
  EXPECT_EQ(s.intake.begun, 100u);
  EXPECT_EQ(refused, 400u);
  EXPECT_FALSE(s.codec->finished());
}

TEST(H2Attack, TheLastStreamIdIsAnsweredAndEndsTheConnectionInPeace) {
  Server s;
  s.feed(opening());
  s.take();
  s.feed(get(0x7fffffff));
  auto frames = frames_of(s.take());
  EXPECT_EQ(goaway_code(frames), 0);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_TRUE(s.codec->finished());
}

TEST(H2Attack, NoSettingsAckEndsTheConnection) {
  Server s;
  s.feed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, ""));
  s.take();
  s.advance(9s);
  EXPECT_FALSE(s.codec->finished());
  s.advance(1s);
  EXPECT_EQ(goaway_code(frames_of(s.take())), 4);  // SETTINGS_TIMEOUT
  EXPECT_TRUE(s.codec->finished());
  EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"h2_settings"});
}

TEST(H2Attack, ASlowHeaderBlockEndsTheConnection) {
  for (bool whole_frames : {false, true}) {
    Server s;
    s.feed(opening());
    s.take();
    std::string bytes = whole_frames ? frame(1, 0, 1, block(kGet)) : get(1).substr(0, 20);
    s.feed(bytes);
    for (int i = 0; i < 12; ++i) {
      s.advance(1s);
      if (!whole_frames && i < 5) s.feed(get(1).substr(20 + i, 1));  // a drip
    }
    EXPECT_TRUE(s.codec->finished());
    EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"slow_header"});
  }
}

TEST(H2Attack, WhereMemoryIsScarceALargeBodyMustComeSwiftly) {
  wire::RequestRecord ledger;
  Server s;
  s.intake.on_closed = [&](Exchange& x) { ledger = std::move(x.record()); };
  s.feed(opening() + frame(1, kEndHeaders, 1, block(with(kPost, {{"content-length", "900000"}}))));
  s.feed(frame(0, 0, 1, std::string(500000, 'x')));
  auto drip = [&] {
    for (int i = 0; i < 40; ++i) {
      s.feed(frame(0, 0, 1, std::string(2000, 'x')));
      s.advance(1s);
      s.take();
    }
  };
  drip();
  EXPECT_EQ(ledger.reject, "");
  s.slabs.is_scarce = true;
  drip();
  EXPECT_EQ(ledger.reject, "slow_body");
}

// Heads first, then one body after the other: those that wait are as fast as their connection lets them be.
TEST(H2Attack, BodiesThatWaitForEachOtherAreNotSlow) {
  for (size_t a_second : {size_t(100'000), size_t(15'000)}) {
    constexpr uint32_t kBodies = 20;
    Server s;
    size_t answered = 0, slow = 0;
    s.intake.on_whole = [&](Exchange& x) { ++answered, x.respond(200, "a/b", Bytes()); };
    s.intake.on_closed = [&](Exchange& x) { slow += x.record().reject == "slow_body"; };
    std::string heads = opening();
    for (uint32_t i = 0; i < kBodies; ++i) heads += post(2 * i + 1);
    s.feed(heads);
    for (uint32_t i = 0; i < kBodies; ++i)
      for (size_t sent = 0; sent < 200'000; sent += a_second) {
        for (size_t n = 0; n < a_second; n += 5000) s.feed(frame(0, 0, 2 * i + 1, std::string(5000, 'x')));
        if (sent + a_second >= 200'000) s.feed(frame(0, kEndStream, 2 * i + 1, ""));
        s.advance(1s);
        s.take();
      }
    // 20 bodies have to bring 20 KiB a second together.
    EXPECT_EQ(answered, a_second == 100'000 ? kBodies : 1u);
    EXPECT_EQ(slow, kBodies - answered);
  }
}

TEST(H2Attack, ASlowBodyIsCutOffAndAStreamedOneMayPause) {
  wire::RequestRecord ledger;
  Server s;
  s.intake.on_closed = [&](Exchange& x) { ledger = std::move(x.record()); };
  s.feed(opening() + post(1));
  s.take();
  for (int i = 0; i < 12; ++i) {
    s.feed(frame(0, 0, 1, "x"));
    s.advance(1s);
  }
  auto frames = frames_of(s.take());
  EXPECT_EQ(frames.back().type, 3);
  EXPECT_EQ(frames.back().payload, u32(8));
  EXPECT_EQ(ledger.reject, "slow_body");
  EXPECT_FALSE(s.codec->finished());

  s.intake.on_begin = [](Exchange&) { return wire::Plan{wire::BodyPlan::kStream, 0}; };
  s.feed(post(3));
  s.advance(290s);
  EXPECT_EQ(s.take(), "");
  s.advance(12s);
  frames = frames_of(s.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].type, 3);
  EXPECT_EQ(ledger.reject, "idle");
}

TEST(H2Attack, DripsOfWindowDoNotKeepAnAnswerAlive) {
  wire::RequestRecord ledger;
  Server s;
  s.intake.on_closed = [&](Exchange& x) { ledger = std::move(x.record()); };
  s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(std::string(100000, 'x'))); };
  // INITIAL_WINDOW_SIZE 0
  s.feed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, std::string("\0\4", 2) + u32(0)) + frame(4, kAck, 0, ""));
  s.feed(get(1));
  std::vector<Frame> frames;
  int seconds = 0;
  for (; seconds < 60 && s.intake.closes == 0; ++seconds) {
    s.feed(frame(8, 0, 1, u32(1)));
    for (const Frame& f : frames_of(s.take())) frames.push_back(f);
    s.advance(1s);
  }
  for (const Frame& f : frames_of(s.take())) frames.push_back(f);
  EXPECT_LE(seconds, 12);
  EXPECT_EQ(frames.back().type, 3);
  EXPECT_EQ(ledger.reject, "slow_read");
  EXPECT_EQ(s.intake.closes, 1u);
}

TEST(H2Attack, ASocketThatDoesNotDrainEndsTheConnection) {
  Server s;
  s.intake.on_whole = [](Exchange& x) { x.respond(200, "a/b", Bytes::adopt(std::string(100000, 'x'))); };
  s.feed(opening() + get(1));
  std::array<iovec, 8> pieces;
  for (int i = 0; i < 12; ++i) {
    if (s.codec->pending(pieces) > 0) s.codec->consumed(1);
    s.advance(1s);
    EXPECT_TRUE(i >= 9 || !s.codec->finished()) << "it has ten seconds";
  }
  EXPECT_TRUE(s.codec->finished());
  EXPECT_EQ(s.codec->pending(pieces), 0u);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"slow_read"});
}

TEST(H2Attack, UnreadAnswersDoNotPileUp) {
  wire::Limits limits;
  limits.pings = {1u << 20, 1u << 20};
  Server s(limits);
  s.feed(opening());
  std::array<iovec, 8> pieces;
  int n = 0;
  for (; n < 5000 && !s.codec->finished(); ++n) {
    s.feed(frame(6, 0, 0, "12345678"));
    s.codec->pending(pieces);  // never taken
  }
  EXPECT_LE(n, 202);
  EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"h2_outbound"});
}

TEST(H2Attack, ARandomSoupOfFramesNeverHurts) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](uint32_t n) { return uint32_t(random() % n); };
    std::vector<Exchange*> streaming;
    Server s;
    s.intake.on_begin = [&](Exchange& x) {
      switch (pick(4)) {
        case 0: x.respond(404, "a/b", Bytes::copy_of("no")); return wire::Plan{};
        case 1: return wire::Plan{wire::BodyPlan::kIgnore, 0};
        case 2: streaming.push_back(&x); return wire::Plan{wire::BodyPlan::kStream, 0};
        default: return wire::Plan{};
      }
    };
    s.intake.on_closed = [&](Exchange& x) { std::erase(streaming, &x); };
    s.feed(opening());
    uint32_t next = 1;
    for (int i = 0; i < 100; ++i) {
      uint32_t stream = pick(4) ? (next > 1 ? 1 + 2 * pick(next / 2) : 1) : pick(10);
      std::string bytes;
      switch (pick(9)) {
        case 0:
        case 1:
        case 2:
          bytes = frame(1, kEndHeaders | int(pick(2)), next, block(pick(2) ? kGet : kPost));
          next += 2;
          break;
        case 3: bytes = frame(0, int(pick(2)), stream, std::string(pick(3000), 'd')); break;
        case 4: bytes = rst(stream); break;
        case 5: bytes = frame(8, 0, stream, u32(pick(2) ? pick(100000) : random())); break;
        case 6: bytes = frame(int(pick(12)), int(pick(256)), stream, std::string(pick(20), char(pick(256)))); break;
        case 7: bytes = frame(1, kEndHeaders | int(pick(2)), stream, std::string(pick(30), char(pick(256)))); break;
        default: bytes = frame(7, 0, 0, u32(pick(20)) + u32(pick(12)));
      }
      if (pick(20) == 0) bytes = bytes.substr(0, pick(uint32_t(bytes.size() + 1)));
      s.feed(bytes);
      if (!streaming.empty() && pick(3) == 0) {
        Exchange& x = *streaming[pick(uint32_t(streaming.size()))];
        switch (pick(4)) {
          case 0: x.head({}); break;
          case 1: x.body(Bytes::adopt(std::string(pick(70000), 'r'))); break;
          case 2: x.end(); break;
          default: x.reset(wire::Reset::kInternal);
        }
      }
      if (pick(2)) s.write_once();
      if (pick(10) == 0) s.advance(std::chrono::seconds(pick(4)));
    }
    s.take();
    if (pick(2)) s.codec->eof();
    s.codec->closed();
    EXPECT_EQ(s.intake.begun, s.intake.closes) << seed;
    EXPECT_LE(s.intake.rejections.size(), 1u) << seed;
  }
}

}  // namespace
}  // namespace weir::test
