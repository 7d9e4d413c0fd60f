// The TokenScheduler and what outlives a Call: sessions, forks, images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

using testing::HasSubstr;

TEST(TokenSession, ASessionGoesOnWhereItWas) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(18), 5);
  first.session = {1, 2};
  harness.send(first);
  harness.run();
  auto history = harness.sequence(first);
  EXPECT_EQ(history.size(), 23u);
  EXPECT_EQ(harness.used(), 6u);
  auto fed = harness.engine.fed;
  auto& second = harness.call(numbers(3, 50), 4);
  second.session = {1, 2};
  second.generation->history = history;
  harness.send(second);
  harness.run();
  EXPECT_EQ(harness.said[&second], harness.expected(second));
  EXPECT_EQ(harness.dones[&second].cached_tokens, 22u);
  EXPECT_EQ(harness.engine.fed - fed, 1u + 3u + 3u);

  auto& back = harness.call(numbers(3, 60), 4);  // cut into a block, and into one that can be found by others
  back.session = {1, 2};
  back.generation->history = std::span(history).first(9);
  harness.send(back);
  harness.run();
  EXPECT_EQ(harness.said[&back], harness.expected(back));
  EXPECT_EQ(harness.dones[&back].cached_tokens, 9u);

  auto& over = harness.call({}, 0);
  over.session = {1, 2};
  over.generation->aim = msg::Aim::kRelease;
  harness.send(over);
  EXPECT_TRUE(harness.last[&over]);
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenSession, AForkSharesTheBlocksOfItsOrigin) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(18), 5);
  first.session = {1, 2};
  harness.send(first);
  harness.run();
  auto history = harness.sequence(first);
  for (uint32_t at : {22u, 16u, 13u, 3u}) {
    auto& fork = harness.call(numbers(2, at), 3);
    fork.session = {7, at};
    fork.generation->history = std::span(history).first(at);
    harness.send(fork);
    harness.run();
    EXPECT_EQ(harness.said[&fork], harness.expected(fork));
    EXPECT_EQ(harness.dones[&fork].cached_tokens, at / 4 * 4);
  }
  auto& origin = harness.call(numbers(2, 9), 3);
  origin.session = {1, 2};
  origin.generation->history = history;
  harness.send(origin);
  harness.run();
  EXPECT_EQ(harness.said[&origin], harness.expected(origin));
}

TEST(TokenSession, SessionsThatRestMakeRoom) {
  SchedulerHarness harness(small(), 8);
  std::vector<std::vector<uint32_t>> histories;
  for (uint32_t i = 0; i < 4; ++i) {
    auto& call = harness.call(numbers(9, 11 * i), 3);
    call.session = {1, i + 1};
    harness.send(call);
    harness.run();
    histories.push_back(harness.sequence(call));
  }
  EXPECT_LE(harness.used(), 8u);
  for (uint32_t i = 0; i < 4; ++i) {
    auto& call = harness.call(numbers(2, 3 * i), 3);
    call.session = {1, i + 1};
    call.generation->history = histories[i];
    harness.send(call);
    harness.run();
    EXPECT_EQ(harness.said[&call], harness.expected(call));
  }
}

TEST(TokenSession, ImagesTakeThePlaceOfPads) {
  SchedulerHarness harness(small());
  auto image = [](std::string data, uint32_t start) {
    return msg::Image{base::Bytes::copy_of(data), "image/png", start, start + uint32_t(data.size()) + 2};
  };
  auto& call = harness.call(numbers(20), 4);
  call.generation->images.push_back(image("abcde", 2));
  call.generation->images.push_back(image("xyz", 9));
  harness.send(call);
  harness.run();
  EXPECT_EQ(harness.said[&call], harness.expected(call));

  auto& other = harness.call(numbers(20), 4);  // the same tokens, another image
  other.generation->images.push_back(image("abcdf", 2));
  other.generation->images.push_back(image("xyz", 9));
  harness.send(other);
  harness.run();
  EXPECT_EQ(harness.said[&other], harness.expected(other));
  EXPECT_EQ(harness.dones[&other].cached_tokens, 0u);

  auto& wrong = harness.call(numbers(20), 4);
  wrong.generation->images.push_back(image("abcde", 2));
  wrong.generation->images[0].end += 1;
  harness.send(wrong);
  auto& broken = harness.call(numbers(20), 4);
  broken.generation->images.push_back(image("!bcde", 2));
  harness.send(broken);
  harness.run();
  EXPECT_THAT(harness.said[&wrong][0],
              HasSubstr("INVALID_ARGUMENT: image 0 at positions [2, 10) has 6 pads; the model"));
  EXPECT_THAT(harness.said[&broken][0],
              HasSubstr("INVALID_ARGUMENT: image 0 at positions [2, 9): the image cannot be decoded"));
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenSession, OneThatIsReleasedWhileItRunsOrWaitsKeepsNothingAndTheOthersKeepTheirs) {
  auto policy = small();
  policy.max_running = 2;
  SchedulerHarness harness(policy);
  for (uint64_t id : {1, 2, 1}) {  // the third one waits
    auto& call = harness.call(numbers(6, uint32_t(id)), 3);
    call.session = {0, id};
    harness.send(call);
  }
  ASSERT_TRUE(harness.step());
  auto& release = harness.call({});
  release.generation->aim = msg::Aim::kRelease;
  release.session = {0, 1};
  harness.send(release);
  EXPECT_TRUE(harness.last[&release]);
  harness.run();
  EXPECT_EQ(harness.stats.tokens->sessions.value(), 1);
  EXPECT_EQ(harness.used(), 2u) << "blocks of the other one's eight positions";
  auto& again = harness.call(numbers(6, 1), 1);
  again.session = {0, 1};
  harness.send(again);
  harness.run();
  EXPECT_EQ(harness.stats.tokens->sessions.value(), 2) << "another session of that id";
}

// A block of four positions is found by the images whose pads are in it.
TEST(TokenSession, ABlockIsSharedAsFarAsNoPadOfAnotherImageReaches) {
  for (uint32_t start : {2, 3, 4}) {
    SchedulerHarness harness(small());
    auto ask = [&](std::string data) {
      auto& call = harness.call(numbers(20), 1);
      call.generation->images.push_back({base::Bytes::copy_of(data), "image/png", start, start + 7});
      harness.send(call);
      harness.run();
      EXPECT_EQ(harness.said[&call], harness.expected(call));
      return harness.dones[&call].cached_tokens;
    };
    EXPECT_EQ(ask("abcde"), 0u);
    EXPECT_EQ(ask("vwxyz"), start == 2 ? 0u : 4u) << start;
    EXPECT_EQ(ask("abcde"), 19u) << "all but the token that is fed";
  }
}

TEST(TokenSession, ASessionsImagesAreLookedAtAgainOnlyWhereTheyAreComputedAgain) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(20), 2);
  first.session = {1, 1};
  first.generation->images.push_back({base::Bytes::copy_of("abcde"), "image/png", 2, 9});
  harness.send(first);
  harness.run();
  auto history = harness.sequence(first);
  auto images_encoded = harness.engine.images_encoded;
  auto again = [&](std::vector<msg::PositionRange> readouts) {
    auto& call = harness.call(numbers(2), 2);
    call.session = {1, 1};
    call.generation->history = history, call.generation->history_images = first.generation->images;
    call.generation->readouts = std::move(readouts);
    harness.send(call);
    harness.run();
    EXPECT_EQ(harness.said[&call], harness.expected(call));
  };
  again({});
  again({{12, 15}});
  EXPECT_EQ(harness.engine.images_encoded, images_encoded);
  again({{4, 5}});
  EXPECT_EQ(harness.engine.images_encoded, images_encoded + 1);
}

}  // namespace
}  // namespace weir::generation
