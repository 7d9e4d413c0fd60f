#include "cluster/peers.h"

#include <gtest/gtest.h>

#include "base/fake_env.h"
#include "cluster/ownership.h"
#include "cluster/peer_answers.h"
#include "cluster/relayed_bucket.h"
#include "fake_bucket.h"

namespace weir::cluster {
namespace {

using base::Code;
using std::chrono::seconds;
using What = PeerRequest::What;

TEST(PeerMessages, WhatIsWrittenIsReadAgain) {
  const auto request = read_request(write_request({What::kWrite, "node.a", 7, "some\nbytes"}));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->key, "node.a");
  EXPECT_EQ(request->number, 7u);
  EXPECT_EQ(request->value, "some\nbytes");
  const auto entry = read_answer(write_answer(Bucket::KeyValue{"k", "v\nw", 9, false}));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->value, "v\nw");
  EXPECT_EQ(entry->revision, 9u);
  EXPECT_TRUE(read_answer(write_answer(Bucket::KeyValue{"k", "", 9, true}))->erased);
  const auto leave = read_request(write_request({What::kLeave, "held-0f", 0, "key Ann\n"}));
  ASSERT_TRUE(leave);
  EXPECT_EQ(leave->what, What::kLeave);
  EXPECT_EQ(leave->key, "held-0f");
  EXPECT_EQ(leave->value, "key Ann\n");
  const auto refused = read_answer(write_answer(base::failure(Code::kAborted, "another\nrevision")));
  EXPECT_EQ(refused.error().code, Code::kAborted);
}

TEST(PeerMessages, HostileOnesAreRefused) {
  const std::string long_key(200, 'k');
  for (const std::string& bad : {std::string(), std::string("write"), std::string("write k 1"),
                                 std::string("write ../k 1\n"), std::string("steal k 1\n"), std::string("read k x\n"),
                                 std::string("read k 1\nmore"), std::string("promise k 99999999999999999999999\n"),
                                 "read " + long_key + " 0\n", "write k 1\n" + std::string(kLargestPeerMessage, 'x')})
    EXPECT_FALSE(read_request(bad)) << bad.substr(0, 80);
  for (const std::string& bad : {std::string(), std::string("ok\n"), std::string("ok x\n"), std::string("no 0 fine\n"),
                                 std::string("no 99 worse\n"), std::string("ok 1 other\n"), std::string("ok 1")}) {
    const auto answer = read_answer(bad);
    ASSERT_FALSE(answer) << bad;
    EXPECT_EQ(answer.error().code, Code::kUnavailable);
  }
}

struct PeersTest : testing::Test {
  struct One final : Peers {
    One(PeersTest& its_test, const std::string& id, PeerAnswers::Relays relays = PeerAnswers::Relays::kYes)
        : test(its_test),
          way(test.bucket),
          bucket(way, this, [this] { return others(); }),
          membership(test.env, bucket, Rules(), "", named(id), {}, this),
          ownership(bucket, membership, 10),
          answers(membership, way, way, relays) {
      test.all[membership.self().address] = this;
      membership.connected();
    }
    ~One() { test.all.erase(membership.self().address); }
    static Node named(const std::string& id) {
      Node node;
      node.id = id, node.address = "http://" + id;
      return node;
    }
    std::vector<std::string> others() const {
      std::vector<std::string> out;
      for (const Node* node : membership.nodes()) out.push_back(node->address);
      return out;
    }
    void ask(const std::string& address, std::string request, Then then) override {
      auto found = test.all.find(address);
      if (found == test.all.end() || apart || found->second->apart)
        return then(base::failure(Code::kUnavailable, "no answer"));
      found->second->answers.answer(request, [then](std::string answer) { then(std::move(answer)); });
    }
    void lose_nats() { way.cut = true, membership.disconnected(); }
    void find_nats() { way.cut = false, membership.connected(); }

    PeersTest& test;
    Way way;
    RelayedBucket bucket;
    Membership membership;
    Ownership ownership;
    PeerAnswers answers;
    bool apart = false;
  };
  void pass(base::Duration time, const std::vector<One*>& watching) { cluster::pass(env, bucket, time, watching); }
  base::Status take(One& one, const std::string& session) {
    base::Status out = base::failure(Code::kUnknown, "no answer");
    one.ownership.take(session, [&](base::Result<Record> taken) { out = taken ? base::Status() : taken.error(); });
    bucket.answer();
    return out;
  }
  void open(One& one, const std::string& session) {
    one.ownership.open(session, "x", [](const base::Status& s) { EXPECT_TRUE(s.ok()) << s.text; });
    bucket.answer();
  }

  base::FakeEnv env;
  FakeBucket bucket;
  std::map<std::string, One*> all;
};

TEST_F(PeersTest, ANodeThatTheBucketDoesNotReachWritesByWayOfAnother) {
  One a(*this, "a"), b(*this, "b");
  pass(seconds(3), {&a, &b});
  open(a, "s");
  a.lose_nats();
  pass(seconds(20), {&b});
  EXPECT_TRUE(a.ownership.may_answer("s"));
  EXPECT_TRUE(a.membership.reaches_bucket());
  EXPECT_EQ(a.bucket.way(), "http://b");
  EXPECT_EQ(take(b, "s").code, Code::kFailedPrecondition);
  base::Status kept = base::failure(Code::kUnknown, "no answer");
  a.ownership.commit("s", "turn", [&](const base::Status& s) { kept = s; });
  bucket.answer();
  EXPECT_TRUE(kept.ok()) << kept.text;
  a.find_nats();
  pass(seconds(2), {&a, &b});
  EXPECT_EQ(a.bucket.way(), "");
  EXPECT_TRUE(a.ownership.may_answer("s"));
}

TEST_F(PeersTest, WithoutASecretNobodyWritesForOthersAndTheLeaseEndsBeforeAnotherHasTheSession) {
  One a(*this, "a", PeerAnswers::Relays::kNo), b(*this, "b", PeerAnswers::Relays::kNo);
  pass(seconds(3), {&a, &b});
  open(a, "s");
  a.lose_nats();
  for (int i = 0; i < 80 && !b.ownership.may_answer("s"); ++i) {
    pass(std::chrono::milliseconds(100), {&b});
    (void)take(b, "s");
    EXPECT_FALSE(a.ownership.may_answer("s") && b.ownership.may_answer("s"));
  }
  EXPECT_TRUE(b.ownership.may_answer("s"));
}

TEST_F(PeersTest, WithoutTheBucketAllGoOnByThePromisesOfAll) {
  One a(*this, "a"), b(*this, "b"), c(*this, "c");
  pass(seconds(3), {&a, &b, &c});
  EXPECT_EQ(a.membership.named(), 2u);
  open(a, "s");
  for (One* one : {&a, &b, &c}) one->lose_nats();
  pass(seconds(60), {});
  EXPECT_TRUE(a.ownership.may_answer("s"));
  // One of them is not to be reached: it may have the bucket.
  c.apart = true;
  pass(seconds(5), {});
  EXPECT_FALSE(a.membership.has_lease());
  c.apart = false;
  pass(seconds(1), {});
  EXPECT_TRUE(a.ownership.may_answer("s"));
  // One has the bucket again, and takes nothing before the lease of the others is over.
  a.apart = true;
  b.find_nats();
  for (int i = 0; i < 80; ++i) {
    pass(std::chrono::milliseconds(100), {&b});
    (void)take(b, "s");
    EXPECT_FALSE(a.ownership.may_answer("s") && b.ownership.may_answer("s"));
  }
  EXPECT_TRUE(b.ownership.may_answer("s"));
}

TEST_F(PeersTest, ANodeThatIsAloneGoesOnForAsLongAsAStrangerWaits) {
  One a(*this, "a");
  pass(seconds(3), {&a});
  open(a, "s");
  a.lose_nats();
  pass(Rules().alone - seconds(10), {});
  EXPECT_TRUE(a.ownership.may_answer("s"));
  One stranger(*this, "stranger");
  pass(seconds(60), {&stranger});
  EXPECT_FALSE(a.membership.has_lease());
  EXPECT_EQ(take(stranger, "s").code, Code::kUnavailable);
  pass(Rules().stranger(Rules().alone), {&stranger});
  EXPECT_TRUE(take(stranger, "s").ok());
}

TEST_F(PeersTest, WhatIsAskedIsRefusedWhereItIsNobodysBusiness) {
  One a(*this, "a"), b(*this, "b", PeerAnswers::Relays::kNo);
  pass(seconds(3), {&a, &b});
  auto ask = [&](One& one, const std::string& request) {
    std::string out;
    one.answers.answer(request, [&](std::string answer) { out = std::move(answer); });
    bucket.answer();
    return read_answer(out).error().code;
  };
  EXPECT_EQ(ask(a, "write config.x 0\nmine"), Code::kPermissionDenied);
  EXPECT_EQ(ask(b, "write node.x 0\nmine"), Code::kPermissionDenied);
  EXPECT_EQ(ask(a, "rubbish"), Code::kInvalidArgument);
  EXPECT_EQ(ask(a, "leave held-0 0\nhost a"), Code::kUnimplemented);
  std::vector<std::string> left;
  PeerAnswers leaves(a.membership, bucket, bucket, PeerAnswers::Relays::kNo,
                     [&](const std::string& id, const std::string&, std::function<void(base::Status)> then) {
                       left.push_back(id);
                       then({});
                     });
  auto answer_to = [&](const std::string& request) {
    std::string out;
    leaves.answer(request, [&](std::string answer) { out = std::move(answer); });
    return read_answer(out);
  };
  EXPECT_EQ(answer_to("leave 0f0f 0\nhost a").error().code, Code::kNotFound) << "a session of another kind stays";
  EXPECT_TRUE(answer_to("leave held-0f 0\nhost a"));
  EXPECT_EQ(left, std::vector<std::string>{"held-0f"});
  // Those that wait leave room for promises.
  std::vector<std::function<void(base::Status)>> waiting;
  PeerAnswers slow(a.membership, bucket, bucket, PeerAnswers::Relays::kNo,
                   [&](const std::string&, const std::string&, std::function<void(base::Status)> then) {
                     waiting.push_back(std::move(then));
                   });
  std::vector<std::string> said;
  auto note = [&](std::string answer) { said.push_back(std::move(answer)); };
  for (size_t i = 0; i < PeerAnswers::kMostLeaving + 2; ++i) slow.answer("leave held-0f 0\nhost a", note);
  EXPECT_EQ(waiting.size(), PeerAnswers::kMostLeaving);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(read_answer(said[0]).error().code, Code::kUnavailable);
  waiting[0]({});
  slow.answer("leave held-0f 0\nhost a", note);
  EXPECT_EQ(waiting.size(), PeerAnswers::kMostLeaving + 1);
  EXPECT_EQ(ask(a, "promise b 1\n"), Code::kFailedPrecondition);
  a.lose_nats();
  EXPECT_EQ(ask(a, "write node.x 0\nmine"), Code::kUnavailable);
  EXPECT_FALSE(bucket.entries.contains("node.x"));
}

}  // namespace
}  // namespace weir::cluster
