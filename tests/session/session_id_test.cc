#include "session/session_id.h"

#include <deque>
#include <set>

#include "session_table_fixture.h"

namespace weir::session {
namespace {

// Draws these numbers.
class Drawn final : public base::Env {
 public:
  explicit Drawn(std::deque<uint64_t> numbers) : numbers_(std::move(numbers)) {}
  uint64_t random() override {
    uint64_t next = numbers_.front();
    numbers_.pop_front();
    return next;
  }
  base::Time now() const override { return {}; }
  base::WallTime wall() const override { return {}; }
  base::TimerId at(base::Time, std::function<void()>) override { return {}; }
  void cancel(base::TimerId) override {}

 private:
  std::deque<uint64_t> numbers_;
};

TEST(SessionId, NamesItsHomeWhateverTheNumberOfShards) {
  base::FakeEnv env;
  std::set<SessionId> seen;
  for (size_t shards : {1, 2, 3, 7, 64, 255, 256})
    for (uint16_t home = 0; home < shards; ++home) {
      auto id = make_session_id(env, base::ShardId(home), shards);
      EXPECT_EQ(home_of(id, shards), base::ShardId(home));
      EXPECT_TRUE(seen.insert(id).second);
      EXPECT_EQ(parse_session_id(text(id)), id);
    }
}

TEST(SessionId, OtherTextsAreNone) {
  for (std::string_view bad : {"", "0", "0123456789ABCDEF0123456789abcdef", "0123456789abcdef0123456789abcdeg",
                               "0123456789abcdef0123456789abcdef0", " 123456789abcdef0123456789abcdef",
                               "0123456789abcdef 123456789abcdef", "0123456789abcde 0123456789abcdef"})
    EXPECT_FALSE(parse_session_id(bad)) << bad;
}

TEST(SessionId, ItsTopSixteenBitsModuloTheShardsAreItsHome) {
  EXPECT_EQ(home_of({0xfffe'0000'0000'0000, 0}, 65'537), base::ShardId(0xfffe));
  EXPECT_EQ(home_of({0x0007'ffff'ffff'ffff, 9}, 5), base::ShardId(2));
}

TEST(SessionId, RandomBitsThatLeaveNoRoomForTheHomeAreDrawnAnew) {
  Drawn env({UINT64_MAX, 1, 0x0016'0000'0000'0005, 7});
  EXPECT_EQ(make_session_id(env, base::ShardId(6), 7), (SessionId{0x001b'0000'0000'0005, 7}));
}

TEST(SessionId, CarriesTheTagOfItsNodeAndItsHome) {
  base::FakeEnv env;
  std::set<SessionId> seen;
  for (std::string_view name : {"", "a", "b", "node-7", "0123456789abcdef"}) {
    const NodeTag tag = tag_of_node(name);
    EXPECT_NE(tag, NodeTag::kNone);
    for (uint16_t home = 0; home < 7; ++home) {
      auto id = make_session_id(env, base::ShardId(home), 7, tag);
      EXPECT_EQ(tag_of(id), tag);
      EXPECT_EQ(home_of(id, 7), base::ShardId(home));
      EXPECT_TRUE(seen.insert(id).second);
      EXPECT_EQ(tag_of(*parse_session_id(text(id))), tag);
    }
  }
  EXPECT_NE(tag_of_node("a"), tag_of_node("b"));
}

TEST(SessionId, NoneIsAllZeros) {
  Drawn env({0, 0, 3, 4});
  EXPECT_EQ(make_session_id(env, base::ShardId(0), 2), (SessionId{3, 4}));
}

}  // namespace
}  // namespace weir::session
