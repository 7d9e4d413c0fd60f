// The TokenScheduler and what outlives a Call: sessions, forks, images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

using testing::HasSubstr;

TEST(TokenSession, ASessionGoesOnWhereItWas) {
  SchedulerHarness desk(small());
  auto& first = desk.call(numbers(18), 5);
  first.session = {1, 2};
  desk.send(first);
  desk.run();
  auto history = desk.sequence(first);
  EXPECT_EQ(history.size(), 23u);
  EXPECT_EQ(desk.used(), 6u);
  auto fed = desk.engine.fed;
  auto& second = desk.call(numbers(3, 50), 4);
  second.session = {1, 2};
  second.generation->history = history;
  desk.send(second);
  desk.run();
  EXPECT_EQ(desk.said[&second], desk.expected(second));
  EXPECT_EQ(desk.dones[&second].cached_tokens, 22u);
  EXPECT_EQ(desk.engine.fed - fed, 1u + 3u + 3u);

  auto& back = desk.call(numbers(3, 60), 4);  // cut into a block, and into one that can be found by others
  back.session = {1, 2};
  back.generation->history = std::span(history).first(9);
  desk.send(back);
  desk.run();
  EXPECT_EQ(desk.said[&back], desk.expected(back));
  EXPECT_EQ(desk.dones[&back].cached_tokens, 9u);

  auto& over = desk.call({}, 0);
  over.session = {1, 2};
  over.generation->aim = msg::Aim::kRelease;
  desk.send(over);
  EXPECT_TRUE(desk.last[&over]);
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenSession, AForkSharesTheBlocksOfItsOrigin) {
  SchedulerHarness desk(small());
  auto& first = desk.call(numbers(18), 5);
  first.session = {1, 2};
  desk.send(first);
  desk.run();
  auto history = desk.sequence(first);
  for (uint32_t at : {22u, 16u, 13u, 3u}) {
    auto& fork = desk.call(numbers(2, at), 3);
    fork.session = {7, at};
    fork.generation->history = std::span(history).first(at);
    desk.send(fork);
    desk.run();
    EXPECT_EQ(desk.said[&fork], desk.expected(fork));
    EXPECT_EQ(desk.dones[&fork].cached_tokens, at / 4 * 4);
  }
  auto& origin = desk.call(numbers(2, 9), 3);
  origin.session = {1, 2};
  origin.generation->history = history;
  desk.send(origin);
  desk.run();
  EXPECT_EQ(desk.said[&origin], desk.expected(origin));
}

TEST(TokenSession, SessionsThatRestMakeRoom) {
  SchedulerHarness desk(small(), 8);
  std::vector<std::vector<uint32_t>> histories;
  for (uint32_t i = 0; i < 4; ++i) {
    auto& call = desk.call(numbers(9, 11 * i), 3);
    call.session = {1, i + 1};
    desk.send(call);
    desk.run();
    histories.push_back(desk.sequence(call));
  }
  EXPECT_LE(desk.used(), 8u);
  for (uint32_t i = 0; i < 4; ++i) {
    auto& call = desk.call(numbers(2, 3 * i), 3);
    call.session = {1, i + 1};
    call.generation->history = histories[i];
    desk.send(call);
    desk.run();
    EXPECT_EQ(desk.said[&call], desk.expected(call));
  }
}

TEST(TokenSession, ImagesTakeThePlaceOfPads) {
  SchedulerHarness desk(small());
  auto image = [](std::string data, uint32_t start) {
    return msg::Image{base::Bytes::copy_of(data), "image/png", start, start + uint32_t(data.size()) + 2};
  };
  auto& call = desk.call(numbers(20), 4);
  call.generation->images.push_back(image("abcde", 2));
  call.generation->images.push_back(image("xyz", 9));
  desk.send(call);
  desk.run();
  EXPECT_EQ(desk.said[&call], desk.expected(call));

  auto& other = desk.call(numbers(20), 4);  // the same tokens, another image
  other.generation->images.push_back(image("abcdf", 2));
  other.generation->images.push_back(image("xyz", 9));
  desk.send(other);
  desk.run();
  EXPECT_EQ(desk.said[&other], desk.expected(other));
  EXPECT_EQ(desk.dones[&other].cached_tokens, 0u);

  auto& wrong = desk.call(numbers(20), 4);
  wrong.generation->images.push_back(image("abcde", 2));
  wrong.generation->images[0].end += 1;
  desk.send(wrong);
  auto& broken = desk.call(numbers(20), 4);
  broken.generation->images.push_back(image("!bcde", 2));
  desk.send(broken);
  desk.run();
  EXPECT_THAT(desk.said[&wrong][0], HasSubstr("INVALID_ARGUMENT: image 0 at positions [2, 10) has 6 pads; the model"));
  EXPECT_THAT(desk.said[&broken][0], HasSubstr("INVALID_ARGUMENT: the image cannot be decoded"));
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenSession, ASessionsImagesAreLookedAtAgainOnlyWhereTheyAreComputedAgain) {
  SchedulerHarness desk(small());
  auto& first = desk.call(numbers(20), 2);
  first.session = {1, 1};
  first.generation->images.push_back({base::Bytes::copy_of("abcde"), "image/png", 2, 9});
  desk.send(first);
  desk.run();
  auto history = desk.sequence(first);
  auto images_encoded = desk.engine.images_encoded;
  auto again = [&](std::vector<msg::PositionRange> readouts) {
    auto& call = desk.call(numbers(2), 2);
    call.session = {1, 1};
    call.generation->history = history, call.generation->history_images = first.generation->images;
    call.generation->readouts = std::move(readouts);
    desk.send(call);
    desk.run();
    EXPECT_EQ(desk.said[&call], desk.expected(call));
  };
  again({});
  again({{12, 15}});
  EXPECT_EQ(desk.engine.images_encoded, images_encoded);
  again({{4, 5}});
  EXPECT_EQ(desk.engine.images_encoded, images_encoded + 1);
}

}  // namespace
}  // namespace weir::generation
