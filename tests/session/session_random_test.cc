// Random operations against the plainest model there could be.
#include <map>
#include <random>

#include "session_table_fixture.h"

namespace weir::session {
namespace {

using base::Code;

struct Plain {
  std::vector<uint32_t> tokens;
  std::vector<std::pair<uint32_t, uint32_t>> images;
  base::Time used{}, created{};
  std::optional<Lease> lease;
  std::vector<uint32_t> lent;
};

class Play {
 public:
  explicit Play(uint64_t seed) : dice_(seed), t_(limits()) {}
  static SessionLimits limits() {
    SessionLimits l;
    l.per_tenant = 12, l.children = 1000, l.depth = 1000;
    return l;
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step(uint32_t(dice_() % 100));
      check();
    }
    for (auto& [id, plain] : all_)
      if (plain.lease) t_.table.settle(plain.lease->serial, {});
    for (auto& lease : ghosts_) t_.table.settle(lease.first.serial, {});
    for (auto& [id, plain] : all_) t_.table.close(kMe, id);
    EXPECT_EQ(t_.table.sessions(), 0u);
    EXPECT_EQ(t_.table.bytes(), 0u);
    EXPECT_EQ(t_.quota.bytes(), 0u);
    EXPECT_EQ(t_.quota.taken(kMe), 0u);
    t_.env.advance(1h);
    EXPECT_EQ(t_.env.armed(), 0u);
  }

 private:
  uint32_t roll(uint32_t n) { return uint32_t(dice_() % n); }
  SessionId any() {
    if (all_.empty()) return {9, 9};
    return std::next(all_.begin(), roll(uint32_t(all_.size())))->first;
  }
  static bool clean(const Plain& p, uint32_t at) {
    for (auto [start, end] : p.images)
      if (start < at && at < end) return false;
    return true;
  }
  size_t held() const { return all_.size() + ghosts_.size(); }

  void step(uint32_t what) {
    if (what < 15) return open();
    if (what < 25) return fork(any(), roll(40));
    if (what < 55) return begin(any());
    if (what < 85) return settle();
    if (what < 90) return close(any());
    t_.env.advance(what < 98 ? 1min * roll(10) : 31min);
    std::erase_if(all_, [&](auto& one) {
      auto& p = one.second;
      return !p.lease && std::min(p.used + 30min, p.created + 24h) <= t_.env.now();
    });
  }
  void open() {
    auto id = t_.table.open(kMe, {"chat", "1", {}});
    ASSERT_EQ(bool(id), held() < 12);
    if (id) all_[*id].used = all_[*id].created = t_.env.now();
  }
  void fork(SessionId from, uint32_t at) {
    auto made = t_.table.fork(kMe, from, at);
    auto found = all_.find(from);
    bool good = found != all_.end() && at <= found->second.tokens.size() && clean(found->second, at) && held() < 12;
    ASSERT_EQ(bool(made), good);
    if (!made) return;
    Plain& p = all_[*made];
    Plain& parent = all_[from];
    p.used = p.created = t_.env.now();
    if (!parent.lease) parent.used = p.used;
    p.tokens.assign(parent.tokens.begin(), parent.tokens.begin() + at);
    for (auto range : parent.images)
      if (range.second <= at) p.images.push_back(range);
  }
  void begin(SessionId id) {
    auto found = all_.find(id);
    size_t length = found == all_.end() ? 0 : found->second.tokens.size();
    uint32_t offset = roll(3) ? uint32_t(length) : roll(uint32_t(length) + 3);
    auto rewind = roll(2) ? Rewind::kYes : Rewind::kNo;
    auto lease = t_.begin(id, offset, rewind);
    Code expected = Code::kOk;
    if (found == all_.end()) {
      expected = Code::kNotFound;
    } else if (found->second.lease) {
      expected = Code::kAborted;
    } else if (offset > length || (offset < length && rewind == Rewind::kNo) || !clean(found->second, offset)) {
      expected = Code::kFailedPrecondition;
    }
    ASSERT_EQ(lease ? Code::kOk : lease.error().code, expected);
    if (!lease) return;
    found->second.lease = *lease;
    found->second.lent.assign(found->second.tokens.begin(), found->second.tokens.begin() + offset);
  }
  void settle() {
    if (!ghosts_.empty() && roll(2)) {
      t_.table.settle(ghosts_.back().first.serial, {Outcome::Kind::kAppended, {1}, {}, {}});
      ghosts_.pop_back();
      return;
    }
    for (auto& [id, p] : all_) {
      if (!p.lease) continue;
      Outcome outcome;
      if (roll(4)) {
        outcome.kind = Outcome::Kind::kAppended;
        auto length = uint32_t(p.lent.size());
        outcome.appended = row(next_, 1 + roll(12)), outcome.generated = row(next_ + 100, roll(4)), next_ += 1000;
        std::erase_if(p.images, [&](auto range) { return range.first >= length; });
        if (outcome.appended.size() > 3) {
          outcome.images.push_back(image(length + 1, length + 3));
          p.images.emplace_back(length + 1, length + 3);
        }
        p.tokens = p.lent;
        p.tokens.insert(p.tokens.end(), outcome.appended.begin(), outcome.appended.end());
        p.tokens.insert(p.tokens.end(), outcome.generated.begin(), outcome.generated.end());
      }
      t_.table.settle(p.lease->serial, std::move(outcome));
      p.lease.reset();
      p.used = t_.env.now();
      return;
    }
  }
  void close(SessionId id) {
    auto lease = t_.table.close(kMe, id);
    auto found = all_.find(id);
    ASSERT_EQ(bool(lease), found != all_.end() && found->second.lease);
    if (found == all_.end()) return;
    if (lease) ghosts_.emplace_back(*found->second.lease, found->second.lent);
    all_.erase(found);
  }
  void check() {
    ASSERT_EQ(t_.table.sessions(), held());
    ASSERT_EQ(t_.quota.taken(kMe), held());
    auto same = [](const Lease& lease, const std::vector<uint32_t>& lent) {
      return std::equal(lease.tokens.begin(), lease.tokens.end(), lent.begin(), lent.end());
    };
    for (auto& [id, p] : all_) {
      ASSERT_EQ(t_.tokens(id), p.tokens);
      if (p.lease) {
        ASSERT_TRUE(same(*p.lease, p.lent));
      }
    }
    for (auto& [lease, lent] : ghosts_) ASSERT_TRUE(same(lease, lent));
  }

  std::mt19937_64 dice_;
  Bench t_;
  std::map<SessionId, Plain> all_;
  std::vector<std::pair<Lease, std::vector<uint32_t>>> ghosts_;  // closed, but lent
  uint32_t next_ = 1;
};

TEST(SessionTable, AgreesWithAPlainModelUnderRandomUse) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Play(seed).run(400);
  }
}

}  // namespace
}  // namespace weir::session
