// The HTTP/2 client and a server that is an enemy: floods cost it little time and little memory, and a table of HPACK
// that changes leaves no head wrong.
#include <chrono>
#include <ctime>
#include <deque>
#include <string>

#include <gtest/gtest.h>

#include "support/client_codec.h"
#include "support/h2_client.h"
#include "wire/client_codec.h"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using support::feed, support::output_of;
using wire::Fields;

struct Ended final : wire::ClientAnswer {
  int heads = 0, ends = 0, failures = 0;
  Headers fields;

  void on_head(int, const Fields& its) override {
    ++heads;
    fields.clear();
    for (size_t i = 0; i < its.size(); ++i) fields.emplace_back(its[i].name, its[i].value);
  }
  size_t on_body(std::span<const std::byte> piece) override { return piece.size(); }
  void on_end(const Fields&) override { ++ends; }
  void on_failed(const base::Status&) override { ++failures; }
};

wire::ClientRequest get_of(std::string target = "/") { return {"GET", "http", "h", std::move(target), {}, {}}; }

// A connection with so many requests whose server has sent and taken SETTINGS.
struct Rig {
  explicit Rig(size_t requests) : answers(requests) {
    feed(*codec, frame(4, 0, 0, "") + frame(4, kAck, 0, ""));
    for (Ended& answer : answers) {
      codec->send(get_of(), answer);
      output_of(*codec);
    }
  }
  // Processor time that one piece of input takes.
  std::chrono::nanoseconds time_of(const std::string& bytes) {
    const std::clock_t from = std::clock();
    codec->feed(std::as_bytes(std::span(bytes)));
    return std::chrono::nanoseconds((std::clock() - from) * (1'000'000'000 / CLOCKS_PER_SEC));
  }
  std::deque<Ended> answers;
  std::unique_ptr<wire::ClientCodec> codec = wire::make_h2_client();
};

std::string repeated(const std::string& text, size_t bytes) {
  std::string out;
  while (out.size() + text.size() <= bytes) out += text;
  return out;
}

constexpr size_t kOneRead = 256 << 10;

// One octet names a field of 4 KiB in the table.
TEST(H2ClientFlood, AFieldIsNotLookedAtForEachOctetThatNamesIt) {
  for (uint32_t stream : {1u, 3u}) {  // the second has been cancelled
    Rig rig(2);
    rig.codec->cancel(rig.answers[1]);
    std::string bomb = std::string("\x88\x40\x01x\x7f", 5) + '\xa1' + '\x1e' + std::string(4000, 'v');
    bomb.resize(kOneRead - 9, '\xbe');
    EXPECT_LT(rig.time_of(frame(1, kEndHeaders, stream, bomb)), 250ms);
    EXPECT_EQ(rig.answers[0].failures, 1);
    EXPECT_TRUE(rig.codec->finished());
  }
}

// Nobody gets them, and still they have to be decoded.
TEST(H2ClientFlood, ManyHeadsOfStreamsThatAreGoneEndTheConnection) {
  const std::string entry = std::string("\x88\x40\x01x\x7f", 5) + '\xa1' + '\x1e' + std::string(4000, 'v');
  for (const std::string& late : {std::string("\x88"), '\x88' + std::string(15, '\xbe'), std::string(16'000, '\xbe')}) {
    Rig rig(2);
    rig.codec->cancel(rig.answers[1]);
    feed(*rig.codec, frame(1, kEndHeaders, 1, entry));
    const std::string flood = repeated(frame(1, kEndHeaders, 3, late), kOneRead);
    std::chrono::nanoseconds took{};
    for (int reads = 0; reads < 100 && !rig.codec->finished(); ++reads) took += rig.time_of(flood);
    EXPECT_TRUE(rig.codec->finished()) << late.size();
    EXPECT_LT(took, 100ms);
  }
}

TEST(H2ClientFlood, LateHeadsOfAThousandRequestsThatWereCancelledAreTaken) {
  Rig rig(0);
  for (int round = 0; round < 20; ++round) {
    const uint32_t first = uint32_t(2 * rig.answers.size() + 1);
    for (int i = 0; i < 1024; ++i) {
      rig.codec->send(get_of(), rig.answers.emplace_back());
      if (i > 0) rig.codec->cancel(rig.answers.back());
      output_of(*rig.codec);
    }
    for (uint32_t id = first; id < first + 2048; id += 2) {
      feed(*rig.codec, frame(1, kEndHeaders, id, "\x88"));
      feed(*rig.codec, frame(1, kEndHeaders | kEndStream, id, block({{"grpc-status", "0"}})));
    }
  }
  EXPECT_FALSE(rig.codec->finished());
}

TEST(H2ClientFlood, ManyFirstWindowsOfManyStreamsCostLittle) {
  Rig rig(20'000);
  std::string entries;
  for (int i = 0; i < 32; ++i) entries += std::string{0, 4} + u32(uint32_t(60'000 + i));
  EXPECT_LT(rig.time_of(repeated(frame(4, 0, 0, entries), 190 * 201)), 250ms);
}

TEST(H2ClientFlood, ManyGoawaysCostLittle) {
  Rig rig(20'000);
  std::string flood;
  for (uint32_t i = 0; i < 15'000; ++i) flood += frame(7, 0, 0, u32(39'999 - 2 * (i / 2)) + u32(0));
  EXPECT_LT(rig.time_of(flood), 250ms);
  EXPECT_TRUE(rig.codec->finished());
  for (const Ended& answer : rig.answers) EXPECT_LE(answer.failures, 1);
}

TEST(H2ClientFlood, FramesOfStreamsThatAreGoneCostLittle) {
  Rig rig(0);
  for (size_t i = 0; i < 12'288 + 3000; ++i) {
    rig.codec->send(get_of(), rig.answers.emplace_back());
    if (i < 12'288) rig.codec->cancel(rig.answers.back());
    output_of(*rig.codec);
  }
  // The table has 8192 places, and this id would be in the first of those that are taken.
  EXPECT_LT(rig.time_of(repeated(frame(8, 0, 8193, u32(1)), kOneRead)), 50ms);
}

// Whoever asks an origin that hangs leaves in the end, and all who wait for it leave together.
TEST(H2ClientFlood, ManyAnswersThatAreCancelledCostLittle) {
  Rig rig(30'000);
  const std::clock_t from = std::clock();
  for (Ended& answer : rig.answers) {
    rig.codec->consume(answer, 1);
    rig.codec->cancel(answer);
    rig.codec->cancel(answer);
  }
  EXPECT_LT(std::clock() - from, CLOCKS_PER_SEC / 10);
  EXPECT_TRUE(rig.codec->idle());
}

// It answers without a look at what is asked.
TEST(H2ClientFlood, WhoDoesNotReadIsNotAskedForEver) {
  for (bool answers_all : {true, false}) {
    Rig rig(0);
    size_t asked = 0, bytes = 0;
    std::deque<Ended> answers;
    Ended held;
    if (!answers_all) rig.codec->send(get_of(), held);
    for (; asked < 5000 && rig.codec->has_room(); ++asked) {
      rig.codec->send(get_of('/' + std::string(8000, 'a')), answers.emplace_back());
      const uint32_t stream = uint32_t(2 * asked + (answers_all ? 1 : 3));
      feed(*rig.codec, frame(1, kEndHeaders | kEndStream, stream, block({{":status", "503"}})));
    }
    EXPECT_LT(asked, 500u);
    EXPECT_EQ(rig.codec->finished(), answers_all) << "where nothing runs, nothing is waited for";
    bytes = output_of(*rig.codec).size();
    EXPECT_LT(bytes, 3u << 20);
    EXPECT_TRUE(rig.codec->has_room()) << "it reads again";
    for (const Ended& answer : answers) EXPECT_EQ(answer.ends, 1);
  }
}

// A block that names entries of the table is known only as long as these are the same.
TEST(H2ClientFlood, AKnownHeadIsForgottenAsTheTableChanges) {
  const std::string added_a = std::string("\x88\x40\x01x\x01", 5) + "a",
                    added_b = std::string("\x88\x40\x01x\x01", 5) + "b";
  const std::string indexed = "\x88\xbe", name_indexed = std::string("\x88\x0f\x2f\x01", 4) + "c";
  const std::string emptied = std::string("\x20\x3f\xe1\x1f\x88", 5);  // the table's size: 0, then 4096
  for (int way = 0; way < 4; ++way) {
    Rig rig(20);
    uint32_t next = 1;
    auto head = [&](const std::string& block) {
      feed(*rig.codec, frame(1, kEndHeaders | kEndStream, next, block));
      next += 2;
      return rig.answers[(next - 3) / 2].fields;
    };
    const Headers a{{"x", "a"}}, b{{"x", "b"}}, c{{"x", "c"}};
    EXPECT_EQ(head(added_a), a);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(head(indexed), a) << "known by now";
    for (int i = 0; i < 4; ++i) EXPECT_EQ(head(name_indexed), c);
    if (way == 0) {
      EXPECT_EQ(head(added_b), b);
    }
    if (way == 1) {  // on a stream that has gone
      rig.codec->cancel(rig.answers[19]);
      feed(*rig.codec, frame(1, kEndHeaders | kEndStream, 39, added_b));
    }
    if (way == 2) {  // in two frames, of which the second one changes it
      feed(*rig.codec, frame(1, kEndStream, next, added_b.substr(0, 1)));
      feed(*rig.codec, frame(9, kEndHeaders, next, added_b.substr(1)));
      next += 2;
    }
    if (way == 3) {
      EXPECT_EQ(head(emptied), Headers{});
    }
    if (way < 3) {
      EXPECT_EQ(head(indexed), b);
      EXPECT_EQ(head(name_indexed), c);
      continue;
    }
    head(indexed);
    EXPECT_TRUE(rig.codec->finished()) << "it names an entry that is not there";
  }
}

}  // namespace
}  // namespace weir::test
