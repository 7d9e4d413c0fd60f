#include "wire/grpc_frames.h"

#include <gtest/gtest.h>

#include "support/rpc_wire.h"
#include "support/split_feed.h"

namespace weir::wire {
namespace {

using base::Code;
using support::grpc_frame;
using Step = Deframer::Step;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

struct Outcome {
  std::vector<std::string> messages;
  Code code = Code::kOk;
  bool boundary = true;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome deframe(std::string_view stream, size_t piece, uint64_t limit = 1 << 20) {
  Deframer deframer(base::heap(), limit);
  Outcome out;
  support::feed_in_pieces(stream, piece, [&](std::span<const std::byte> in) {
    while (!in.empty() && out.code == Code::kOk) {
      Step step = deframer.next(in);
      if (step == Step::kMessage) {
        std::string flag = deframer.compressed() ? "c:" : "p:";
        out.messages.push_back(flag + std::string(deframer.take().view()));
      }
      if (step == Step::kFailed) out.code = deframer.error().code;
    }
  });
  out.boundary = deframer.at_boundary();
  return out;
}

TEST(Deframer, EverySplitOfTheSameBytesGivesTheSameMessages) {
  std::string stream = grpc_frame("hello") + grpc_frame("") + grpc_frame(std::string(5000, 'x'), 1) + grpc_frame("bye");
  Outcome whole = deframe(stream, stream.size());
  ASSERT_EQ(whole.messages.size(), 4u);
  EXPECT_EQ(whole.messages[0], "p:hello");
  EXPECT_EQ(whole.messages[1], "p:");
  EXPECT_EQ(whole.messages[2], "c:" + std::string(5000, 'x'));
  support::for_each_split(stream, [&](size_t n) { EXPECT_EQ(deframe(stream, n), whole) << n; });
}

TEST(Deframer, BytesThatComeToTheirLandingAreNotCopied) {
  Deframer deframer(base::heap(), 1 << 20);
  std::string payload(300'000, 'a');
  for (size_t i = 0; i < payload.size(); i += 1000) payload[i] = char('b' + i % 7);
  const std::string all = grpc_frame(payload) + grpc_frame("next");
  EXPECT_TRUE(deframer.receive_buffer().empty());
  size_t at = kGrpcPrefix + 100, landed = 0;
  auto in = bytes(all).first(at);
  auto step = deframer.next(in);
  for (; step == Step::kMore; step = deframer.next(in)) {
    const auto to = deframer.receive_buffer();
    const size_t n = to.empty() ? 1000 : std::min<size_t>(to.size(), 50'000);
    in = bytes(all).subspan(at, n);
    if (!to.empty()) std::copy(in.begin(), in.end(), to.begin()), in = to.first(n), landed += n;
    at += n;
  }
  ASSERT_EQ(step, Step::kMessage);
  EXPECT_GT(landed, 250'000u);
  EXPECT_EQ(at, kGrpcPrefix + payload.size());  // the buffer ends with the message
  EXPECT_EQ(deframer.take().view(), payload);
  EXPECT_TRUE(deframer.receive_buffer().empty());
  in = bytes(all).subspan(at);
  EXPECT_EQ(deframer.next(in), Step::kMessage);
  EXPECT_EQ(deframer.take().view(), "next");
}

TEST(Deframer, ALargeLengthHasLittleMemoryUntilTheMessageComes) {
  support::FakeSlabs slabs;
  Deframer deframer(slabs, 64 << 20);
  std::string payload(3 << 20, 'a');
  for (size_t i = 0; i < payload.size(); i += 1000) payload[i] = char('b' + i % 7);
  std::string all = grpc_frame(payload);
  auto in = bytes(all).first(6);
  EXPECT_EQ(deframer.next(in), Step::kMore);
  EXPECT_EQ(slabs.sizes, std::vector<size_t>{16 << 10});
  EXPECT_EQ(slabs.parts, 1u);
  EXPECT_EQ(deframer.expected(), 0u);
  in = bytes(all).subspan(6, 32 << 10);
  slabs.empty = true;
  EXPECT_EQ(deframer.next(in), Step::kStarved);
  EXPECT_EQ(in.size(), size_t((16 << 10) + 1)) << "the first part is full";
  slabs.empty = false;
  EXPECT_EQ(deframer.next(in), Step::kMore);
  EXPECT_EQ(slabs.sizes.back(), ((32u << 10) + 1) * 8);
  EXPECT_EQ(deframer.expected(), 0u);
  in = bytes(all).subspan(6 + (32 << 10), (1 << 20));
  EXPECT_EQ(deframer.next(in), Step::kMore);
  EXPECT_EQ(slabs.sizes.back(), 3u << 20);
  EXPECT_EQ(slabs.parts, 3u) << "one of them was not to be had";
  EXPECT_EQ(deframer.expected(), (3u << 20) - (1 << 20) - (32 << 10) - 1);
  in = bytes(all).subspan(6 + (32 << 10) + (1 << 20));
  EXPECT_EQ(deframer.next(in), Step::kMessage);
  EXPECT_TRUE(deframer.take().view() == payload);
}

TEST(Deframer, WhereMemoryIsScarceAMessageGrowsByDoubling) {
  support::FakeSlabs slabs;
  slabs.is_scarce = true;
  Deframer deframer(slabs, 64 << 20);
  std::string stream = grpc_frame(std::string(1 << 20, 'y'));
  uint64_t came = 0;
  bool there = false;
  support::feed_in_pieces(stream, 4096, [&](std::span<const std::byte> in) {
    came += in.size();
    while (!in.empty() && !there) there = deframer.next(in) == Step::kMessage;
    EXPECT_LE(deframer.reserved(), std::max<uint64_t>(16 << 10, came * 4));
  });
  EXPECT_TRUE(there);
  EXPECT_EQ(deframer.take().size(), 1u << 20);
}

TEST(Deframer, WhatIsCompressedIsAPartOfWhatItWillNeed) {
  support::FakeSlabs slabs;
  Deframer deframer(slabs, 64 << 20);
  for (size_t size : {size_t(10), size_t(3 << 20)}) {
    slabs.sizes.clear(), slabs.parts = 0;
    std::string all = grpc_frame(std::string(size, 'a'), 1);
    auto in = bytes(all);
    EXPECT_EQ(deframer.next(in), Step::kMessage);
    EXPECT_EQ(deframer.take().size(), size);
    EXPECT_EQ(slabs.parts, slabs.sizes.size());
  }
}

TEST(Deframer, AMessageOfAMebibyteComesIntoItsOwnSlab) {
  support::FakeSlabs slabs;
  Deframer deframer(slabs, 64 << 20);
  std::string all = grpc_frame(std::string((1 << 20) + 100, 'a'));
  auto in = bytes(all);
  EXPECT_EQ(deframer.next(in), Step::kMessage);
  EXPECT_EQ(slabs.sizes, std::vector<size_t>{(1 << 20) + 100});
}

TEST(Deframer, EveryCutInTwoGivesTheSameMessages) {
  std::string stream = grpc_frame("ab") + grpc_frame("") + grpc_frame("cde");
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    Deframer deframer(base::heap(), 100);
    std::string got;
    for (std::string_view part : {std::string_view(stream).substr(0, cut), std::string_view(stream).substr(cut)}) {
      auto in = bytes(part);
      while (!in.empty())
        if (deframer.next(in) == Step::kMessage) got += std::string(deframer.take().view()) + "|";
    }
    EXPECT_EQ(got, "ab||cde|") << cut;
    EXPECT_TRUE(deframer.at_boundary());
  }
}

TEST(Deframer, AStreamThatStopsInsideAMessageIsNotAtABoundary) {
  std::string stream = grpc_frame("abc");
  for (size_t n = 1; n < stream.size(); ++n) EXPECT_FALSE(deframe(stream.substr(0, n), 64).boundary) << n;
  EXPECT_TRUE(deframe(stream, 64).boundary);
}

TEST(Deframer, AMessageOverTheLimitFailsBeforeMemoryIsTaken) {
  support::FakeSlabs slabs;
  Deframer deframer(slabs, 10);
  std::string head = grpc_frame(std::string(11, 'x')).substr(0, 5);
  auto in = bytes(head);
  EXPECT_EQ(deframer.next(in), Step::kFailed);
  EXPECT_EQ(deframer.error().code, Code::kResourceExhausted);
  EXPECT_EQ(slabs.taken, 0u);
  EXPECT_EQ(deframe(grpc_frame(std::string(10, 'x')), 3, 10).messages.size(), 1u);
  EXPECT_EQ(deframe(std::string("\0\xff\xff\xff\xff", 5), 1).code, Code::kResourceExhausted);
}

TEST(Deframer, EveryFlagFrom2OnIsAnErrorAtItsFirstByte) {
  for (int flag = 2; flag < 256; ++flag) {
    EXPECT_EQ(deframe(std::string(1, char(flag)), 1).code, Code::kInternal) << flag;
    EXPECT_EQ(deframe(grpc_frame("ok") + std::string(1, char(flag)), 100).code, Code::kInternal) << flag;
  }
}

TEST(Deframer, WithoutASlabItTakesNothingAndGoesOnLater) {
  support::FakeSlabs slabs;
  slabs.empty = true;
  Deframer deframer(slabs, 100);
  std::string stream = grpc_frame("abc");
  auto in = bytes(stream);
  EXPECT_EQ(deframer.next(in), Step::kStarved);
  EXPECT_EQ(in.size(), 3u);
  EXPECT_EQ(deframer.next(in), Step::kStarved);
  slabs.empty = false;
  ASSERT_EQ(deframer.next(in), Step::kMessage);
  EXPECT_EQ(deframer.take().view(), "abc");
}

TEST(Deframer, WhereWaitingForASlabWouldNotHelpItFails) {
  support::FakeSlabs slabs;
  slabs.empty = slabs.is_hopeless = true;
  Deframer small(slabs, 8 << 20), large(slabs, 8 << 20);
  std::string stream = grpc_frame("abc");
  auto in = bytes(stream);
  EXPECT_EQ(small.next(in), Step::kFailed);
  EXPECT_EQ(small.error().code, Code::kResourceExhausted);
  stream = grpc_frame(std::string(3 << 20, 'y'));
  in = bytes(stream).first(20);
  slabs.empty = false;
  EXPECT_EQ(large.next(in), Step::kMore) << "there is a first part";
  in = bytes(stream).subspan(20);
  slabs.empty = true;
  EXPECT_EQ(large.next(in), Step::kFailed);
  EXPECT_EQ(large.error().code, Code::kResourceExhausted);
  EXPECT_EQ(large.reserved(), 0u);
}

TEST(Deframer, AMessageLandsInOneSlabOfItsSizeAtLast) {
  support::FakeSlabs slabs;
  Deframer deframer(slabs, 1 << 20);
  std::string stream = grpc_frame(std::string(70000, 'y'));
  support::feed_in_pieces(stream, 1000, [&](std::span<const std::byte> in) {
    while (!in.empty()) deframer.next(in);
  });
  EXPECT_EQ(slabs.sizes, (std::vector<size_t>{16 << 10, 70000}));
}

}  // namespace
}  // namespace weir::wire
