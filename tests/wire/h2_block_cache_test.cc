#include "wire/h2_block_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/memory_ledger.h"

namespace weir::wire {
namespace {

using base::MemoryKind;
using Ref = H2BlockCache::Ref;

std::array<nghttp2_nv, 1> field(std::string& name, std::string& value) {
  return {{{reinterpret_cast<uint8_t*>(name.data()), reinterpret_cast<uint8_t*>(value.data()), name.size(),
            value.size(), 0}}};
}

// A connection that says one thing, whose head of 4 KiB has used up what is free.
struct Saying {
  static constexpr uint64_t kBudget = 1 << 20;
  base::MemoryLedger ledger{kBudget};
  base::SteppedCharge heads{&ledger, MemoryKind::kInput};
  H2BlockCache blocks;
  std::string name = ":status", value = "200";

  Saying() { EXPECT_TRUE(heads.take(base::kLeastCharged)); }
  void say() {
    blocks.writes(field(name, value), heads);
    blocks.wrote("\x88");
  }
  bool known() { return blocks.find(field(name, value)) != Ref::kNone; }
};

TEST(H2BlockCache, TheirMemoryIsChargedFromTheSecondBlockOnUntilItIsGivenBack) {
  Saying t;
  t.say();
  EXPECT_FALSE(t.known()) << "many a connection answers once";
  EXPECT_EQ(t.heads.used(), base::kLeastCharged);
  t.say();
  EXPECT_TRUE(t.known());
  EXPECT_GT(t.heads.used(), base::kLeastCharged + 500);
  const uint64_t charged = t.heads.used();
  t.say(), t.blocks.forget(), t.say();
  EXPECT_EQ(t.heads.used(), charged) << "once";
  EXPECT_GT(t.ledger.held(MemoryKind::kInput), 0u);
  t.blocks.drop(t.heads), t.blocks.drop(t.heads);
  EXPECT_EQ(t.heads.used(), base::kLeastCharged);
  EXPECT_FALSE(t.known());
}

TEST(H2BlockCache, WhereThereIsNoMemoryNoneAreKept) {
  Saying t;
  t.ledger.add(MemoryKind::kAnswers, Saying::kBudget);
  t.say(), t.say(), t.say();
  EXPECT_FALSE(t.known());
  EXPECT_EQ(t.heads.used(), base::kLeastCharged);
  t.ledger.give(MemoryKind::kAnswers, Saying::kBudget);
  t.say();
  EXPECT_TRUE(t.known());
}

}  // namespace
}  // namespace weir::wire
