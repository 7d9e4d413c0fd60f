// Pages whose content is put away and comes back.
#include "base/dormant_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/recycled.h"

namespace weir::base {
namespace {

constexpr size_t kPage = PagePool::kPage, kSlot = 4 * kPage, kKept = 3 * kPage - 64;

using Content = std::vector<std::byte>;

Content content_of(const DormantPages& pages) { return {pages.data(), pages.data() + kKept}; }
// `part` of 64 bytes in a hundred are not zero, at places that the seed says.
Content sparse(unsigned seed, unsigned part) {
  std::mt19937 random(seed);
  Content content(kKept);
  for (auto& octet : content)
    if (random() % 100 < part) octet = std::byte(random());
  return content;
}
void fill(DormantPages& pages, const Content& content) { std::copy(content.begin(), content.end(), pages.data()); }
size_t resident_pages(const std::byte* at, size_t bytes) {
  std::vector<unsigned char> in(bytes / kPage);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(at), bytes, in.data()), 0);
  return size_t(std::count_if(in.begin(), in.end(), [](unsigned char c) { return c & 1; }));
}

TEST(DormantPages, ContentComesBackToTheSameAddresses) {
  PagePool pool(kSlot, 4);
  for (unsigned part : {0u, 1u, 2u, 10u, 20u}) {
    DormantPages pages(pool, kKept);
    std::byte* at = pages.take();
    ASSERT_TRUE(at);
    const Content content = sparse(part, part);
    fill(pages, content);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(pages.rest()) << part;
      EXPECT_TRUE(pages.asleep());
      EXPECT_LE(pages.packed_bytes(), kKept / 2);
      pages.wake();
      EXPECT_FALSE(pages.asleep());
      EXPECT_EQ(pages.data(), at);
      ASSERT_EQ(content_of(pages), content) << part;
    }
  }
}

TEST(DormantPages, EachWordComesBackWhateverItsBytesAre) {
  PagePool pool(kSlot, 1);
  DormantPages pages(pool, kKept);
  pages.take();
  Content content(kKept);
  for (size_t i = 0; i < 256; ++i)  // all masks of a word, at the very begin, with gaps, and at the very end
    for (size_t bit = 0; bit < 8; ++bit)
      if (i >> bit & 1) content[i * 8 * (1 + i % 5) + bit] = std::byte(0x80 + i % 128);
  content.front() = content.back() = std::byte(0xff);
  fill(pages, content);
  ASSERT_TRUE(pages.rest());
  pages.wake();
  EXPECT_EQ(content_of(pages), content);
}

TEST(DormantPages, ZerosTakeNothing) {
  PagePool pool(kSlot, 1);
  DormantPages pages(pool, kKept);
  pages.take();
  std::memset(pages.data(), 0, kSlot);
  ASSERT_TRUE(pages.rest());
  EXPECT_EQ(pages.packed_bytes(), 0u);
  EXPECT_TRUE(pages.asleep());
  EXPECT_EQ(resident_pages(pages.data(), kSlot), 0u);
  pages.wake();
  EXPECT_EQ(content_of(pages), Content(kKept));
}

// It would save too little; what is not kept goes all the same.
TEST(DormantPages, RandomContentStaysWhereItIs) {
  PagePool pool(kSlot, 1);
  DormantPages pages(pool, kKept);
  pages.take();
  const Content content = sparse(1, 100);
  fill(pages, content);
  std::memset(pages.data() + 3 * kPage, 7, kPage);
  EXPECT_FALSE(pages.rest());
  EXPECT_FALSE(pages.asleep());
  EXPECT_EQ(content_of(pages), content);
  EXPECT_EQ(pages.data()[3 * kPage], std::byte{});
  pages.wake();
  EXPECT_EQ(content_of(pages), content);
}

TEST(DormantPages, WhatIsNotKeptIsLost) {
  PagePool pool(kSlot, 1);
  DormantPages pages(pool, kKept);
  std::memset(pages.take(), 0, kSlot);
  pages.data()[0] = pages.data()[kKept] = pages.data()[kSlot - 1] = std::byte(9);
  ASSERT_TRUE(pages.rest());
  pages.wake();
  EXPECT_EQ(pages.data()[0], std::byte(9));
  EXPECT_EQ(pages.data()[kKept], std::byte{});
  EXPECT_EQ(pages.data()[kSlot - 1], std::byte{});
}

// Two thousand at once, each with its own content: half of them asleep, some woken, some gone while asleep.
TEST(DormantPages, ThousandsOfSlotsDoNotMix) {
  constexpr size_t kMany = 2000;
  PagePool pool(kSlot, kMany);
  std::vector<std::unique_ptr<DormantPages>> all;
  for (unsigned i = 0; i < kMany; ++i) {
    auto& pages = *all.emplace_back(std::make_unique<DormantPages>(pool, kKept));
    ASSERT_TRUE(pages.take());
    fill(pages, sparse(i, 3));
    if (i % 2 == 0) continue;
    ASSERT_TRUE(pages.rest());
  }
  DormantPages one_more(pool, kKept);
  EXPECT_FALSE(one_more.take());  // the pool is bounded
  EXPECT_FALSE(one_more.rest());
  for (size_t i = 0; i < kMany; i += 7) all[i].reset();
  for (unsigned i = 0; i < kMany; ++i) {
    if (!all[i]) continue;
    all[i]->wake();
    ASSERT_EQ(content_of(*all[i]), sparse(i, 3)) << i;
  }
}

// Whoever had the slot before, and whether it was asleep: the next one finds zeros.
TEST(DormantPages, AGivenSlotIsZeros) {
  PagePool pool(kSlot, 1);
  for (bool rests : {false, true, false}) {
    DormantPages pages(pool, kKept);
    ASSERT_TRUE(pages.take());
    EXPECT_EQ(content_of(pages), Content(kKept));
    fill(pages, sparse(5, 10));
    std::memset(pages.data() + kKept, 1, kSlot - kKept);
    EXPECT_EQ(rests && pages.rest(), rests);
  }
}

TEST(DormantPages, SleepingPagesTakeNoMemory) {
  PagePool pool(kSlot, 1);
  DormantPages pages(pool, kKept);
  pages.take();
  std::memset(pages.data(), 0, kSlot);
  fill(pages, sparse(5, 5));
  EXPECT_EQ(resident_pages(pages.data(), kSlot), 4u);
  ASSERT_TRUE(pages.rest());
  EXPECT_EQ(resident_pages(pages.data(), kSlot), 0u);
}

TEST(PagePool, KnowsItsAddresses) {
  PagePool pool(kSlot, 100);
  int on_the_stack = 0;
  auto on_the_heap = std::make_unique<int>();
  EXPECT_FALSE(pool.contains(&on_the_stack));
  EXPECT_FALSE(pool.contains(on_the_heap.get()));
  EXPECT_FALSE(pool.contains(nullptr));
  std::byte* slot = pool.take();
  EXPECT_TRUE(pool.contains(slot));
  EXPECT_TRUE(pool.contains(slot + kSlot - 1));
  EXPECT_FALSE(pool.contains(&on_the_stack));
  EXPECT_FALSE(pool.contains(on_the_heap.get()));
  pool.give(slot);
}

// Without addresses there are no pages, and nothing rests.
TEST(PagePool, WithoutMemoryThereIsNoSlot) {
  PagePool pool(kSlot, size_t(1) << 45);
  DormantPages pages(pool, kKept);
  EXPECT_FALSE(pages.take());
  EXPECT_FALSE(pages.rest());
  pages.wake();
  EXPECT_FALSE(pages.asleep());
}

// The range is cut to fit, and the addresses behind it are others'.
TEST(PagePool, TakesASmallPartOfLimitedAddresses) {
  constexpr size_t kLimit = size_t(1) << 40;
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  if (!kRecycles || pages > kLimit / kPage) GTEST_SKIP() << "a sanitizer has more addresses than the limit leaves";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit limited{kLimit, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  PagePool pool(kSlot, size_t(1) << 30);
  std::byte* slot = pool.take();
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(slot);
  EXPECT_TRUE(pool.contains(slot + kLimit / 64 - 1));
  EXPECT_FALSE(pool.contains(slot + kLimit / 64));
  slot[kSlot - 1] = std::byte(1);
  pool.give(slot);
}

TEST(PagePool, ThreadsShareIt) {
  constexpr size_t kThreads = 4, kRounds = 300;
  PagePool pool(kSlot, 3 * kThreads);
  std::array<bool, kThreads> right{};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      bool all = true;
      for (unsigned i = 0; i < kRounds; ++i) {
        DormantPages first(pool, kKept), second(pool, kKept);
        const Content content = sparse(t * kRounds + i, 2);
        all = all && first.take() && second.take();
        if (!all) break;
        fill(first, content);
        all = all && first.rest();
        fill(second, content);
        first.wake();
        all = all && content_of(first) == content && content_of(second) == content;
      }
      right[t] = all;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, (std::array<bool, kThreads>{true, true, true, true}));
}

}  // namespace
}  // namespace weir::base
