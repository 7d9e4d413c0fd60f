// The routes of files and batches over a journal: of one node, or of a cluster.
#include "batch_bench.h"
#include "dialects/openai/batches/document.h"

namespace weir::openai {
namespace {

using jobs::Storage;

class BatchRoutes : public BatchBench {
 protected:
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
