// Anthropic's Message Batches over a journal.
#include "dialects/openai/anthropic/message_batches.h"

#include <algorithm>
#include <sstream>

#include "batch_bench.h"
#include "support/fake_offload.h"

namespace weir::openai {
namespace {

using batches::BatchDuty;
using jobs::Storage;

constexpr const char* kPath = "/v1/messages/batches";

class MessageBatches : public BatchBench {
 protected:
  static Json requests(const std::vector<std::string>& ids) {
    Json list = Json::array();
    for (const std::string& id : ids)
      list.push_back({{"custom_id", id}, {"params", {{"model", "m"}, {"max_tokens", 5}, {"messages", Json::array()}}}});
    return {{"requests", list}};
  }
  Opened create(const Json& body, size_t piece = 64 << 10) {
    return streamed(kPath, "application/json", body.dump(), piece);
  }
  std::string created(const std::vector<std::string>& ids) { return json(create(requests(ids)))["id"]; }
  Json shown(const std::string& id) { return json(asked("GET", std::string(kPath) + '/' + id)); }
  Json shown_counts(const std::string& id) { return shown(id)["request_counts"]; }
  Opened on(const std::string& id, const std::string& what) { return asked("POST", kPath + ('/' + id + '/' + what)); }
  void steps(base::Duration later = {}) { look_after(duty, env.wall() + later); }
  void answer(size_t most, int status, const std::string& body) {
    (void)on_journal([&](Storage& s) {
      for (const jobs::Job& job : s.journal.claim(most, env.wall()).value()) {
        target = job.target, asked_body = job.body;
        EXPECT_TRUE(s.journal.finish(job.id, {status, "", body}).value());
      }
    });
  }
  std::vector<Json> results(const std::string& id) {
    Opened x = asked("GET", std::string(kPath) + '/' + id + "/results");
    EXPECT_EQ(x->response.status, 200) << x->sent;
    EXPECT_EQ(x->response.fields.find("content-type"), "application/x-jsonl");
    std::vector<Json> out;
    std::istringstream lines(x->sent);
    for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line));
    return out;
  }
  static std::string refused(const Opened& x) {
    const Json body = json(x);
    return std::to_string(x->response.status) + ' ' + body["error"]["type"].get<std::string>();
  }

  jobs::Limits limits;
  BatchDuty duty{limits, anthropic::message_batch_form()};
  std::string target, asked_body;  // of the job that was answered last
};

TEST_F(MessageBatches, ALongRequestIsReadByAWorker) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  support::FakeOffload workers;
  options.offload = &workers;
  Json body = requests({"short", "long", "last"});
  body["requests"][1]["params"]["system"] = std::string(1 << 20, 's');
  begun(kPath, "application/json", body.dump()).reset();
  EXPECT_EQ(workers.cancelled, 1u) << "its client has left";
  Opened x = begun(kPath, "application/json", body.dump());
  EXPECT_EQ(workers.waiting(), 1u) << "one piece at a time";
  x->listener()->on_end(*x);
  EXPECT_FALSE(x->ended);
  workers.work();
  x = answered(std::move(x));
  ASSERT_EQ(x->response.status, 200) << x->sent;
  EXPECT_EQ(json(x)["request_counts"]["processing"], 3);
  body["requests"][2].erase("custom_id");
  x = begun(kPath, "application/json", body.dump());
  workers.work();
  EXPECT_EQ(refused(x), "400 invalid_request_error");
  EXPECT_NE(message(x).find("requests.2.custom_id"), std::string::npos) << message(x);
}

TEST_F(MessageBatches, EachRequestHasAResult) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  auto made = create(requests({"a", "b", "c"}), 5);
  ASSERT_EQ(made->response.status, 200) << made->sent;
  const Json batch = json(made);
  const std::string id = batch["id"];
  EXPECT_TRUE(id.starts_with("msgbatch_"));
  EXPECT_EQ(batch["type"], "message_batch");
  EXPECT_EQ(batch["processing_status"], "in_progress");
  EXPECT_EQ(batch["request_counts"]["processing"], 3);
  for (const char* name : {"ended_at", "cancel_initiated_at", "archived_at", "results_url"})
    EXPECT_EQ(batch[name], nullptr) << name;
  EXPECT_EQ(shown(id), batch);
  EXPECT_EQ(refused(asked("GET", std::string(kPath) + '/' + id + "/results")), "404 not_found_error");
  steps();
  answer(1, 200, R"({"type":"message","content":[]})");
  EXPECT_EQ(target, "/v1/messages");
  EXPECT_EQ(Json::parse(asked_body)["max_tokens"], 5);
  answer(1, 400, R"({"type":"error","error":{"type":"invalid_request_error","message":"no"},"request_id":"r"})");
  EXPECT_EQ(shown_counts(id)["processing"], 3) << "counts are told once all are over";
  answer(1, 500, R"({"error":"five processes"})");
  steps();
  const Json over = shown(id);
  EXPECT_EQ(over["processing_status"], "ended");
  EXPECT_EQ(over["request_counts"],
            Json({{"processing", 0}, {"succeeded", 1}, {"errored", 2}, {"canceled", 0}, {"expired", 0}}));
  EXPECT_EQ(over["results_url"], std::string(kPath) + '/' + id + "/results");
  EXPECT_TRUE(over["ended_at"].is_string());
  const auto lines = results(id);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["custom_id"], "a");
  EXPECT_EQ(lines[0]["result"]["message"]["type"], "message");
  EXPECT_EQ(lines[1]["result"]["error"]["error"]["message"], "no");
  EXPECT_EQ(lines[2]["result"]["error"]["error"]["type"], "api_error");
}

TEST_F(MessageBatches, TheirFilesAreInNoListAndGoWithThem) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created({"a"});
  EXPECT_EQ(used().files, 1u);
  EXPECT_TRUE(json(asked("GET", "/v1/files"))["data"].empty());
  EXPECT_EQ(refused(asked("DELETE", std::string(kPath) + '/' + id)), "400 invalid_request_error");
  steps();
  EXPECT_EQ(used().files, 0u) << "the requests are jobs now";
  answer(1, 200, "{}");
  steps();
  EXPECT_EQ(used().files, 1u);
  EXPECT_TRUE(json(asked("GET", "/v1/files"))["data"].empty());
  EXPECT_TRUE(json(asked("GET", "/v1/batches"))["data"].empty()) << "OpenAI's are others";
  EXPECT_EQ(asked("GET", "/v1/batches/" + id)->response.status, 404);
  const Json gone = json(asked("DELETE", std::string(kPath) + '/' + id));
  EXPECT_EQ(gone, Json({{"id", id}, {"type", "message_batch_deleted"}}));
  EXPECT_EQ(used().bytes, 0u);
  EXPECT_EQ(refused(asked("GET", std::string(kPath) + '/' + id)), "404 not_found_error");
}

TEST_F(MessageBatches, RequestsAndResultsCountOnce) {
  limits.tenant_disk = 100'000;
  if (!keep(Whose::kAlone, limits)) GTEST_SKIP() << "built without SQLite";
  Json body = requests({"a", "b"});
  for (Json& request : body["requests"]) request["params"]["system"] = std::string(30'000, 's');
  auto made = create(body);
  ASSERT_EQ(made->response.status, 200) << "more than half of the tenant's disk: " << made->sent;
  const std::string id = json(made)["id"];
  const auto counts_once = [&](const char* when) {
    EXPECT_GT(used().bytes, 60'000u) << when;
    EXPECT_LT(used().bytes, 65'000u) << when;
  };
  counts_once("as a file");
  EXPECT_EQ(refused(create(body)), "429 rate_limit_error") << "another finds no room beside it";
  steps();
  counts_once("as jobs");
  answer(2, 200, R"({"type":"message","content":")" + std::string(30'000, 'r') + R"("})");
  counts_once("as answers");
  steps();
  EXPECT_EQ(shown_counts(id)["succeeded"], 2);
  counts_once("as results");
  EXPECT_EQ(results(id).size(), 2u);
}

TEST_F(MessageBatches, WhatIsCanceledWhileItIsReadHasResultsAllTheSame) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created({"a", "b"});
  EXPECT_EQ(json(on(id, "cancel"))["processing_status"], "canceling");
  EXPECT_TRUE(json(on(id, "cancel"))["cancel_initiated_at"].is_string());
  steps();
  EXPECT_EQ(shown(id)["processing_status"], "ended");
  EXPECT_EQ(shown_counts(id)["canceled"], 2);
  const auto lines = results(id);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], Json({{"custom_id", "b"}, {"result", {{"type", "canceled"}}}}));
  EXPECT_EQ(refused(on(id, "cancel")), "400 invalid_request_error");
}

TEST_F(MessageBatches, ACancelEndsWhatRuns) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created({"a", "b"});
  steps();
  answer(1, 200, "{}");
  EXPECT_EQ(json(on(id, "cancel"))["processing_status"], "canceling");
  std::string now;
  (void)on_journal([&](Storage&) { now = ended; });
  EXPECT_EQ(now, id);
  steps();
  EXPECT_EQ(shown_counts(id),
            Json({{"processing", 0}, {"succeeded", 1}, {"errored", 0}, {"canceled", 1}, {"expired", 0}}));
}

TEST_F(MessageBatches, WhatIsEndedWhileItRunsIsCanceled) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created({"a", "b"});
  steps();
  (void)on_journal([&](Storage& s) { EXPECT_EQ(s.journal.claim(1, env.wall()).value().size(), 1u); });
  (void)on(id, "cancel");
  (void)on_journal([&](Storage& s) { EXPECT_TRUE(s.journal.finish({id, 0}, {0, "", ""}).value()); });
  steps();
  EXPECT_EQ(shown_counts(id)["canceled"], 2);
  EXPECT_EQ(results(id)[0]["result"], Json({{"type", "canceled"}}));
}

TEST_F(MessageBatches, ADayLaterTheRestHasExpired) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created({"a", "b"});
  steps();
  answer(1, 200, "{}");
  steps(std::chrono::hours(24));
  EXPECT_EQ(shown_counts(id)["expired"], 1);
  EXPECT_EQ(results(id)[1]["result"], Json({{"type", "expired"}}));
}

TEST_F(MessageBatches, PagesGoBothWays) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(created({"a"}));
  const auto page = [&](const std::string& query) {
    const Json list = json(asked("GET", kPath + query));
    std::string out;
    for (const Json& batch : list["data"])
      out += char('0' + (std::find(ids.begin(), ids.end(), batch["id"].get<std::string>()) - ids.begin()));
    if (!out.empty()) {
      EXPECT_EQ(list["first_id"], list["data"].front()["id"]);
      EXPECT_EQ(list["last_id"], list["data"].back()["id"]);
    }
    return out + (list["has_more"] == true ? "+" : "");
  };
  EXPECT_EQ(page(""), "3210");
  EXPECT_EQ(page("?limit=3"), "321+");
  EXPECT_EQ(page("?limit=3&after_id=" + ids[1]), "0");
  EXPECT_EQ(page("?limit=2&before_id=" + ids[0]), "21+");
  EXPECT_EQ(page("?before_id=" + ids[2]), "3");
  EXPECT_EQ(page("?before_id=" + ids[3]), "");
  EXPECT_EQ(page("?after_id=none"), "");
  EXPECT_EQ(refused(asked("GET", std::string(kPath) + "?limit=0")), "400 invalid_request_error");
}

TEST_F(MessageBatches, WhatIsWrongIsRefusedAndLeavesNothing) {
  jobs::Limits few;
  few.max_file = 100'000, few.max_batches = 1;
  if (!keep(Whose::kAlone, few)) GTEST_SKIP() << "built without SQLite";
  EXPECT_EQ(refused(create(Json::object())), "400 invalid_request_error");
  EXPECT_EQ(refused(create(requests({"a", "a"}))), "400 invalid_request_error");
  Json large = requests({"a", "b"});
  large["requests"][0]["params"]["x"] = std::string(90'000, 'x');
  large["requests"][1]["params"]["x"] = std::string(90'000, 'x');
  EXPECT_EQ(refused(create(large)), "413 request_too_large");
  EXPECT_EQ(used().bytes, 0u);
  EXPECT_EQ(create(requests({"a"}))->response.status, 200);
  const uint64_t before = used().bytes;
  EXPECT_EQ(refused(create(requests({"a"}))), "429 rate_limit_error");
  EXPECT_EQ(used().bytes, before);
}

TEST_F(MessageBatches, AnotherOnesIsNotThere) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  batches::BatchDocument document;
  (void)on_journal([&](Storage& s) {
    EXPECT_TRUE(s.batches
                    .add({"msgbatch_1",
                          std::string(anthropic::kMessagesKind),
                          {"other", "", ""},
                          std::string(batches::kCompleted),
                          show_document(document),
                          env.wall(),
                          env.wall()})
                    .ok());
  });
  const std::string path = std::string(kPath) + "/msgbatch_1";
  EXPECT_EQ(refused(asked("GET", path)), "404 not_found_error");
  EXPECT_EQ(refused(asked("GET", path + "/results")), "404 not_found_error");
  EXPECT_EQ(refused(asked("DELETE", path)), "404 not_found_error");
  EXPECT_EQ(refused(asked("POST", path + "/cancel")), "404 not_found_error");
}

TEST_F(MessageBatches, WithoutAJournalTheyAreNotOffered) {
  for (const char* method : {"GET", "POST"}) {
    auto x = open(method, kPath);
    EXPECT_EQ(x->response.status, 501) << method;
    EXPECT_EQ(json(x)["error"]["type"], "api_error");
  }
}

TEST_F(MessageBatches, InAClusterTheyAreTheSame) {
  if (!keep(Whose::kCluster)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created({"a"});
  EXPECT_EQ(shown(id)["processing_status"], "in_progress");
  (void)on_journal([&](Storage&) { log.away = true; });
  EXPECT_EQ(refused(create(requests({"a"}))), "503 overloaded_error");
}

}  // namespace
}  // namespace weir::openai
