// Nodes that come and go under a model.
#include "engines/forward/directory.h"

#include <gtest/gtest.h>

namespace weir::forward {
namespace {

using Nodes = std::map<std::string, std::vector<std::string>>;

std::shared_ptr<Target> target_of(const std::string& model, uint32_t places) {
  auto target = std::make_shared<Target>();
  target->options.model = model, target->options.members = true;
  for (uint32_t i = 0; i < places; ++i) target->origins.emplace_back();
  return target;
}

const Origin* find(const Target& target, const std::string& name) {
  for (const auto& origin : target.origins)
    if (origin.name() == name) return &origin;
  return nullptr;
}

TEST(ForwardDirectory, ATargetFollowsItsNodesAndThoseThatComeBackHaveTheirPlaces) {
  Directory directory;
  directory.set_key("key");
  auto target = target_of("m", 3);
  EXPECT_EQ(base::Code::kUnavailable, directory.add(target).code);
  directory.set({{"m", {"http://127.0.0.1:1", "http://127.0.0.1:2"}}, {"other", {"http://127.0.0.1:9"}}});
  EXPECT_TRUE(directory.add(target).ok());
  EXPECT_EQ("Bearer key", target->key);
  EXPECT_EQ("authorization", target->key_field);
  EXPECT_EQ(2u, target->present());
  const Origin* first = find(*target, "127.0.0.1:1");
  ASSERT_TRUE(first);
  directory.set({{"m", {"http://127.0.0.1:2"}}});
  EXPECT_FALSE(first->present);
  EXPECT_EQ(1u, target->present());
  directory.set({{"m", {"http://127.0.0.1:1", "http://127.0.0.1:2"}}});
  EXPECT_EQ(first, find(*target, "127.0.0.1:1"));
  EXPECT_TRUE(first->present);
  directory.set({});
  EXPECT_EQ(0u, target->present());
  EXPECT_EQ(nullptr, target->choose(base::Time(), 1, 0, nullptr));
}

// Nodes know the cluster's key as a bearer token alone.
TEST(ForwardDirectory, TheClustersKeyGoesInItsOwnField) {
  Directory directory;
  directory.set_key("key");
  auto target = target_of("m", 1);
  target->key = "of an origin", target->key_field = "api-key";
  (void)directory.add(target);
  EXPECT_EQ("Bearer key", target->key);
  EXPECT_EQ("authorization", target->key_field);
}

TEST(ForwardDirectory, ANewNodeHasThePlaceOfOneThatHasGoneAndHasNoCallsLeft) {
  Directory directory;
  auto target = target_of("m", 2);
  const auto url = [](int i) { return "http://127.0.0.1:" + std::to_string(i); };
  directory.set({{"m", {url(1)}}});
  EXPECT_TRUE(directory.add(target).ok());
  Origin* first = target->choose(base::Time(), 1, 0, nullptr);
  ASSERT_TRUE(first);
  first->outstanding = 1;
  const std::string& name = first->name();
  for (int i = 2; i < 9; ++i) {
    EXPECT_TRUE(directory.set({{"m", {url(i)}}}).empty());
    ASSERT_EQ(1u, target->present());
    const Origin* now = target->choose(base::Time(), 1, 0, nullptr);
    EXPECT_EQ("127.0.0.1:" + std::to_string(i), now->name());
    EXPECT_EQ(i, now->url().port);
    EXPECT_NE(first, now) << "it still has a call";
  }
  EXPECT_EQ(1u, directory.set({{"m", {url(20), url(21)}}}).size());
  first->outstanding = 0;
  EXPECT_TRUE(directory.set({{"m", {url(20), url(21)}}}).empty());
  EXPECT_EQ(2u, target->present());
  EXPECT_EQ("127.0.0.1:1", name) << "whoever has read it still has it";
}

TEST(ForwardDirectory, NodesForWhichThereIsNoPlaceAreLeftOut) {
  Directory directory;
  auto target = target_of("m", 2);
  std::vector<std::string> nodes;
  for (int i = 1; i < 5; ++i) nodes.push_back("http://127.0.0.1:" + std::to_string(i));
  directory.set({{"m", nodes}});
  EXPECT_TRUE(directory.add(target).ok());
  EXPECT_EQ(2u, target->present());
}

TEST(ForwardDirectory, WhereNodesAreMoreThanPlacesANewOneHasThatOfOneThatCannotBeReached) {
  Directory directory;
  auto target = target_of("m", 2);
  const auto url = [](int i) { return "http://127.0.0.1:" + std::to_string(i); };
  directory.set({{"m", {url(1), url(2)}}});
  EXPECT_TRUE(directory.add(target).ok());
  auto& dead = target->origins[1];
  dead.eject();
  dead.outstanding = 1;
  EXPECT_EQ(1u, directory.set({{"m", {url(1), url(2), url(3)}}}).size());
  EXPECT_FALSE(find(*target, "127.0.0.1:3")) << "a call is with it yet";
  dead.outstanding = 0;
  EXPECT_EQ(1u, directory.set({{"m", {url(1), url(2), url(3)}}}).size()) << "one is left out still";
  EXPECT_TRUE(find(*target, "127.0.0.1:1")->able());
  ASSERT_TRUE(find(*target, "127.0.0.1:3"));
  EXPECT_TRUE(find(*target, "127.0.0.1:3")->able());
  target->origins[1].eject();
  directory.set({{"m", {url(1), url(2), url(3)}}});
  EXPECT_FALSE(find(*target, "127.0.0.1:2")) << "those that cannot be reached do not change places at each update";
  directory.set({{"m", {url(2), url(3)}}});
  ASSERT_TRUE(find(*target, "127.0.0.1:2"));
  EXPECT_TRUE(find(*target, "127.0.0.1:2")->able());
}

TEST(ForwardDirectory, WhatIsNoAddressIsPassedOverByName) {
  Directory directory;
  const auto wrong =
      directory.set({{"m", {"ftp://x:1", "http://127.0.0.1:1/path", "http://[::1", "http://127.0.0.1:7"}}});
  EXPECT_EQ(3u, wrong.size());
  EXPECT_EQ(1u, directory.urls("m").size());
}

}  // namespace
}  // namespace weir::forward
