// Where sequences are, and which run of one a request belongs to.
#include "engines/forward/sequence_table.h"

#include <gtest/gtest.h>

#include "engines/forward/origin.h"

namespace weir::forward {
namespace {

struct SequencePlaces : testing::Test {
  Origin& add(const char* url) { return target.origins.emplace_back(*net::parse_url(url), 0, Origin::Addresses(1)); }
  Origin* place(const SequenceKey& key) { return table.place_of(key, SequenceRun(~uint64_t(0))).origin; }
  void break_off(SequenceRun run) { table.break_off(key, run, base::failure(base::Code::kUnavailable, "lost"), {}); }
  bool is_broken() { return !table.go_on(key, {}); }

  Target target;
  SequenceTable& table = target.sequences;
  Origin& first = add("http://10.0.0.1:8001");
  Origin& second = add("http://10.0.0.2:8001");
  const SequenceKey key{1, {0, 7}};
};

TEST_F(SequencePlaces, HaveABound) {
  for (uint64_t id = 0; id <= SequenceTable::kMost; ++id) table.set_place({1, {0, id}}, {}, first);
  EXPECT_EQ(nullptr, place({1, {0, 0}})) << "it was idle longest";
  EXPECT_EQ(&first, place({1, {0, 1}}));
  EXPECT_EQ(nullptr, place({2, {0, 1}})) << "another tenant's";
  table.end({1, {0, 1}}, {});
  EXPECT_EQ(nullptr, place({1, {0, 1}}));
}

TEST_F(SequencePlaces, AnOldRunChangesNothingOfTheNewOne) {
  const SequenceRun old = table.start(key);
  table.set_place(key, old, first);
  const SequenceRun now = table.start(key);
  table.set_place(key, now, second);
  table.set_place(key, old, first);
  table.end(key, old);
  table.end(key, SequenceRun::kUnknown);
  EXPECT_EQ(&second, place(key));
  break_off(old), break_off(SequenceRun::kUnknown);
  EXPECT_FALSE(is_broken());
  EXPECT_EQ(now, *table.go_on(key, {}));
  break_off(now);
  EXPECT_TRUE(is_broken());
  table.end(key, now);
  EXPECT_EQ(nullptr, place(key));
}

// Until its start is sent, the new run waits behind those of the old one.
TEST_F(SequencePlaces, AnOldRunIsOverWhenTheStartOfANewOneIsSent) {
  const SequenceRun old = table.start(key);
  table.send_start(key, old), table.set_place(key, old, first);
  const SequenceRun now = table.start(key);
  EXPECT_FALSE(table.place_of(key, old).over);
  table.send_start(key, now);
  EXPECT_TRUE(table.place_of(key, old).over);
  EXPECT_TRUE(table.place_of(key, SequenceRun::kUnknown).over);
  EXPECT_FALSE(table.place_of(key, now).over);
}

// As when an origin goes away with many of them.
TEST_F(SequencePlaces, HoweverManyLackARequestEachIsRefused) {
  const SequenceRun run = table.start(key);
  table.set_place(key, run, first);
  break_off(run);
  for (uint64_t id = 0; id < 1000; ++id)
    table.break_off({2, {0, id}}, table.start({2, {0, id}}), base::failure(base::Code::kUnavailable, "lost"), {});
  EXPECT_TRUE(is_broken());
  table.end(key, run);
  EXPECT_EQ(nullptr, place(key));
  EXPECT_TRUE(is_broken()) << "also when its end has been answered";
  table.start(key);
  EXPECT_FALSE(is_broken());
}

// Those that lack a request would go on.
TEST_F(SequencePlaces, HoweverManyATenantStartsThoseOfOthersAreKnown) {
  const SequenceRun run = table.start(key);
  break_off(run);
  for (uint64_t id = 0; id < 2 * SequenceTable::kMost; ++id) table.start({2, {0, id}});
  EXPECT_TRUE(is_broken());
}

TEST_F(SequencePlaces, ARunThatIsForgottenCountsAsTheNewest) {
  const SequenceRun forgotten = table.start(key);
  for (uint64_t id = 0; id < SequenceTable::kMost; ++id) table.start({1, {1, id}});
  EXPECT_EQ(SequenceRun::kUnknown, *table.go_on(key, {}));
  table.set_place(key, {}, first);
  break_off(forgotten);
  EXPECT_TRUE(is_broken());
}

}  // namespace
}  // namespace weir::forward
