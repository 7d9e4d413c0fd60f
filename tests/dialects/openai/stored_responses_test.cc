// StoredResponses: ids, and how tenants share the room.
#include "dialects/openai/responses/stored.h"

#include <gtest/gtest.h>

#include <string>

#include "base/memory_ledger.h"

namespace weir::openai {
namespace {

using responses::StoredResponse;
using responses::StoredResponses;

constexpr base::Time kNow{};
constexpr size_t kShare = StoredResponses::kMost / 4;

StoredResponse text_of(size_t bytes) { return {"", base::Bytes::adopt(std::string(bytes, 'x')), {}}; }

void fill(StoredResponses& stored, uint64_t tenant, size_t count, size_t bytes = 1) {
  for (size_t i = 0; i < count; ++i) ASSERT_TRUE(stored.put(tenant, std::to_string(i), text_of(bytes), kNow)) << i;
}
// How many of those are left, which are the newest.
size_t left(StoredResponses& stored, uint64_t tenant, size_t count) {
  size_t gone = 0;
  while (gone < count && !stored.find(tenant, std::to_string(gone), kNow)) ++gone;
  return count - gone;
}

TEST(StoredResponses, ATenantHasAShareOfTheirCount) {
  StoredResponses stored(std::chrono::minutes(1), 1 << 30);
  fill(stored, 2, 1);
  fill(stored, 1, StoredResponses::kMost + 100);
  EXPECT_EQ(stored.size(), kShare + 1);
  EXPECT_EQ(left(stored, 1, StoredResponses::kMost + 100), kShare);
  EXPECT_EQ(left(stored, 2, 1), 1u);
  fill(stored, 3, 1);
}

TEST(StoredResponses, WhoHasTheMostMakesRoomWhereTheirCountIsFull) {
  StoredResponses stored(std::chrono::minutes(1), 1 << 30);
  fill(stored, 1, kShare);
  fill(stored, 2, kShare);
  fill(stored, 3, kShare - 10);
  fill(stored, 4, kShare - 20);
  fill(stored, 5, 50);
  EXPECT_EQ(stored.size(), StoredResponses::kMost);
  EXPECT_EQ(left(stored, 1, kShare), kShare - 10);
  EXPECT_EQ(left(stored, 2, kShare), kShare - 10);
  EXPECT_EQ(left(stored, 3, kShare - 10), kShare - 10);
  EXPECT_EQ(left(stored, 4, kShare - 20), kShare - 20);
  EXPECT_EQ(left(stored, 5, 50), 50u);
}

TEST(StoredResponses, WhoHasTheMostMakesRoomWhereTheirMemoryIsFull) {
  StoredResponses stored(std::chrono::minutes(1), 400 << 10);
  for (uint64_t tenant = 1; tenant <= 4; ++tenant) fill(stored, tenant, 10, 9 << 10);
  fill(stored, 5, 40, 9 << 10);
  for (uint64_t tenant = 1; tenant <= 4; ++tenant) EXPECT_GE(left(stored, tenant, 10), 8u) << tenant;
  EXPECT_GE(left(stored, 5, 40), 8u);
  EXPECT_LE(left(stored, 5, 40), 9u) << "where it has as much as any, its own go";
}

TEST(StoredResponses, WhoHasTheMostMakesRoomWhereAllMemoryIsSpent) {
  base::MemoryLedger ledger(100 << 10);
  StoredResponses stored(std::chrono::minutes(1), 4 << 20, &ledger);
  fill(stored, 1, 20, 9 << 10);
  fill(stored, 2, 1, 9 << 10);
  EXPECT_EQ(left(stored, 2, 1), 1u);
  ledger.add(base::MemoryKind::kSlabs, 100 << 10);
  EXPECT_FALSE(stored.put(3, "a", text_of(9 << 10), kNow));
  EXPECT_GE(stored.size(), 2u) << "no more go than would have been enough";
  ledger.give(base::MemoryKind::kSlabs, 100 << 10);
  stored.expire(kNow + std::chrono::minutes(1));
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 0u);
  const uint64_t others = ledger.budget() / 2 - 100;
  ASSERT_TRUE(ledger.take(base::MemoryKind::kSessions, others));
  EXPECT_FALSE(stored.put(3, "a", text_of(100), kNow)) << "there is nothing that could go";
  ledger.give(base::MemoryKind::kSessions, others);
}

TEST(StoredResponses, EachTenantHasNamesOfItsOwn) {
  StoredResponses stored(std::chrono::minutes(1), 1 << 20);
  EXPECT_TRUE(stored.put(1, "chatcmpl-run-1", text_of(10), kNow));
  EXPECT_FALSE(stored.put(1, "chatcmpl-run-1", text_of(10), kNow));
  ASSERT_TRUE(stored.put(2, "chatcmpl-run-1", text_of(20), kNow));
  EXPECT_EQ(stored.find(1, "chatcmpl-run-1", kNow)->turns.size(), 10u);
  EXPECT_EQ(stored.find(2, "chatcmpl-run-1", kNow)->turns.size(), 20u);
  EXPECT_TRUE(stored.remove(1, "chatcmpl-run-1", kNow));
  EXPECT_FALSE(stored.find(1, "chatcmpl-run-1", kNow));
  EXPECT_TRUE(stored.find(2, "chatcmpl-run-1", kNow));
  EXPECT_TRUE(stored.put(1, "chatcmpl-run-1", text_of(10), kNow));
}

}  // namespace
}  // namespace weir::openai
