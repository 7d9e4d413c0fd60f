// Uploads: files that come in parts.
#include "batch_bench.h"
#include "dialects/openai/batches/upload_record.h"

namespace weir::openai {
namespace {

using batches::UploadDuty;
using std::chrono::hours;

class Uploads : public BatchBench {
 protected:
  Opened create(uint64_t bytes, Json more = Json::object()) {
    Json body = {{"bytes", bytes}, {"filename", "in.jsonl"}, {"mime_type", "text/jsonl"}, {"purpose", "batch"}};
    body.update(more);
    return asked("POST", "/v1/uploads", body.dump());
  }
  std::string created(uint64_t bytes) { return json(create(bytes))["id"]; }
  static std::string form(std::string_view content) {
    return "--a\r\nContent-Disposition: form-data; name=\"data\"; filename=\"blob\"\r\n\r\n" + std::string(content) +
           "\r\n--a--\r\n";
  }
  Opened put(const std::string& upload, std::string_view content) {
    return streamed("/v1/uploads/" + upload + "/parts", "multipart/form-data; boundary=a", form(content));
  }
  std::string part(const std::string& upload, std::string_view content) { return json(put(upload, content))["id"]; }
  Opened completing(const std::string& upload, const std::vector<std::string>& parts, const std::string& md5 = {}) {
    Json body = {{"part_ids", parts}};
    if (!md5.empty()) body["md5"] = md5;
    return open("POST", "/v1/uploads/" + upload + "/complete", body.dump());
  }
  Opened complete(const std::string& upload, const std::vector<std::string>& parts, const std::string& md5 = {}) {
    return answered(completing(upload, parts, md5));
  }
  // One that has copied a slice of the parts, and is not answered yet.
  Opened begun_to_complete(const std::string& upload, const std::vector<std::string>& parts) {
    const uint64_t before = used().bytes;
    Opened x = completing(upload, parts);
    while (used().bytes < before + (1 << 20) && shard_turn()) continue;
    EXPECT_FALSE(x->ended) << x->sent;
    return x;
  }
  std::string content(const std::string& file) {
    Opened x = open("GET", "/v1/files/" + file + "/content");
    while (!x->ended && shard_turn()) continue;
    return x->sent;
  }
  UploadDuty duty;
};

TEST_F(Uploads, PartsBecomeAFileInTheOrderThatIsAskedFor) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const Json upload = json(create(6));
  EXPECT_EQ(upload["object"], "upload");
  EXPECT_EQ(upload["status"], "pending");
  EXPECT_EQ(upload["expires_at"].get<int64_t>() - upload["created_at"].get<int64_t>(), 3600);
  EXPECT_EQ(upload["file"], nullptr);
  const std::string id = upload["id"];
  const Json first = json(put(id, "abc"));
  EXPECT_EQ(first["object"], "upload.part");
  EXPECT_EQ(first["upload_id"], id);
  const std::string one = first["id"], two = part(id, "def"), unused = part(id, "x");
  auto done = complete(id, {two, one}, "3BBF1BC86187A1F6A1E7E3D4D2D6B2F5");
  EXPECT_EQ(error(done), "400 invalid_request_error - -") << "the md5 is another one";
  done = complete(id, {two, one});
  ASSERT_EQ(done->response.status, 200) << done->sent;
  EXPECT_EQ(json(done)["status"], "completed");
  const Json file = json(done)["file"];
  EXPECT_EQ(file["filename"], "in.jsonl");
  EXPECT_EQ(file["bytes"], 6);
  EXPECT_EQ(content(file["id"]), "defabc");
  EXPECT_EQ(json(complete(id, {}))["file"]["id"], file["id"]) << "an answer that got lost is told again";
  EXPECT_EQ(error(put(id, "y")), "400 invalid_request_error - -");
}

TEST_F(Uploads, Md5IsThatOfTheWholeFile) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(3);
  const std::vector<std::string> parts{part(id, "a"), part(id, "bc")};
  EXPECT_EQ(error(complete(id, parts, "900150983cd24fb0d6963f7d28e17f7")), "400 invalid_request_error - md5");
  EXPECT_EQ(complete(id, parts, "900150983CD24FB0D6963F7D28E17F72")->response.status, 200);
}

TEST_F(Uploads, AWrongMd5IsSaidBeforeAnythingIsWritten) {
  jobs::Limits limits;
  limits.tenant_disk = 3000;
  if (!keep(Whose::kAlone, limits)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(1500), one = part(id, std::string(1500, 'x'));
  (void)on_journal([](jobs::Storage& s) {
    for (uint64_t i = 0; i < 2; ++i) EXPECT_TRUE(s.files.append("rest", i, std::string(1500, 'x'), "anybody").ok());
  });
  EXPECT_EQ(complete(id, {one}, std::string(32, '0'))->response.status, 400) << "a copy would find no room";
  EXPECT_EQ(complete(id, {one})->response.status, 429);
}

TEST_F(Uploads, LongPartsAreJoinedToo) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  std::string one(700'000, 'a'), two(1'300'001, 'b');
  const std::string id = created(one.size() + two.size());
  auto done = complete(id, {part(id, one), part(id, two)});
  ASSERT_EQ(done->response.status, 200) << done->sent;
  EXPECT_TRUE(content(json(done)["file"]["id"]) == one + two);
}

class LargeUploads : public Uploads {
 protected:
  // Three slices are copied of these.
  void put_parts() {
    id = created(one.size() + two.size());
    parts = {part(id, one), part(id, two)};
  }
  void lose_a_copy() {
    put_parts();
    Opened x = begun_to_complete(id, parts);
    (void)on_journal([&](jobs::Storage& s) {
      const auto copy = batches::find_upload(s, "anybody", id).value().copy;
      EXPECT_GT(s.files.appended(copy->file).value(), 1u << 20);
      EXPECT_TRUE(s.files.remove(copy->file).ok());
      EXPECT_EQ(s.files.appended(copy->file).value(), 0u);
    });
    x = answered(std::move(x));
    ASSERT_EQ(x->response.status, 200) << x->sent;
    EXPECT_TRUE(content(json(x)["file"]["id"]) == one + two);
  }
  const std::string one = std::string(1'300'000, 'a'), two = std::string(1'300'001, 'b');
  std::string id;
  std::vector<std::string> parts;
};

TEST_F(LargeUploads, WhatIsCopiedWhenAClientHangsUpIsGoneOnWith) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  put_parts();
  const uint64_t before = used().bytes;
  for (int i = 0; i < 2; ++i) begun_to_complete(id, parts).reset();
  EXPECT_LT(used().bytes, before + one.size() + two.size() + 1000) << "one copy, of however many requests";
  auto done = complete(id, parts);
  ASSERT_EQ(done->response.status, 200) << done->sent;
  EXPECT_TRUE(content(json(done)["file"]["id"]) == one + two);
  look_after(duty, env.wall());
  EXPECT_EQ(used().files, 1u);
  EXPECT_LT(used().bytes, one.size() + two.size() + 2000);
}

TEST_F(LargeUploads, TwoThatCompleteOneAtOnceGetTheSameAnswer) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  put_parts();
  const uint64_t before = used().bytes;
  Opened first = begun_to_complete(id, parts), second = completing(id, parts);
  Opened third = completing(id, parts, "d7c922b85c94c92e1d3de4f69ffd7a20");
  for (Opened* x : {&first, &second, &third}) *x = answered(std::move(*x));
  ASSERT_EQ(first->response.status, 200) << first->sent;
  EXPECT_EQ(second->sent, first->sent);
  EXPECT_EQ(third->sent, first->sent);
  EXPECT_LT(used().bytes, before + one.size() + two.size() + 1000) << "they have made one copy";
  look_after(duty, env.wall());
  EXPECT_EQ(used().files, 1u);
}

TEST_F(LargeUploads, AnotherOrderTakesThePlaceOfTheOneBefore) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  put_parts();
  Opened first = begun_to_complete(id, parts), second = answered(completing(id, {parts[1], parts[0]}));
  ASSERT_EQ(second->response.status, 200) << second->sent;
  EXPECT_TRUE(content(json(second)["file"]["id"]) == two + one);
  first = answered(std::move(first));
  EXPECT_EQ(first->response.status, 409) << first->sent;
  look_after(duty, env.wall());
  EXPECT_EQ(used().files, 1u);
  EXPECT_LT(used().bytes, one.size() + two.size() + 2000) << "of the copy before nothing is left";
}

TEST_F(LargeUploads, ACopyThatIsLeftGoesWithItsUpload) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  put_parts();
  begun_to_complete(id, parts).reset();
  EXPECT_EQ(asked("POST", "/v1/uploads/" + id + "/cancel")->response.status, 200);
  look_after(duty, env.wall());
  EXPECT_LT(used().bytes, 2000u);
  put_parts();
  begun_to_complete(id, parts).reset();
  look_after(duty, env.wall() + hours(1));
  EXPECT_EQ(used().bytes, 0u) << "nobody has completed it";
}

TEST_F(LargeUploads, ACopyThatHasDiedWithItsProcessIsBegunAnew) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  lose_a_copy();
}

TEST_F(LargeUploads, ACopyThatHasDiedWithItsNodeIsBegunAnew) {
  if (!keep(Whose::kCluster)) GTEST_SKIP() << "built without SQLite";
  lose_a_copy();
}

TEST_F(LargeUploads, ACopyThatFindsNoMoreRoomLeavesNoneTaken) {
  jobs::Limits limits;
  limits.tenant_disk = 4'000'000;
  if (!keep(Whose::kAlone, limits)) GTEST_SKIP() << "built without SQLite";
  put_parts();
  const uint64_t before = used().bytes;
  begun_to_complete(id, parts).reset();
  (void)on_journal(
      [](jobs::Storage& s) { EXPECT_TRUE(s.files.append("rest", 0, std::string(3'000'000, 'x'), "anybody").ok()); });
  EXPECT_EQ(complete(id, parts)->response.status, 429);
  EXPECT_EQ(used().bytes, before + 3'000'000);
}

TEST_F(Uploads, PartsAreNoFilesAndGoWithTheirUpload) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(6), other = created(6);
  const std::string one = part(id, "abcdef"), two = part(other, "abcdef");
  EXPECT_EQ(asked("GET", "/v1/files/" + one)->response.status, 404);
  EXPECT_EQ(asked("GET", "/v1/files/" + one + "/content")->response.status, 404);
  EXPECT_EQ(asked("DELETE", "/v1/files/" + one)->response.status, 404);
  EXPECT_TRUE(json(asked("GET", "/v1/files"))["data"].empty());
  EXPECT_EQ(used().files, 2u);
  EXPECT_EQ(complete(id, {one})->response.status, 200);
  EXPECT_EQ(json(asked("POST", "/v1/uploads/" + other + "/cancel"))["status"], "cancelled");
  EXPECT_EQ(asked("POST", "/v1/uploads/" + other + "/cancel")->response.status, 400);
  EXPECT_EQ(complete(other, {two})->response.status, 400);
  look_after(duty, env.wall());
  EXPECT_EQ(used().files, 1u) << "the file alone is left";
  look_after(duty, env.wall() + hours(2));
  EXPECT_EQ(used().bytes, 6u);
  EXPECT_EQ(error(put(id, "x")), "404 invalid_request_error not_found id");
}

TEST_F(Uploads, AnHourLaterNothingIsLeftOfOneThatNobodyCompletes) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(6);
  const std::string one = part(id, "abc");
  (void)part(id, "def");
  env.advance(hours(1));
  EXPECT_EQ(error(put(id, "x")), "400 invalid_request_error - -");
  EXPECT_EQ(complete(id, {one})->response.status, 400);
  look_after(duty, env.wall() - std::chrono::seconds(1));
  EXPECT_EQ(used().files, 2u);
  look_after(duty, env.wall());
  EXPECT_EQ(used().files, 0u);
  EXPECT_EQ(used().bytes, 0u);
}

TEST_F(Uploads, AClientThatLeavesInAPartLeavesNothing) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(1 << 20);
  const uint64_t before = used().bytes;
  {
    auto x = begun("/v1/uploads/" + id + "/parts", "multipart/form-data; boundary=a",
                   form(std::string(900'000, 'x')).substr(0, 800'000));
    ASSERT_TRUE(shard_turn());
  }
  EXPECT_EQ(used().bytes, before);
}

TEST_F(Uploads, WhatIsWrongIsNamed) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  for (const auto& [more, param] : std::vector<std::pair<Json, std::string>>{{{{"bytes", 0}}, "bytes"},
                                                                             {{{"bytes", uint64_t(1) << 40}}, "bytes"},
                                                                             {{{"purpose", "vision"}}, "purpose"},
                                                                             {{{"filename", ""}}, "filename"},
                                                                             {{{"expires_after", 1}}, "expires_after"},
                                                                             {{{"color", 1}}, "color"}})
    EXPECT_EQ(error(create(6, more)), "400 invalid_request_error - " + param) << more;
  const std::string id = created(6), one = part(id, "abc"), two = part(id, "de");
  for (const auto& parts : std::vector<std::vector<std::string>>{{}, {one, two}, {one, one}, {one, "part_x"}})
    EXPECT_EQ(error(complete(id, parts)), "400 invalid_request_error - part_ids");
  EXPECT_EQ(error(put(id, "1234567")), "400 invalid_request_error - -");
  EXPECT_EQ(error(put(id, "")), "400 invalid_request_error - -");
  EXPECT_EQ(error(put("upload_x", "1")), "404 invalid_request_error not_found id");
  EXPECT_EQ(error(complete("upload_x", {})), "404 invalid_request_error not_found id");
  EXPECT_EQ(error(asked("POST", "/v1/uploads/upload_x/cancel")), "404 invalid_request_error not_found id");
}

TEST_F(Uploads, AnotherOnesIsNotThere) {
  if (!keep(Whose::kAlone)) GTEST_SKIP() << "built without SQLite";
  batches::UploadRecord record;
  record.batch = {"upload_1",
                  std::string(batches::kUploadKind),
                  {"other", "", ""},
                  std::string(batches::kPending),
                  {},
                  env.wall(),
                  env.wall() + hours(1)};
  record.bytes = 1, record.name = "x", record.purpose = "batch";
  (void)on_journal([&](jobs::Storage& s) { EXPECT_TRUE(s.batches.add(batch_of(record)).ok()); });
  EXPECT_EQ(put("upload_1", "1")->response.status, 404);
  EXPECT_EQ(complete("upload_1", {})->response.status, 404);
  EXPECT_EQ(asked("POST", "/v1/uploads/upload_1/cancel")->response.status, 404);
}

TEST_F(Uploads, ThereAreAsManyAsATenantMayHave) {
  jobs::Limits limits;
  limits.max_batches = 2, limits.max_files = 2, limits.tenant_disk = 5000;
  if (!keep(Whose::kAlone, limits)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(6);
  EXPECT_EQ(create(4900)->response.status, 429) << "the tenant's disk";
  EXPECT_EQ(create(6)->response.status, 200);
  EXPECT_EQ(create(6)->response.status, 429) << "uploads that are not over";
  (void)part(id, "a"), (void)part(id, "b");
  EXPECT_EQ(put(id, "c")->response.status, 429) << "files";
}

TEST_F(Uploads, TheRoomOfItsPartsIsTheFilesToo) {
  jobs::Limits limits;
  limits.tenant_disk = 3000;
  if (!keep(Whose::kAlone, limits)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(2000), one = part(id, std::string(2000, 'x'));
  EXPECT_EQ(complete(id, {one})->response.status, 200);
  look_after(duty, env.wall());
  EXPECT_LE(used().bytes, 3000u);
}

TEST_F(Uploads, AFileThatFindsNoRoomIsNotMade) {
  jobs::Limits limits;
  limits.tenant_disk = 3000;
  if (!keep(Whose::kAlone, limits)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(1500), one = part(id, std::string(1500, 'x'));
  (void)on_journal(
      [](jobs::Storage& s) { EXPECT_TRUE(s.files.append("rest", 0, std::string(1500, 'x'), "anybody").ok()); });
  const uint64_t before = used().bytes;
  EXPECT_EQ(complete(id, {one})->response.status, 429);
  EXPECT_EQ(used().bytes, before);
}

TEST_F(Uploads, InAClusterTheyAreTheSame) {
  if (!keep(Whose::kCluster)) GTEST_SKIP() << "built without SQLite";
  const std::string id = created(6), one = part(id, "abc"), two = part(id, "def");
  auto done = complete(id, {one, two}, "e80b5017098950fc58aad83c8c14978e");
  ASSERT_EQ(done->response.status, 200) << done->sent;
  EXPECT_EQ(content(json(done)["file"]["id"]), "abcdef");
  (void)on_journal([&](jobs::Storage&) { log.away = true; });
  EXPECT_EQ(create(6)->response.status, 503);
}

TEST_F(Uploads, WithoutAJournalTheyAreNotOffered) {
  for (const char* path : {"/v1/uploads", "/v1/uploads/u/complete", "/v1/uploads/u/cancel"})
    EXPECT_EQ(open("POST", path, "{}")->response.status, 501) << path;
  EXPECT_EQ(
      open("POST", "/v1/uploads/u/parts", {}, {{"content-type", "multipart/form-data; boundary=a"}})->response.status,
      501);
}

}  // namespace
}  // namespace weir::openai
