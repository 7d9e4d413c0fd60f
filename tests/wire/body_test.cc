#include "wire/body.h"

#include <gtest/gtest.h>

#include <string>

#include "support/fake_wire.h"
#include "support/split_feed.h"

namespace weir::wire {
namespace {

using State = BodyCollector::State;
using support::FakeSlabs;

std::string text_of(size_t n) {
  std::string out;
  for (size_t i = 0; out.size() < n; ++i) out += std::to_string(i * 7919) + " ";
  out.resize(n);
  return out;
}

std::string gzip(std::string_view text) {
  base::Bytes piece = base::Bytes::copy_of(text);
  return std::string(deflate(Coding::kGzip, std::span(&piece, 1)).view());
}

State put(BodyCollector& body, std::string_view text) { return body.put(std::as_bytes(std::span(text))); }

// As put(), and then in as many turns as it takes.
State put_all(BodyCollector& body, std::span<const std::byte> piece) {
  State state = body.put(piece);
  for (int turns = 0; body.paused() && turns < 100; ++turns) state = body.retry();
  return state;
}

TEST(Body, ThatIsThereAtOnceTakesOneSlabOfItsSize) {
  FakeSlabs slabs;
  BodyCollector body;
  std::string text = text_of(100000);
  body.begin(slabs, {.content_length = int64_t(text.size())});
  put(body, text.substr(0, 20000));
  put(body, text.substr(20000));
  EXPECT_EQ(body.end(), State::kDone);
  EXPECT_EQ(body.take().view(), text);
  EXPECT_EQ(slabs.sizes, std::vector<size_t>{100000});
  EXPECT_EQ(slabs.parts, 0u);
}

TEST(Body, AnAnnouncedLengthHasLittleMemoryUntilItComes) {
  FakeSlabs slabs;
  BodyCollector body;
  std::string text = text_of(5 << 20);
  body.begin(slabs, {.content_length = int64_t(text.size())});
  put(body, text.substr(0, 1));
  EXPECT_EQ(slabs.sizes, std::vector<size_t>{16 << 10});
  EXPECT_EQ(slabs.parts, 1u);
  put(body, text.substr(1, (16 << 10) - 1));
  EXPECT_EQ(slabs.taken, 1u);
  put(body, text.substr(16 << 10, 16 << 10));
  EXPECT_EQ(slabs.sizes.back(), 256u << 10);
  EXPECT_EQ(body.expected(), 0u);
  put(body, text.substr(32 << 10, (2 << 20) - (32 << 10)));
  EXPECT_EQ(slabs.parts, 2u) << "8 times 2 MiB is more than all";
  slabs.empty = true;
  EXPECT_EQ(body.state(), State::kOpen);
  put(body, text.substr(2 << 20, 7));
  EXPECT_EQ(body.reserved(), 5u << 20);
  EXPECT_EQ(body.expected(), (3u << 20) - 7);
  put(body, text.substr((2 << 20) + 7));
  EXPECT_EQ(body.end(), State::kDone);
  EXPECT_TRUE(body.take().view() == text);
}

// The bound that an attacker meets: memory is no more than 8 times what has come (16 KiB to begin with), or twice.
TEST(Body, MemoryFollowsTheBytesThatCame) {
  for (bool scarce : {false, true}) {
    FakeSlabs slabs;
    slabs.is_scarce = scarce;
    BodyCollector body;
    std::string text = text_of(6 << 20);
    body.begin(slabs, {.content_length = 64 << 20});
    uint64_t came = 0, held = 0;
    support::feed_in_pieces(text, 7001, [&](auto piece) {
      ASSERT_EQ(put_all(body, piece), State::kOpen);
      held = body.reserved();
      came += piece.size();
      if (!scarce && came > (2 << 20)) return;
      EXPECT_LE(held, std::max<uint64_t>(16 << 10, came * (scarce ? 2 : 8))) << "of which 64 MiB are too far away";
    });
  }
}

TEST(Body, NoByteIsCopiedMoreThanOnceOnItsWayToTheLastSlab) {
  for (bool scarce : {false, true})
    for (uint64_t all = 20'000; all < (9 << 20); all += all / 7) {
      FakeSlabs slabs;
      slabs.is_scarce = scarce;
      BodyCollector body;
      body.begin(slabs, {.content_length = int64_t(all)});
      uint64_t came = 0, copied = 0, held = 0;
      support::feed_in_pieces(std::string(all, 'x'), 4096, [&](auto piece) {
        ASSERT_EQ(put_all(body, piece), State::kOpen);
        if (body.reserved() != held) copied += came, held = body.reserved();
        came += piece.size();
      });
      EXPECT_EQ(body.end(), State::kDone);
      EXPECT_EQ(held, all);
      EXPECT_LE(copied, scarce ? all : 3u << 20) << all;
    }
}

// A body that holds memory and waits for more has a part, and the number of parts is bounded; so what comes behind them
// gets all that it can need.
TEST(Body, OfUnknownLengthTakesTheMostWhereThereAreNoMoreParts) {
  struct Few final : base::SlabSource {
    size_t last = 0;
    bool parts = true;
    base::Slab* take(size_t bytes) override { return base::heap_slab(last = bytes); }
    base::Slab* take_part(size_t bytes) override { return parts ? base::heap_slab(bytes) : nullptr; }
    bool scarce() const override { return true; }
  } slabs;
  BodyCollector body;
  std::string text = text_of(3 << 20);
  body.begin(slabs, {.limits = {4 << 20, 100}});
  put(body, text.substr(0, 1 << 20));
  EXPECT_EQ(slabs.last, 0u);
  slabs.parts = false;
  put(body, text.substr(1 << 20, 1));
  EXPECT_EQ(slabs.last, (4u << 20) + 1);
  put(body, text.substr((1 << 20) + 1));
  EXPECT_EQ(body.end(), State::kDone);
  EXPECT_TRUE(body.take().view() == text);
}

TEST(Body, OfUnknownLengthGrowsByDoubling) {
  FakeSlabs slabs;
  BodyCollector body;
  std::string text = text_of(100000);
  body.begin(slabs, {});
  support::feed_in_pieces(text, 1000, [&](auto piece) { EXPECT_EQ(body.put(piece), State::kOpen); });
  EXPECT_EQ(body.end(), State::kDone);
  EXPECT_EQ(body.take().view(), text);
  EXPECT_EQ(slabs.taken, 4u);
}

// Copying 16 MiB into memory that nobody has touched takes a turn of the loop by itself.
TEST(Body, ALargeBodyMovesOverSeveralTurns) {
  for (bool shared : {false, true}) {
    FakeSlabs slabs;
    InflateShare share;
    BodyCollector body;
    std::string text = text_of(40 << 20);
    body.begin(slabs, {.limits = {64 << 20, 100}, .share = shared ? &share : nullptr});
    int turns = 0;
    support::feed_in_pieces(text, 1 << 20, [&](auto piece) {
      share.enter(base::Time(std::chrono::seconds(++turns)));
      body.put(piece);
      for (int more = 0; body.paused(); ++more) {
        ASSERT_LT(more, 20);
        share.enter(base::Time(std::chrono::seconds(++turns)));
        body.retry();
      }
    });
    EXPECT_EQ(body.end(), State::kDone);
    EXPECT_EQ(turns, 40 + 1 + 3 + 7 + 15) << "4 MiB move in two turns, 8, 16 and 32 MiB in 4, 8 and 16";
    EXPECT_TRUE(body.take().view() == text);
  }
}

TEST(Body, MovesShareWhatATurnHasTimeFor) {
  FakeSlabs slabs;
  InflateShare share;
  BodyCollector a, b;
  std::string text = text_of(kMovedSlice);
  for (BodyCollector* body : {&a, &b}) {
    body->begin(slabs, {.limits = {64 << 20, 100}, .share = &share});
    share.enter(base::Time(std::chrono::seconds(body == &a ? 1 : 2)));
    EXPECT_EQ(put(*body, text), State::kOpen);
  }
  share.enter(base::Time(std::chrono::seconds(3)));
  EXPECT_EQ(put(a, "x"), State::kOpen);
  EXPECT_EQ(put(b, "x"), State::kStalled) << "a has moved all that one turn has time for";
  EXPECT_TRUE(b.paused());
  share.enter(base::Time(std::chrono::seconds(4)));
  EXPECT_EQ(b.retry(), State::kOpen);
}

TEST(Body, CodedBodiesAreInflatedHoweverTheyCome) {
  std::string text = text_of(60000), coded = gzip(text);
  support::for_each_split(coded, [&](size_t size) {
    FakeSlabs slabs;
    BodyCollector body;
    body.begin(slabs, {.content_length = int64_t(coded.size()), .coding = Coding::kGzip});
    support::feed_in_pieces(coded, size, [&](auto piece) { ASSERT_EQ(body.put(piece), State::kOpen); });
    ASSERT_EQ(body.end(), State::kDone);
    EXPECT_EQ(body.take().view(), text);
  });
}

TEST(Body, TooMuchIsNoticedAsSoonAsItIsThere) {
  FakeSlabs slabs;
  BodyCollector body;
  body.begin(slabs, {.limits = {10, 100}});
  EXPECT_EQ(put(body, "0123456789"), State::kOpen);
  EXPECT_EQ(put(body, "x"), State::kTooBig);
  EXPECT_EQ(body.end(), State::kTooBig);
  body.begin(slabs, {.content_length = 11, .limits = {10, 100}});
  EXPECT_EQ(body.state(), State::kTooBig);
  body.begin(slabs, {.coding = Coding::kGzip, .limits = {1 << 20, 100}});
  const std::string bomb = gzip(std::string(1 << 20, 'x'));
  EXPECT_EQ(put_all(body, std::as_bytes(std::span(bomb))), State::kOverRatio);
  std::string text = text_of(5000);
  body.begin(slabs, {.coding = Coding::kGzip, .limits = {5000, 100}});
  EXPECT_EQ(put(body, gzip(text)), State::kOpen);
  EXPECT_EQ(body.end(), State::kDone);
  body.begin(slabs, {.coding = Coding::kGzip, .limits = {4999, 100}});
  EXPECT_EQ(put(body, gzip(text)), State::kTooBig);
}

TEST(Body, CutOrForgedCodingIsCorrupt) {
  FakeSlabs slabs;
  BodyCollector body;
  std::string coded = gzip(text_of(5000));
  body.begin(slabs, {.coding = Coding::kGzip});
  EXPECT_EQ(put(body, coded.substr(0, coded.size() - 3)), State::kOpen);
  EXPECT_EQ(body.end(), State::kCorrupt);
  body.begin(slabs, {.coding = Coding::kGzip});
  EXPECT_EQ(put(body, "plain text"), State::kCorrupt);
}

TEST(Body, AnEmptyBodyIsDoneWithoutASlab) {
  FakeSlabs slabs;
  BodyCollector body;
  for (Coding coding : {Coding::kIdentity, Coding::kGzip, Coding::kDeflate}) {
    body.begin(slabs, {.content_length = 0, .coding = coding});
    EXPECT_EQ(body.end(), State::kDone);
    EXPECT_EQ(body.take().size(), 0u);
  }
  EXPECT_EQ(slabs.taken, 0u);
}

TEST(Body, WhereWaitingForASlabWouldNotHelpItSaysSo) {
  FakeSlabs none;
  none.empty = none.is_hopeless = true;
  BodyCollector body;
  body.begin(none, {.content_length = 100});
  EXPECT_EQ(body.make_room(50), State::kNoMemory);
  EXPECT_EQ(body.state(), State::kOpen);
  EXPECT_EQ(put(body, text_of(50)), State::kNoMemory);
  EXPECT_EQ(put(body, text_of(50)), State::kNoMemory);
  EXPECT_EQ(body.end(), State::kNoMemory);
  body.begin(none, {.coding = Coding::kGzip});
  EXPECT_EQ(put(body, gzip(text_of(50))), State::kNoMemory);
  body.begin(base::heap(), {.content_length = 3});
  EXPECT_EQ(put(body, "abc"), State::kOpen);
  EXPECT_EQ(body.end(), State::kDone);
}

TEST(Body, ThatWaitsIsToldWhenWaitingHasBecomeHopeless) {
  FakeSlabs slabs;
  slabs.empty = true;
  BodyCollector body;
  body.begin(slabs, {});
  EXPECT_EQ(body.make_room(50), State::kStalled);
  EXPECT_EQ(put(body, text_of(50)), State::kStalled);
  EXPECT_EQ(body.retry(), State::kStalled);
  slabs.is_hopeless = true;
  EXPECT_EQ(body.retry(), State::kNoMemory);
}

TEST(Body, StallsWithoutASlabAndGoesOnWhenThereIsOne) {
  std::string text = text_of(50000), coded = gzip(text);
  for (bool compressed : {false, true}) {
    FakeSlabs slabs;
    BodyCollector body;
    body.begin(slabs, {.coding = compressed ? Coding::kGzip : Coding::kIdentity});
    std::string_view all = compressed ? coded : text;
    slabs.empty = true;
    EXPECT_EQ(put(body, all.substr(0, 7000)), State::kStalled);
    EXPECT_EQ(body.retry(), State::kStalled);
    EXPECT_EQ(put(body, all.substr(7000, 1000)), State::kStalled);
    slabs.empty = false;
    EXPECT_EQ(body.retry(), State::kOpen);
    slabs.empty = true;
    EXPECT_EQ(put(body, all.substr(8000)), State::kStalled);
    EXPECT_EQ(body.end(), State::kStalled);
    EXPECT_EQ(body.retry(), State::kStalled);
    slabs.empty = false;
    EXPECT_EQ(body.retry(), State::kDone);
    EXPECT_EQ(body.take().view(), text);
  }
}

TEST(Body, WhatIsInflatedIsSpreadOverTurns) {
  FakeSlabs slabs;
  BodyCollector body;
  std::string text = text_of(5 << 20);
  body.begin(slabs, {.coding = Coding::kGzip});
  EXPECT_EQ(put(body, gzip(text)), State::kStalled);
  EXPECT_TRUE(body.paused());
  EXPECT_EQ(body.end(), State::kStalled);
  int retries = 1;
  for (; body.retry() == State::kStalled; ++retries) {
    ASSERT_TRUE(body.paused());
    ASSERT_LT(retries, 100);
  }
  EXPECT_GE(size_t(retries), text.size() / kInflateSlice - 1);
  EXPECT_EQ(body.state(), State::kDone);
  EXPECT_EQ(body.take().view(), text);
}

TEST(Body, ASliceIsCountedOverAllPieces) {
  FakeSlabs slabs;
  BodyCollector body;
  body.begin(slabs, {.coding = Coding::kGzip, .limits = {64 << 20, 10'000}});
  std::string coded = gzip(std::string(4 << 20, 'a'));
  size_t at = 0;
  while (body.state() == State::kOpen && at < coded.size()) put(body, coded.substr(at++, 1));
  EXPECT_TRUE(body.paused());
  EXPECT_LT(at, coded.size() / 3);
}

// A retry() that has moved as much as a turn has time for does not inflate, too: each makes memory that nobody has
// touched.
TEST(Body, ATurnMovesOrInflates) {
  FakeSlabs slabs;
  BodyCollector body;
  std::string text = text_of(5 << 20);
  body.begin(slabs, {.coding = Coding::kGzip});
  put(body, gzip(text));
  for (uint64_t before = body.reserved(); body.paused(); before = body.reserved()) {
    body.retry();
    EXPECT_TRUE(body.reserved() >= before || body.paused()) << "it has moved";
  }
  EXPECT_EQ(body.end(), State::kDone);
}

TEST(Body, CodedInputThatMakesNothingIsSpreadOverTurnsToo) {
  FakeSlabs slabs;
  BodyCollector body;
  std::string members, empty = gzip("");
  while (members.size() < (1 << 20)) members += empty;
  body.begin(slabs, {.coding = Coding::kGzip});
  EXPECT_EQ(put(body, members), State::kStalled);
  EXPECT_EQ(body.end(), State::kStalled);
  size_t retries = 1;
  for (; body.retry() == State::kStalled; ++retries) ASSERT_LT(retries, 100u);
  EXPECT_GE(retries, members.size() * kInflatedPerCoded / kInflateSlice - 1);
  EXPECT_EQ(body.state(), State::kDone);
}

TEST(Body, OneThatWaitsForASlabIsNotPaused) {
  FakeSlabs slabs;
  BodyCollector body;
  slabs.empty = true;
  body.begin(slabs, {.coding = Coding::kGzip});
  EXPECT_EQ(put(body, gzip("abc")), State::kStalled);
  EXPECT_FALSE(body.paused());
}

}  // namespace
}  // namespace weir::wire
