// Lines of a batch, and what becomes of a batch on the store's thread.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "dialects/openai/batches/duty.h"
#include "dialects/openai/batches/line.h"
#include "dialects/openai/batches/output_line.h"
#include "jobs/database.h"
#include "tests/jobs/folder.h"

namespace weir::openai::batches {
namespace {

using nlohmann::json;
using std::chrono::seconds;

const base::WallTime kNow{seconds(1'000'000)};

std::string line(const std::string& id, const std::string& body = R"({"model":"m"})",
                 const std::string& url = "/v1/embeddings") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":")" + url + R"(","body":)" + body + "}";
}
std::string_view code_of(const std::string& text) {
  Line out;
  return read_line(text, "/v1/embeddings", out).code;
}

TEST(BatchLine, IsRead) {
  Line out;
  const std::string text = line("a\\u00e9", R"( {"input":["}",{}],"model":"m","stream":false} )");
  ASSERT_TRUE(read_line(text, "/v1/embeddings", out).ok());
  EXPECT_EQ("a\u00e9", out.custom_id);
  EXPECT_EQ("m", out.model);
  EXPECT_EQ("m", json::parse(out.body)["model"]);
}

TEST(BatchLine, WhatIsWrongIsToldByCode) {
  EXPECT_EQ("", code_of(line("a")));
  for (const char* text : {"", "{", "[]", "null", "x", "{\"custom_id\":1}x", "\"a\""})
    EXPECT_EQ("invalid_json_line", code_of(text)) << text;
  Line list;
  EXPECT_NE(read_line("[]", "/v1/embeddings", list).message.find("expected an object"), std::string::npos);
  EXPECT_EQ("invalid_json_line", code_of(line("a") + line("b")));
  EXPECT_EQ("missing_required_parameter", code_of(line("")));
  EXPECT_EQ("missing_required_parameter", code_of(line("a", "[1]")));
  EXPECT_EQ("missing_required_parameter", code_of(R"({"custom_id":"a","method":"POST","url":"/v1/embeddings"})"));
  EXPECT_EQ("invalid_method", code_of(R"({"custom_id":"a","method":"GET","url":"/v1/embeddings","body":{}})"));
  EXPECT_EQ("mismatched_url", code_of(line("a", "{}", "/v1/models")));
  EXPECT_EQ("invalid_request", code_of(line("a", R"({"stream":true})")));
  EXPECT_EQ("invalid_request", code_of(line(std::string(600, 'x'))));
  EXPECT_EQ("invalid_json_line", code_of(line("a", R"({"a":1)") + "\xff"));
  EXPECT_EQ("invalid_json_line", code_of(std::string(1000, '[')));
}

TEST(BatchOutput, ALineIsJsonWhateverTheAnswerWas) {
  for (const std::string& body :
       {std::string("{\n \"a\": \"b\"\r\n}"), std::string("no json \xff\n"), std::string("1")}) {
    jobs::FinishedJob job{{"batch_x", 3}, "id \"q\"", jobs::Outcome{200, "x-request-id: r\n", body}};
    const std::string text = output_line(job, Missing::kExpired);
    EXPECT_EQ(text.size() - 1, text.find('\n'));
    json got = json::parse(text);
    EXPECT_EQ("id \"q\"", got["custom_id"]);
    EXPECT_EQ("r", got["response"]["request_id"]);
    EXPECT_TRUE(got["error"].is_null());
  }
  json none = json::parse(output_line({{"batch_x", 3}, "a", {}}, Missing::kCancelled));
  EXPECT_TRUE(none["response"].is_null());
  EXPECT_EQ("batch_cancelled", none["error"]["code"]);
}

class Duty : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = jobs::open_database(folder.path(), uint64_t(64) << 20);
    if (!opened && opened.error().code == base::Code::kUnimplemented) GTEST_SKIP() << opened.error().text;
    ASSERT_TRUE(opened);
    database = std::move(*opened);
  }
  jobs::Storage& s() { return database->storage(); }
  // As a new process finds it.
  void restart() {
    database.reset();
    database = *jobs::open_database(folder.path(), uint64_t(64) << 20);
    duty = std::make_unique<BatchDuty>(limits, BatchForm{prefix});
  }
  // In parts of `part` bytes.
  void begin(const std::string& content, size_t part = 1000) {
    for (size_t at = 0, n = 0; at < content.size(); at += part, ++n)
      ASSERT_TRUE(s().files.append("file-in", n, content.substr(at, part)).ok());
    ASSERT_TRUE(s().files.add({"file-in", "o", "in", "batch", content.size(), kNow, kNow + seconds(99999)}).ok());
    BatchDocument document;
    document.endpoint = "/v1/embeddings", document.input_file = "file-in", document.window = "60s";
    jobs::Batch batch{
        "batch_1", std::string(kKind), {"o", "", "h"},          std::string(kValidating), show_document(document),
        kNow,      kNow + seconds(60), jobs::Batch::Jobs::kWait};
    ASSERT_TRUE(s().batches.add(batch).ok());
  }
  void steps(base::WallTime now = kNow) {
    for (int i = 0; i < 1000; ++i) {
      auto more = duty->step(s(), now);
      ASSERT_TRUE(more) << more.error().text;
      if (!*more) return;
    }
    FAIL() << "it never ends";
  }
  jobs::Batch batch() { return *s().batches.find("o", "batch_1").value(); }
  BatchDocument document() { return *read_document(batch().document); }
  std::string content(const std::string& file) {
    std::string out;
    for (uint64_t part = 0;; ++part) {
      std::string more = s().files.read(file, part).value();
      if (more.empty()) return out;
      out += more;
    }
  }
  void answer(size_t most, int status = 200) {
    for (const jobs::Job& job : s().journal.claim(most, kNow).value())
      ASSERT_TRUE(s().journal.finish(job.id, {status, "", R"({"of":")" + job.label + "\"}"}).value());
  }

  jobs::Limits limits;
  const std::string prefix = "/openai";
  jobs::Folder folder;
  std::unique_ptr<jobs::Database> database;
  std::unique_ptr<BatchDuty> duty = std::make_unique<BatchDuty>(limits, BatchForm{prefix});
};

TEST_F(Duty, LinesBecomeJobsWhereverTheFileIsCut) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += line("id " + std::to_string(i)) + (i % 2 ? "\r\n" : "\n") + (i % 5 ? "" : " \n");
  text += line("last");
  begin(text, 7);
  steps();
  EXPECT_EQ(kInProgress, batch().state);
  auto jobs = s().journal.claim(100, kNow).value();
  ASSERT_EQ(51u, jobs.size());
  EXPECT_EQ("id 0", jobs[0].label);
  EXPECT_EQ("/openai/embeddings", jobs[0].target);
  EXPECT_EQ("m", jobs[0].model);
  EXPECT_EQ("last", jobs[50].label);
}

TEST_F(Duty, ResultsBecomeFilesInTheOrderOfTheLines) {
  begin(line("a") + "\n" + line("b") + "\n" + line("c"));
  steps();
  answer(1);
  answer(1, 400);
  answer(1);
  steps();
  EXPECT_EQ(kCompleted, batch().state);
  BatchDocument d = document();
  EXPECT_EQ(2u, d.counts.succeeded);
  EXPECT_EQ(1u, d.counts.failed);
  const std::string out = content(d.output_file);
  EXPECT_EQ(out.size(), s().files.find("o", d.output_file).value()->bytes);
  EXPECT_LT(out.find("\"a\""), out.find("\"c\""));
  EXPECT_EQ("b", json::parse(content(d.error_file))["custom_id"]);
  EXPECT_EQ(0u, s().journal.count("batch_1").value().total);
}

TEST_F(Duty, WrongLinesFailTheBatchWithTheirNumbers) {
  begin(line("a") + "\n{\n\n" + line("a") + "\n" + line("b", "{}", "/v1/x"));
  steps();
  EXPECT_EQ(kFailed, batch().state);
  std::string told;
  for (const auto& error : document().errors) told += std::to_string(error.line) + " " + error.code + "\n";
  EXPECT_EQ("2 invalid_json_line\n4 duplicate_custom_id\n5 mismatched_url\n", told);
  EXPECT_EQ(0u, s().journal.count("batch_1").value().total);
}

TEST_F(Duty, NoLineRunsBeforeAllAreRead) {
  begin(line("a") + "\n" + line("b") + "\n{", 120);
  ASSERT_TRUE(duty->step(s(), kNow).value());
  EXPECT_EQ(kValidating, batch().state);
  EXPECT_EQ(1u, s().journal.count("batch_1").value().waiting);
  EXPECT_TRUE(s().journal.claim(9, kNow + seconds(50)).value().empty());
  steps();
  EXPECT_EQ(kFailed, batch().state);
}

TEST_F(Duty, ErrorsLinesAndTheirLengthAreBounded) {
  limits.max_lines = 3, limits.max_line = 500;
  begin(line("a") + "\n" + line("b") + "\n" + line("c") + "\n" + line("d") + "\n" + line("e"));
  steps();
  ASSERT_EQ(1u, document().errors.size());
  EXPECT_EQ("too_many_requests", document().errors[0].code);
}

TEST_F(Duty, ALineWithoutAnEndIsNotGathered) {
  limits.max_line = 500;
  begin(std::string(100'000, '{'), 1000);
  steps();
  ASSERT_EQ(1u, document().errors.size());
  EXPECT_EQ("line_too_long", document().errors[0].code);
}

TEST_F(Duty, AHundredErrorsAreEnough) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "x\n";
  begin(text);
  steps();
  EXPECT_EQ(kMostErrors, document().errors.size());
}

TEST_F(Duty, AProcessThatDiesBetweenAnyTwoSlicesIsNoSpecialCase) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += line("id " + std::to_string(i)) + "\n";
  begin(text, 500);
  for (int i = 0; i < 5; ++i) {
    for (int step = 0; step < i; ++step) (void)duty->step(s(), kNow);
    restart();
  }
  steps();
  EXPECT_EQ(40u, s().journal.count("batch_1").value().total);
  answer(20);
  (void)s().journal.claim(5, kNow);  // these are lost
  restart();
  answer(100);
  (void)duty->step(s(), kNow);
  restart();  // its files are half written
  steps();
  EXPECT_EQ(kCompleted, batch().state);
  const std::string out = content(document().output_file);
  EXPECT_EQ(40, std::count(out.begin(), out.end(), '\n'));
}

TEST_F(Duty, AnExpiredBatchKeepsWhatItHas) {
  begin(line("a") + "\n" + line("b"));
  steps();
  answer(1);
  steps(kNow + seconds(61));
  EXPECT_EQ(kExpired, batch().state);
  EXPECT_EQ("a", json::parse(content(document().output_file))["custom_id"]);
  EXPECT_EQ("batch_expired", json::parse(content(document().error_file))["error"]["code"]);
}

TEST_F(Duty, ACancelledBatchEndsWhenItsLastJobDoes) {
  begin(line("a") + "\n" + line("b"));
  steps();
  auto running = s().journal.claim(1, kNow).value();
  jobs::Batch cancelled = batch();
  cancelled.state = kCancelling;
  ASSERT_TRUE(s().batches.change(cancelled).value());
  steps();
  EXPECT_EQ(kCancelling, batch().state);
  (void)s().journal.finish(running[0].id, {});
  steps();
  EXPECT_EQ(kCancelled, batch().state);
}

TEST_F(Duty, AnInputFileThatIsDeletedMeanwhileFailsTheBatch) {
  begin(line("a") + "\n");
  ASSERT_TRUE(s().files.remove("file-in").ok());
  steps();
  EXPECT_EQ(kFailed, batch().state);
  EXPECT_EQ("invalid_input_file", document().errors[0].code);
}

TEST_F(Duty, AFullDiskFailsTheBatch) {
  database.reset();
  database = *jobs::open_database(folder.path(), 1 << 20);
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += line("id " + std::to_string(i), R"({"input":")" + std::string(15'000, 'x') + "\"}") + "\n";
  begin(text, 100'000);
  steps();
  EXPECT_EQ(kFailed, batch().state);
  EXPECT_EQ("insufficient_storage", document().errors[0].code);
}

// Another tenant has filled it meanwhile.
TEST_F(Duty, ResultsWaitForRoomOnTheDisk) {
  database.reset();
  database = *jobs::open_database(folder.path(), 1 << 20);
  begin(line("a"));
  steps();
  const auto jobs = s().journal.claim(1, kNow).value();
  ASSERT_TRUE(s().journal.finish(jobs.at(0).id, {200, "", '"' + std::string(300'000, 'x') + '"'}).value());
  base::Status full;
  for (uint64_t part = 0; full.ok() && part < 1000; ++part)
    full = s().files.append("other", part, std::string(4'000, 'x'), "p");
  EXPECT_EQ(base::Code::kResourceExhausted, full.code);
  base::Result<bool> step = true;
  for (int i = 0; i < 20 && step && *step; ++i) step = duty->step(s(), kNow);
  ASSERT_FALSE(step);
  EXPECT_EQ(kFinalizing, batch().state);
  EXPECT_FALSE(duty->step(s(), kNow).value()) << "nothing is tried at once";
  ASSERT_TRUE(s().files.remove("other").ok());
  steps(kNow + seconds(2));
  EXPECT_EQ(kCompleted, batch().state);
  const std::string out = content(document().output_file);
  EXPECT_EQ(out.size(), s().files.find("o", document().output_file).value()->bytes);
  EXPECT_GT(out.size(), 300'000u);
}

TEST_F(Duty, BatchesOfOneFileDoNotPassTheTenantsQuota) {
  const std::string text = line("a", R"({"input":")" + std::string(5'000, 'x') + "\"}");
  begin(text, 10'000);
  limits.tenant_disk = text.size() + 3'000;
  steps();
  EXPECT_EQ(kFailed, batch().state);
  EXPECT_NE(std::string::npos, document().errors.at(0).message.find("jobs.tenant_disk"));
}

TEST_F(Duty, ResultsGoWhenTheirBatchSaysSo) {
  begin(line("a") + "\n" + line("b"));
  steps();
  jobs::Batch wanted = batch();
  BatchDocument d = document();
  d.output_ttl = 3600;
  wanted.document = show_document(d);
  ASSERT_TRUE(s().batches.change(wanted).value());
  answer(1);
  answer(1, 400);
  steps();
  d = document();
  for (const std::string& file : {d.output_file, d.error_file})
    EXPECT_EQ(s().files.find("o", file).value()->expires, kNow + seconds(3600)) << file;
  for (int i = 0; i < 2; ++i) steps(kNow + seconds(3599));
  EXPECT_TRUE(s().files.find("o", d.output_file).value());
  for (int i = 0; i < 2; ++i) steps(kNow + seconds(3600));
  EXPECT_FALSE(s().files.find("o", d.output_file).value());
  EXPECT_FALSE(s().files.find("o", d.error_file).value());
  EXPECT_EQ(kCompleted, batch().state) << "the batch stays";
}

TEST(BatchDocuments, OneOfAnOlderVersionIsRead) {
  json older = json::parse(show_document({}));
  older.erase("output_ttl");
  EXPECT_EQ(read_document(older.dump()).value().output_ttl, 0u);
}

TEST_F(Duty, WhatIsOldGoes) {
  begin(line("a"));
  steps();
  answer(1);
  steps();
  steps(kNow + limits.file_ttl + seconds(1));
  steps(kNow + limits.file_ttl + seconds(1));
  steps(kNow + limits.file_ttl + seconds(1));
  EXPECT_FALSE(s().batches.find("o", "batch_1").value());
  EXPECT_EQ(0u, s().files.use("o").value().files);
}

}  // namespace
}  // namespace weir::openai::batches
