// Responses that one node of a cluster makes in the background, as another one that has the same journal sees them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <list>
#include <thread>

#include "bench.h"
#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/follower.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/responses.h"
#include "dialects/openai/responses/stored.h"
#include "fake_records.h"
#include "jobs/commands.h"
#include "jobs/shard_jobs.h"
#include "support/counted_slabs.h"
#include "support/posted_work.h"
#include "tests/jobs/fake_log.h"
#include "tests/jobs/folder.h"

namespace weir::openai {
namespace {

using jobs::Storage;

// Two nodes, each of one shard, whose threads are the test's. One thread is both's journal's.
class LiveResponse : public OpenaiBench {
 protected:
  struct Node {
    Node(LiveResponse& test, base::ShardId id, Options options) : router(test.env) {
      journal.emplace(test.store, jobs::ShardJobs::Surroundings{
                                      test.env, id, 2, router, nullptr, nullptr,
                                      [this](std::function<void()> work) { posted.post(std::move(work)); }});
      options.stored = &stored, options.background = &background, options.jobs = &*journal;
      openai = std::make_unique<Openai>(test.bus, router, test.load, options);
    }
    wire::Router router;
    support::PostedWork posted;
    std::optional<jobs::ShardJobs> journal;
    responses::StoredResponses stored{std::chrono::minutes(10), 1 << 20};
    responses::BackgroundResponses background;
    std::unique_ptr<Openai> openai;
  };

  void SetUp() override {
    log.write(jobs::write_entry({"y/1", "the first", 0, {}}));  // one that is new is waited for: 5 s
    store.share(log, "a");
    if (!store.open().ok() || !store.available().ok()) GTEST_SKIP() << "built without SQLite";
    for (Node** node : {&a, &b}) *node = &nodes.emplace_back(*this, base::ShardId(nodes.size()), options);
    store.start();
    while (!on_journal([](Storage& s) { (void)s.files.append("f", 0, "x"); }).ok()) std::this_thread::yield();
  }
  void TearDown() override {
    for (Node& node : nodes) node.journal->end();
    settle();
    store.stop();
    nodes.clear();
  }
  Opened open(Node& node, std::string method, std::string target, std::string_view body = {}) {
    Opened x = begin(node, std::move(method), std::move(target), body);
    while (!x->ended && node.posted.do_next()) continue;
    return x;
  }
  Opened begin(Node& node, std::string method, std::string target, std::string_view body = {}) {
    Opened x(new support::FakeExchange(std::move(method), std::move(target), body), {&node.router});
    x->time = env.now();
    if (node.router.begin(*x).body == wire::BodyPlan::kWhole) node.router.whole(*x);
    bus.turn();
    return x;
  }
  std::string ask(const Json& metadata = Json::object()) {
    const Json body{{"model", "m"}, {"input", "hi"}, {"metadata", metadata}, {"background", true}};
    const std::string id = json(open(*a, "POST", "/v1/responses", body.dump()))["id"];
    settle();
    (void)on_journal([](Storage&) {});
    return id;
  }
  Opened get(Node& node, const std::string& id) { return open(node, "GET", "/v1/responses/" + id); }
  // Until the node that makes it has learned what the other one has done.
  void make_until_cancelled() {
    const msg::Call& made = *call();
    for (settle(); !made.cancelled.load() && a->posted.do_next();) settle();
    EXPECT_TRUE(made.cancelled.load());
    for (int i = 0; i < 2; ++i) (void)on_journal([](Storage&) {});
  }
  base::Status on_journal(std::function<void(Storage&)> work) {
    std::promise<base::Status> done;
    EXPECT_TRUE(store.post(std::move(work), jobs::Store::Admission::kAsked,
                           [&](const base::Status& status) { done.set_value(status); }));
    return done.get_future().get();
  }
  size_t batches() {
    size_t out = 0;
    (void)on_journal([&](Storage& s) {
      out = s.batches.list("host 127.0.0.1", responses::kPutOffKind, jobs::ListOrder::kNewestFirst, "", 10)
                .value()
                .size();
    });
    return out;
  }
  // Within some seconds of the journal's thread.
  static bool comes(const std::function<bool()>& is_so) {
    for (int i = 0; i < 500 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return is_so();
  }
  // A response in the background at the first node: its id.
  std::string begin_one() {
    return json(open(*a, "POST", "/v1/responses", R"({"model":"m","input":"hi","background":true})"))["id"];
  }
  void settle() {
    turn();
    env.advance(std::chrono::milliseconds(1));
    turn();
  }

  jobs::Folder folder;
  jobs::FakeLog log;  // of the journal's thread
  jobs::Store store{folder.path(), {}, "off"};
  std::list<Node> nodes;
  Node *a = nullptr, *b = nullptr;
};

TEST_F(LiveResponse, IsKnownToOtherNodesWhileItIsMade) {
  const std::string id = ask();
  EXPECT_EQ(json(get(*b, id))["status"], "in_progress");
  EXPECT_EQ(json(get(*b, id))["id"], id);
  scripted().emit("ab");
  scripted().end();
  settle();
  EXPECT_EQ(json(get(*a, id))["status"], "completed");
  EXPECT_EQ(batches(), 0u);
}

TEST_F(LiveResponse, IsTheClientsOnceTheJournalHasIt) {
  auto x = begin(*a, "POST", "/v1/responses", R"({"model":"m","input":"hi","background":true})");
  EXPECT_FALSE(x->ended);
  while (!x->ended && a->posted.do_next()) continue;
  EXPECT_EQ(batches(), 1u);
  EXPECT_EQ(json(x)["status"], "queued");
}

// Where its process died, nobody would know of it.
TEST_F(LiveResponse, IsRefusedWhereTheLogIsAway) {
  for (const char* stream : {"false", "true"}) {
    (void)on_journal([&](Storage&) { log.away = true; });
    const std::string body = R"({"model":"m","input":"hi","background":true,"stream":)" + std::string(stream) + "}";
    Opened x = open(*a, "POST", "/v1/responses", body);
    EXPECT_EQ(x->response.status, 503) << x->sent;
    EXPECT_TRUE(x->response.fields.has("retry-after") || x->extra_fields().has("retry-after"));
    settle();
    settle();
    (void)on_journal([&](Storage&) { log.away = false; });
    EXPECT_EQ(a->stored.size(), 0u);
    EXPECT_EQ(batches(), 0u);
  }
}

TEST_F(LiveResponse, KeepsItsRecordUntilTheJournalHasIt) {
  const std::string id = ask();
  EXPECT_TRUE(a->background.goes_on(id));
  EXPECT_EQ(a->background.run(id)->record, nullptr);
}

// Nobody else could stop it.
TEST_F(LiveResponse, IsStoppedWhereItsClientLeavesBeforeItKnowsTheId) {
  for (const bool away : {true, false}) {
    (void)on_journal([&](Storage&) { log.away = away; });
    auto x = begin(*a, "POST", "/v1/responses", R"({"model":"m","input":"hi","background":true})");
    settle();
    ASSERT_FALSE(x->ended);
    ASSERT_EQ(inbox().held.size(), 1u);
    x.reset();
    make_until_cancelled();
    models.finish_all();
    settle();
    (void)on_journal([&](Storage&) { log.away = false; });
    EXPECT_EQ(a->stored.size(), 0u);
    EXPECT_TRUE(comes([&] { return batches() == 0; })) << away;
    inbox().held.clear();
  }
}

// One word of it may be lost: it is asked for again.
TEST_F(LiveResponse, LeavesNothingWhereNobodyKnewWhetherItWasWritten) {
  for (int lost : {1, 2}) {
    (void)on_journal([&](Storage&) { log.lose_acks = lost; });
    Opened x = open(*a, "POST", "/v1/responses", R"({"model":"m","input":"hi","background":true})");
    EXPECT_EQ(x->response.status, lost == 1 ? 200 : 503) << x->sent;
    settle();
    if (lost == 1) {
      scripted().emit("ab");
      scripted().end();
      settle();
    } else if (!inbox().held.empty()) {
      make_until_cancelled();
    }
    EXPECT_TRUE(comes([&] { return batches() == 0; })) << lost;
    models.finish_all();
    inbox().held.clear();
  }
}

TEST_F(LiveResponse, IsTheClientsWhenTheLogHasBegun) {
  (void)on_journal([&](Storage&) { log.make_anew(); });
  auto x = begin(*a, "POST", "/v1/responses", R"({"model":"m","input":"hi","background":true})");
  while (!x->ended && a->posted.do_next()) continue;
  EXPECT_EQ(json(x)["status"], "queued");
  (void)on_journal([&](Storage&) { EXPECT_FALSE(log.entries.empty()); });
}

TEST_F(LiveResponse, IsFollowedElsewhereByAQuarterOfAllStreamsForEachTenant) {
  const std::string id = ask(), target = "/v1/responses/" + id + "?stream=true";
  std::list<Opened> streams;
  for (size_t i = 0; i < responses::kMostFollowers / 4; ++i) {
    Opened& x = streams.emplace_back(begin(*b, "GET", target));
    while (!x->responding() && b->posted.do_next()) continue;
    ASSERT_EQ(x->response.status, 200);
  }
  EXPECT_EQ(open(*b, "GET", target)->response.status, 503);
  streams.pop_back();
  Opened x = begin(*b, "GET", target);
  while (!x->responding() && b->posted.do_next()) continue;
  EXPECT_EQ(x->response.status, 200);
}

TEST_F(LiveResponse, IsCancelledAtAnotherNode) {
  const std::string id = ask();
  EXPECT_EQ(json(open(*b, "POST", "/v1/responses/" + id + "/cancel"))["status"], "cancelled");
  EXPECT_EQ(json(get(*b, id))["status"], "cancelled");
  make_until_cancelled();
  EXPECT_EQ(json(get(*a, id))["status"], "cancelled");
}

TEST_F(LiveResponse, IsDeletedAtAnotherNode) {
  const std::string id = ask();
  EXPECT_EQ(json(open(*b, "DELETE", "/v1/responses/" + id))["deleted"], true);
  EXPECT_EQ(get(*b, id)->response.status, 404);
  make_until_cancelled();
  EXPECT_EQ(get(*a, id)->response.status, 404);
  EXPECT_EQ(a->stored.size(), 0u);
}

// As another node writes it, from what it has seen of the batch.
std::string deletion_by_another(Storage& s, const std::string& id, uint64_t after) {
  jobs::Batch batch = *s.batches.find("host 127.0.0.1", id).value();
  batch.state = "deleted";
  jobs::EntryContent entry{"z/1", "another's", after, {}};
  for (uint64_t version : {0, 1}) {  // of the two one is void
    jobs::Commands commands;
    commands.change(batch, version);
    commands.remove_jobs(id);
    entry.records.push_back({jobs::Record::As::kNode, commands.bytes()});
  }
  return jobs::write_entry(entry);
}

TEST_F(LiveResponse, IsGoneWhereAnotherNodeDeletesItJustAsItEnds) {
  const std::string id = ask();
  scripted().emit("ab");
  (void)on_journal([&](Storage& s) {
    log.before_append = [this, entry = deletion_by_another(s, id, log.last)] { log.write(entry); };
  });
  scripted().end();
  settle();
  for (int i = 0; i < 2; ++i) (void)on_journal([](Storage&) {});
  EXPECT_EQ(get(*a, id)->response.status, 404);
  EXPECT_EQ(get(*b, id)->response.status, 404);
  EXPECT_EQ(a->stored.size(), 0u);
}

TEST_F(LiveResponse, IsCancelledWhereAnotherNodeWasToldSoJustAsItEnds) {
  const std::string id = ask();
  scripted().emit("ab");
  EXPECT_EQ(json(open(*b, "POST", "/v1/responses/" + id + "/cancel"))["status"], "cancelled");
  scripted().end();
  settle();
  for (int i = 0; i < 2; ++i) (void)on_journal([](Storage&) {});
  EXPECT_EQ(json(get(*a, id))["status"], "cancelled");
  EXPECT_EQ(json(get(*b, id))["status"], "cancelled");
}

TEST_F(LiveResponse, IsOverAlsoWhereTheLogWasAwayThen) {
  const std::string id = ask();
  (void)on_journal([&](Storage&) { log.away = true; });
  scripted().emit("ab");
  scripted().end();
  settle();
  (void)open(*a, "DELETE", "/v1/responses/" + id);  // the log cannot take it: it goes here alone
  (void)on_journal([&](Storage&) { log.away = false; });
  EXPECT_TRUE(comes([&] { return get(*b, id)->response.status == 404; }));
  EXPECT_EQ(get(*a, id)->response.status, 404);
}

TEST_F(LiveResponse, KeepsNoRequestWhereItEndsWhileTheLogIsAway) {
  support::CountedSlabs slabs{1 << 20};
  const std::string id = ask();
  responses::BackgroundResponses::Run run = *a->background.end(id);
  const std::string large = std::string(run.queued.view()) + std::string(100'000, ' ');
  run.queued = *base::adopt(&slabs.memory, base::MemoryKind::kInput, large);
  ASSERT_TRUE(a->background.begin(id, std::move(run)));
  EXPECT_GT(slabs.memory.held(), 0u);
  (void)on_journal([&](Storage&) { log.away = true; });
  scripted().fail(base::Code::kInternal, "gone");
  settle();
  (void)on_journal([](Storage&) {});
  EXPECT_EQ(slabs.memory.held(), 0u);
  (void)on_journal([&](Storage&) { log.away = false; });
}

TEST_F(LiveResponse, IsNotWrittenOnceMoreWhereItEnds) {
  (void)ask({{"a", std::string(500, 'x')}});
  uint64_t begun = 0;
  (void)on_journal([&](Storage&) { begun = log.last; });
  scripted().end();
  settle();
  (void)on_journal([](Storage&) {});
  size_t longest = 0;
  (void)on_journal([&](Storage&) {
    for (auto at = log.entries.upper_bound(begun); at != log.entries.end(); ++at)
      longest = std::max(longest, at->second.size());
  });
  EXPECT_GT(longest, 0u);
  EXPECT_LT(longest, 500u);
}

TEST_F(LiveResponse, IsPutOffWhereItsNodeDrains) {
  const std::string id = ask(), cancelled = ask();
  EXPECT_EQ(json(open(*b, "POST", "/v1/responses/" + cancelled + "/cancel"))["status"], "cancelled");
  a->journal->drain();
  settle();
  (void)on_journal([](Storage&) {});
  EXPECT_EQ(json(get(*b, id))["status"], "queued");
  EXPECT_EQ(json(get(*b, cancelled))["status"], "cancelled");
}

// With a bucket, which answers when told to.
class KeptLiveResponse : public LiveResponse {
 protected:
  KeptLiveResponse() { options.records = &records; }
  FakeRecords records;
};

TEST_F(KeptLiveResponse, IsKnownToOtherNodesUntilTheyFindHowItFailed) {
  const std::string id = ask();
  scripted().fail(base::Code::kInternal, "gone");
  settle();
  EXPECT_EQ(batches(), 1u);
  records.answer();
  EXPECT_EQ(batches(), 0u);
  EXPECT_TRUE(records.kept.contains("host 127.0.0.1 " + id));
}

TEST_F(KeptLiveResponse, IsFoundWhereItEndsWhileItIsLookedFor) {
  const std::string id = "resp_0";
  auto x = begin(*b, "GET", "/v1/responses/" + id);
  ASSERT_EQ(records.waiting.size(), 1u);
  records.answer();  // the bucket has nothing, and the journal no longer has anything
  responses::StoredResponse stored;
  stored.response = base::Bytes::copy_of(std::string_view(R"({"status":"completed"})"));
  records.kept["host 127.0.0.1 " + id] = responses::write_shared(stored);
  while (records.waiting.empty() && b->posted.do_next()) continue;
  records.answer();
  EXPECT_EQ(json(x)["status"], "completed");
}

}  // namespace
}  // namespace weir::openai
