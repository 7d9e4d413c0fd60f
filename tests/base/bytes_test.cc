#include "base/bytes.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/fake_env.h"
#include "base/release.h"
#include "base/status.h"

namespace weir::base {
namespace {

TEST(Bytes, SlicesShareTheSlab) {
  auto bytes = Bytes::copy_of("hello world");
  auto world = bytes.slice(6, 5);
  EXPECT_EQ(world.slab(), bytes.slab());
  EXPECT_EQ(bytes.slab()->refs, 2u);
  bytes = {};
  EXPECT_EQ(world.view(), "world");
  EXPECT_EQ(world.slab()->refs, 1u);
  EXPECT_EQ(world.slice(world.view().substr(1, 2)).view(), "or");
}

TEST(Bytes, AdoptedStringsAreNotCopied) {
  std::string text(100, 'x');
  auto* at = text.data();
  auto bytes = Bytes::adopt(std::move(text));
  EXPECT_EQ(bytes.view().data(), at);
  EXPECT_EQ(bytes.size(), 100u);
  EXPECT_TRUE(Bytes::adopt("").empty());
}

TEST(Bytes, MovingLeavesNothingBehind) {
  auto a = Bytes::copy_of("abc");
  auto b = std::move(a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(a.slab(), nullptr);
  EXPECT_EQ(b.slab()->refs, 1u);
  auto c = b;
  auto& same = b;
  b = same;
  EXPECT_EQ(c.slab()->refs, 2u);
}

TEST(Bytes, ConstantsHaveNoSlab) {
  auto bytes = Bytes::constant("fixed");
  EXPECT_EQ(bytes.slab(), nullptr);
  EXPECT_EQ(bytes.slice(1, 3).view(), "ixe");
}

TEST(Block, FreezesWhatWasWritten) {
  Block block(heap_slab(16));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % 64, 0u);
  block.append("abc", 3), block.append("def", 3);
  EXPECT_EQ(block.room(), 10u);
  auto bytes = block.freeze();
  EXPECT_EQ(bytes.view(), "abcdef");
  EXPECT_FALSE(block);
  EXPECT_TRUE(block.freeze().empty());
}

TEST(Bytes, ManyThreadsMayHoldAndDropSlices) {
  auto bytes = Bytes::copy_of(std::string(1000, 'y'));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([bytes] {
        for (size_t n = 0; n < 10'000; ++n) ASSERT_EQ(bytes.slice(n % 1000, 1).view(), "y");
      });
  }
  EXPECT_EQ(bytes.slab()->refs, 1u);
}

TEST(Status, EveryCodeHasANameAndAnHttpStatus) {
  for (int c = 0; c <= 16; ++c) {
    EXPECT_FALSE(name(Code(c)).empty());
    EXPECT_GE(http_status(Code(c)), 200);
  }
  EXPECT_EQ(name(Code::kResourceExhausted), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(http_status(Code::kResourceExhausted), 429);
  EXPECT_EQ(code_from_http(http_status(Code::kUnavailable)), Code::kUnavailable);
  EXPECT_EQ(code_from_http(418), Code::kInternal);
}

TEST(FakeEnv, TimersFireInOrderAndNotWhenCancelled) {
  FakeEnv env;
  std::string fired;
  auto start = env.now();
  env.at(start + std::chrono::seconds(2), [&] { fired += 'b'; });
  env.at(start + std::chrono::seconds(1), [&] {
    fired += 'a';
    env.at(env.now(), [&] { fired += '+'; });
  });
  auto gone = env.at(start + std::chrono::seconds(1), [&] { fired += 'x'; });
  env.cancel(gone);
  env.advance(std::chrono::seconds(3));
  EXPECT_EQ(fired, "a+b");
  EXPECT_EQ(env.now() - start, std::chrono::seconds(3));
  EXPECT_EQ(env.armed(), 0u);
}

// An empty text that is assigned leaves the capacity where it is.
TEST(Release, GivesTheMemoryOfATextBack) {
  const size_t own = std::string().capacity();
  std::string text(100'000, 'x');
  release(text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(text.capacity(), own);
  text.assign(50, 'y');
  EXPECT_EQ(text, std::string(50, 'y'));
}

}  // namespace
}  // namespace weir::base
