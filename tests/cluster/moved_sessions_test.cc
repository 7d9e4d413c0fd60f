// Sessions that go where their client is: a node that has one lets it go, and another one takes it.
#include <map>

#include "kept_sessions_fixture.h"

namespace weir::cluster {
namespace {

// Two nodes, of which each asks the other to let go.
struct MovedSessionsTest : KeptSessionsTest {
  base::Result<Place> move(One& one, const std::string& id, const std::string& whose, base::Duration time = {},
                           std::vector<One*> watching = {}) {
    auto out = std::make_shared<base::Result<Place>>(kNoAnswer);
    KeptSessions::Mover mover;
    mover.accept = [whose](const std::string& state) {
      return state.starts_with(whose) ? Status() : base::failure(Code::kNotFound, "not yours");
    };
    mover.ask = [this, id](const std::string& owner, Ownership::Done then) {
      asked.push_back(owner);
      if (refuses.code != Code::kOk) return then(refuses);
      owners.at(owner)->kept.release(id, then);
    };
    one.kept.find(
        id, "", [out](base::Result<Place> place) { *out = std::move(place); }, std::move(mover));
    bucket.answer();
    pass(time, std::move(watching));
    return *out;
  }
  Status release(One& one, const std::string& id) {
    Status out = kNoAnswer;
    one.kept.release(id, [&](Status s) { out = std::move(s); });
    bucket.answer();
    return out;
  }
  std::map<std::string, One*> owners;
  std::vector<std::string> asked;
  Status refuses;
};

TEST_F(MovedSessionsTest, ANodeThatIsThereLetsItGo) {
  One a(*this, "a"), b(*this, "b");
  owners = {{"a", &a}, {"b", &b}};
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  ASSERT_TRUE(save(a, "s", "ann two").ok());
  auto place = move(b, "s", "ann");
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kHere);
  EXPECT_EQ(place->state, "ann two");
  EXPECT_EQ(asked, std::vector<std::string>{"a"});
  EXPECT_EQ(a.kept.owned(), 0u);
  EXPECT_EQ(b.kept.owned(), 1u);
  EXPECT_TRUE(save(b, "s", "ann three").ok());
  EXPECT_EQ(save(a, "s", "ann two and a half").code, Code::kAborted) << "a late turn";
  EXPECT_TRUE(value("s").ends_with("ann three"));
  // And back.
  place = move(a, "s", "ann");
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->state, "ann three");
  EXPECT_TRUE(save(a, "s", "ann four").ok());
}

TEST_F(MovedSessionsTest, OneThatWasLetGoNeedsNobodysLeave) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  EXPECT_TRUE(release(a, "s").ok());
  EXPECT_TRUE(release(a, "s").ok()) << "nobody has it";
  auto place = move(b, "s", "ann");
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kHere);
  EXPECT_TRUE(asked.empty());
  ASSERT_TRUE(release(b, "s").ok());
  EXPECT_EQ(move(b, "s", "ann")->where, Where::kHere) << "by the node that had it, too";
}

TEST_F(MovedSessionsTest, ForOthersItDoesNotExistAndStaysWhereItIs) {
  One a(*this, "a"), b(*this, "b");
  owners = {{"a", &a}, {"b", &b}};
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  EXPECT_EQ(move(a, "s", "bob")->where, Where::kNowhere) << "at the node itself";
  refuses = base::failure(Code::kNotFound, "not yours");
  EXPECT_EQ(move(b, "s", "bob")->where, Where::kNowhere);
  EXPECT_EQ(a.kept.owned(), 1u);
  refuses = {};
  ASSERT_TRUE(release(a, "s").ok());
  EXPECT_EQ(move(b, "s", "bob")->where, Where::kNowhere);
  EXPECT_EQ(b.kept.owned(), 0u);
  EXPECT_EQ(move(b, "none", "bob")->where, Where::kNowhere);
  EXPECT_EQ(move(b, "s", "ann")->where, Where::kHere);
}

TEST_F(MovedSessionsTest, ANodeThatDiesDoesNotHaveToLetGo) {
  auto a = std::make_unique<One>(*this, "a");
  One b(*this, "b");
  pass(seconds(2), {a.get(), &b});
  ASSERT_TRUE(save(*a, "s", "ann one").ok());
  a.reset();
  refuses = base::failure(Code::kUnavailable, "it does not answer");
  auto place = move(b, "s", "ann", seconds(7), {&b});
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kHere);
  EXPECT_EQ(place->state, "ann one");
}

// A write that waits here does not take the place of what another node has kept since, when somebody here has just
// taken that.
TEST_F(MovedSessionsTest, AStateThatWaitedIsNotWrittenOverANewerRecordThatWasTakenMeanwhile) {
  One a(*this, "a"), b(*this, "b");
  owners = {{"a", &a}, {"b", &b}};
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  bucket.away = true;
  a.membership.disconnected();
  ASSERT_TRUE(save(a, "s", "ann old").ok());
  bucket.away = false;
  a.way.cut = true;
  refuses = base::failure(Code::kUnavailable, "it does not answer");
  ASSERT_TRUE(move(b, "s", "ann", seconds(7), {&b}));
  ASSERT_TRUE(save(b, "s", "ann new").ok());
  ASSERT_TRUE(release(b, "s").ok());
  a.way.cut = false;
  a.membership.connected();
  bucket.answer();
  ASSERT_TRUE(a.membership.has_lease());
  ASSERT_EQ(a.kept.unkept(), 1u);
  base::Result<Place> found = kNoAnswer;
  KeptSessions::Mover mover{[](const std::string&) { return Status(); }, {}};
  a.kept.find(
      "s", "", [&](base::Result<Place> place) { found = std::move(place); }, std::move(mover));
  Status kept = kNoAnswer;
  a.kept.save("s", "ann old", [&](Status s) { kept = std::move(s); });  // as the timer does that tries again
  pass(seconds(2), {&a, &b});
  EXPECT_EQ(kept.code, Code::kAborted) << kept.text;
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_EQ(found->state, "ann new");
  EXPECT_TRUE(value("s").ends_with("ann new"));
  EXPECT_TRUE(save(a, "s", "ann newer").ok());
  EXPECT_TRUE(value("s").ends_with("ann newer"));
}

TEST_F(MovedSessionsTest, OneThatStaysIsNamedInTheEnd) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  refuses = base::failure(Code::kUnavailable, "busy");
  auto place = move(b, "s", "ann", seconds(16), {&a, &b});
  EXPECT_EQ(place.error().code, Code::kUnavailable);
  EXPECT_EQ(place.error().text, "node 'a': busy");
  EXPECT_LT(asked.size(), 100u);
}

TEST_F(MovedSessionsTest, WhatIsBeingWrittenIsLetGoBehindThat) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  std::vector<std::string> said;
  a.kept.save("s", "ann one", [&](const Status& s) { said.push_back(s.ok() ? "kept" : s.text); });
  a.kept.save("s", "ann two", [&](const Status& s) { said.push_back(s.ok() ? "kept" : s.text); });
  a.kept.release("s", [&](const Status& s) { said.push_back(s.ok() ? "let go" : s.text); });
  bucket.answer();
  EXPECT_EQ(said, (std::vector<std::string>{"kept", "kept", "let go"}));
  EXPECT_EQ(a.kept.owned(), 0u);
  EXPECT_TRUE(value("s").ends_with("ann two"));
}

TEST_F(MovedSessionsTest, WhatWaitsForTheBucketIsLetGoOnceItIsWritten) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  bucket.away = true;
  a.membership.disconnected();
  ASSERT_TRUE(save(a, "s", "ann two").ok());
  EXPECT_EQ(release(a, "s").code, Code::kUnavailable);
  bucket.away = false;
  a.membership.connected();
  pass(seconds(3), {&a, &b});
  EXPECT_EQ(a.kept.owned(), 0u);
  auto place = move(b, "s", "ann");
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->state, "ann two");
}

TEST_F(MovedSessionsTest, TheNewestStateWaitsForTheBucketAlsoWithoutALease) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  std::vector<base::Code> said;
  a.kept.save("s", "ann two", [&](const Status& s) { said.push_back(s.code); });
  a.kept.save("s", "ann three", [&](const Status& s) { said.push_back(s.code); });
  bucket.away = true;
  a.membership.disconnected();
  env.advance(seconds(6));
  ASSERT_FALSE(a.membership.has_lease());
  ASSERT_TRUE(said.empty());
  bucket.answer();
  EXPECT_EQ(said, (std::vector<base::Code>{Code::kUnavailable, Code::kUnavailable}));
  bucket.away = false;
  a.membership.connected();
  pass(seconds(4), {&a, &b});
  EXPECT_TRUE(value("s").ends_with("ann three")) << value("s");
}

TEST_F(MovedSessionsTest, WhoAsksWhetherItIsKeptIsToldSo) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  auto kept = [&](const std::string& state) {
    Status out = kNoAnswer;
    a.kept.save(
        "s", state, [&](Status s) { out = std::move(s); }, KeptSessions::Tells::kWhetherKept);
    bucket.answer();
    return out;
  };
  EXPECT_TRUE(kept("ann one").ok());
  bucket.away = true;
  a.membership.disconnected();
  EXPECT_EQ(kept("ann two").code, Code::kUnavailable);
  EXPECT_TRUE(save(a, "s", "ann two").ok()) << "it may be answered for: the node has its lease";
  EXPECT_EQ(a.kept.unkept(), 1u);
}

TEST_F(MovedSessionsTest, WhatSomebodyHoldsStaysWhenTheNodeDrains) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  ASSERT_TRUE(save(a, "held", "ann one").ok());
  ASSERT_TRUE(save(a, "free", "ann one").ok());
  a.kept.release_all([](const std::string& id) { return id == "held"; });
  bucket.answer();
  EXPECT_EQ(a.kept.owned(), 1u);
  EXPECT_TRUE(a.ownership.owns("held"));
}

TEST_F(MovedSessionsTest, AReleaseThatHasFailedIsMadeUpFor) {
  One a(*this, "a"), b(*this, "b");
  owners = {{"a", &a}, {"b", &b}};
  pass(seconds(2), {&a, &b});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  bucket.away = true;
  EXPECT_EQ(release(a, "s").code, Code::kUnavailable);
  bucket.away = false;
  auto place = move(b, "s", "ann", seconds(1), {&a, &b});
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kHere);
  EXPECT_EQ(place->state, "ann one");
  // This node does not let go of a session that another one has.
  EXPECT_TRUE(release(a, "s").ok());
  EXPECT_TRUE(b.ownership.owns("s"));
  EXPECT_TRUE(save(b, "s", "ann two").ok());
}

TEST_F(MovedSessionsTest, WhatIsBeingWrittenIsNotTakenByTheNodeItself) {
  One a(*this, "a");
  pass(seconds(2), {&a});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  Status saved = kNoAnswer, let_go = kNoAnswer;
  a.kept.save("s", "ann two", [&](Status s) { saved = std::move(s); });
  bucket.refuse_next();  // it is written again
  a.kept.release("s", [&](Status s) { let_go = std::move(s); });
  auto place = move(a, "s", "ann", seconds(1), {&a});
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place->where, Where::kHere);
  EXPECT_EQ(place->state, "ann two");
  EXPECT_TRUE(saved.ok()) << saved.text;
  EXPECT_TRUE(let_go.ok()) << let_go.text;
  EXPECT_TRUE(save(a, "s", "ann three").ok());
  EXPECT_TRUE(value("s").ends_with("ann three"));
}

TEST_F(MovedSessionsTest, WhoWaitsForOneThatIsTakenAgainIsToldSo) {
  One a(*this, "a");
  pass(seconds(2), {&a});
  ASSERT_TRUE(save(a, "s", "ann one").ok());
  bucket.away = true;
  EXPECT_EQ(release(a, "s").code, Code::kUnavailable);
  bucket.away = false;
  Status let_go = kNoAnswer;
  auto place = std::make_shared<base::Result<Place>>(kNoAnswer);
  KeptSessions::Mover mover;
  mover.accept = [](const std::string&) { return Status(); };
  a.kept.find(
      "s", "", [place](base::Result<Place> p) { *place = std::move(p); }, std::move(mover));
  a.kept.release("s", [&](Status s) { let_go = std::move(s); });
  bucket.answer();
  EXPECT_EQ(let_go.code, Code::kUnavailable) << let_go.text;
  EXPECT_EQ(a.kept.owned(), 1u);
  ASSERT_TRUE(*place) << place->error().text;
  EXPECT_EQ((*place)->state, "ann one");
}

TEST_F(MovedSessionsTest, WhatWaitsForTheBucketLeavesHalfOfTheRoomToOthers) {
  One a(*this, "a", {.unkept_bytes = 1000});
  pass(seconds(1), {&a});
  bucket.away = true;
  a.membership.disconnected();
  for (int i = 0; i < 20; ++i) (void)save(a, "held-" + std::to_string(i), std::string(100, 'x'));
  EXPECT_EQ(a.kept.unkept(), 5u);
  for (int i = 0; i < 20; ++i) (void)save(a, "s" + std::to_string(i), std::string(100, 'x'));
  EXPECT_EQ(a.kept.unkept(), 10u);
  bucket.away = false;
  a.membership.connected();
  pass(seconds(4), {&a});
  EXPECT_EQ(a.kept.unkept(), 0u);
  bucket.away = true;
  a.membership.disconnected();
  for (int i = 0; i < 20; ++i) (void)save(a, "held-" + std::to_string(i), std::string(100, 'x'));
  EXPECT_EQ(a.kept.unkept(), 5u) << "the room was given back";
}

TEST_F(MovedSessionsTest, ReleasesAreForgottenInTheEnd) {
  One a(*this, "a");
  pass(seconds(1), {&a});
  for (int i = 0; i < 500; ++i) {
    const std::string id = "s" + std::to_string(i);
    ASSERT_TRUE(save(a, id, "ann").ok());
    ASSERT_TRUE(release(a, id).ok());
  }
  EXPECT_EQ(a.kept.owned(), 0u);
  EXPECT_LE(a.ownership.releases(), 100u) << "as many as it may own";
}

}  // namespace
}  // namespace weir::cluster
