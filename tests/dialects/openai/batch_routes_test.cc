// The routes of files and batches over a journal: of one node, or of a cluster.
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "bench.h"
#include "dialects/openai/batches/document.h"
#include "jobs/shard_jobs.h"
#include "support/posted_work.h"
#include "tests/jobs/fake_log.h"
#include "tests/jobs/folder.h"

namespace weir::openai {
namespace {

using jobs::Storage;

// The test's thread is the shard's.
class BatchRoutes : public OpenaiBench {
 protected:
  ~BatchRoutes() override {
    if (store) store->stop();
    openai.reset();
  }
  enum class Whose : uint8_t { kAlone, kCluster };
  // False: built without SQLite.
  bool keep(Whose whose, jobs::Limits limits = {}) {
    limits.concurrency = 0;
    store.emplace(folder.path(), limits, "off");
    if (whose == Whose::kCluster) store->share(log, "a");
    if (!store->open().ok() || !store->available().ok()) return false;
    auto post = [this](std::function<void()> work) { posted.post(std::move(work)); };
    jobs::ShardJobs::Surroundings around{env, base::ShardId(0), 1, router, nullptr, nullptr, post};
    around.hosts = jobs::ShardJobs::Surroundings::Hosts::kTogether;
    journal.emplace(*store, around);
    store->attach(base::ShardId(1), {[](jobs::Job) {}, [this](const std::string& batch) { ended += batch; }});
    options.jobs = &*journal;
    store->start();
    return true;
  }
  // On the journal's thread, and what was written is there for good, or not.
  base::Status on_journal(std::function<void(Storage&)> work) {
    std::promise<base::Status> done;
    EXPECT_TRUE(store->post(std::move(work), jobs::Store::Admission::kAsked,
                            [&](const base::Status& status) { done.set_value(status); }));
    return done.get_future().get();
  }
  // Does the next piece of work that is posted to the shard. False: none comes.
  bool shard_turn() { return posted.do_next(); }
  Opened answered(Opened x) {
    while (!x->ended && shard_turn()) continue;
    return x;
  }
  jobs::Batch batch(std::string_view state) {
    batches::BatchDocument document;
    document.endpoint = "/v1/embeddings", document.input_file = "file-in", document.window = "60s";
    return {"batch_1",
            std::string(batches::kKind),
            {"anybody", "", "h"},
            std::string(state),
            batches::show_document(document),
            env.wall(),
            env.wall() + std::chrono::seconds(60)};
  }

  support::PostedWork posted;
  jobs::Folder folder;
  jobs::FakeLog log;  // of the journal's thread
  std::string ended;  // batches whose jobs were ended; of the journal's thread
  std::optional<jobs::Store> store;
  std::optional<jobs::ShardJobs> journal;
};

TEST_F(BatchRoutes, ACancelThatIsNotKeptEndsNoJob) {
  if (!keep(Whose::kCluster)) GTEST_SKIP() << "built without SQLite";
  ASSERT_TRUE(on_journal([&](Storage& s) { (void)s.batches.add(batch(batches::kInProgress)); }).ok());
  (void)on_journal([&](Storage&) { log.away = true; });
  EXPECT_EQ(503, answered(open("POST", "/v1/batches/batch_1/cancel"))->response.status);
  (void)on_journal([&](Storage&) { log.away = false; });
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(on_journal([](Storage& s) { (void)s.files.append("f", 0, "x"); }).ok());
  std::string now;
  (void)on_journal([&](Storage&) { now = ended; });
  EXPECT_EQ("", now);
  EXPECT_EQ(200, answered(open("POST", "/v1/batches/batch_1/cancel"))->response.status);
  (void)on_journal([](Storage&) {});
  (void)on_journal([&](Storage&) { now = ended; });
  EXPECT_EQ("batch_1", now);
}

TEST_F(BatchRoutes, FilesAreListedInEitherOrder) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  (void)on_journal([&](Storage& s) {
    for (const char* id : {"file-a", "file-b", "file-c"})
      (void)s.files.add({id, "anybody", "in", "batch", 1, env.wall(), env.wall() + std::chrono::hours(1)});
  });
  const auto listed = [&](const std::string& query) {
    std::string out;
    const Json list = json(answered(open("GET", "/v1/files" + query)));
    for (const Json& file : list["data"]) out += file["id"].get<std::string>().back();
    return out + (list["has_more"] == true ? "+" : "");
  };
  EXPECT_EQ(listed(""), "cba");
  EXPECT_EQ(listed("?order=desc&limit=2"), "cb+");
  EXPECT_EQ(listed("?order=asc"), "abc");
  EXPECT_EQ(listed("?order=asc&after=file-a&limit=1&purpose=batch"), "b+");
  EXPECT_EQ(listed("?order=asc&purpose=vision"), "");
  EXPECT_EQ(error(answered(open("GET", "/v1/files?order=up"))), "400 invalid_request_error - order");
}

TEST_F(BatchRoutes, ABatchSaysHowLongItsResultsAreKept) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  (void)on_journal([&](Storage& s) {
    (void)s.files.append("file-in", 0, "x");
    (void)s.files.add({"file-in", "anybody", "in", "batch", 1, env.wall(), env.wall() + std::chrono::hours(1)});
  });
  const auto create = [&](const Json& after) {
    const Json body = {{"input_file_id", "file-in"},
                       {"endpoint", "/v1/embeddings"},
                       {"completion_window", "24h"},
                       {"output_expires_after", after}};
    return answered(open("POST", "/v1/batches", body.dump()));
  };
  const auto made = create({{"anchor", "created_at"}, {"seconds", 3600}});
  ASSERT_EQ(made->response.status, 200) << made->sent;
  uint64_t kept = 0;
  (void)on_journal([&, id = json(made)["id"].get<std::string>()](Storage& s) {
    if (auto found = s.batches.find("anybody", id).value()) kept = batches::read_document(found->document)->output_ttl;
  });
  EXPECT_EQ(kept, 3600u);
  EXPECT_EQ(create(nullptr)->response.status, 200);
  for (const Json& wrong :
       {Json{{"anchor", "created_at"}, {"seconds", 3599}}, Json{{"anchor", "created_at"}, {"seconds", 2592001}},
        Json{{"anchor", "now"}, {"seconds", 3600}}, Json{{"seconds", 3600}}, Json{{"anchor", "created_at"}},
        Json(3600)})
    EXPECT_EQ(create(wrong)->response.status, 400) << wrong;
}

}  // namespace
}  // namespace weir::openai
