#include "dialects/ops/audit_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "support/fake_wire.h"
#include "wire/identity.h"

namespace weir::ops {
namespace {

using nlohmann::json;
using support::FakeExchange;

struct Nothing final : wire::Service {
  void serve(wire::Exchange&, const wire::PathArgs&) override {}
};

struct Audited : testing::Test {
  Audited() {
    auto add = [this](const char* method, wire::Permission permission) {
      router.add({method, "/v2/logging", &service, "oip-rest", {}, permission});
    };
    add("POST", wire::Permission::kAdmin), add("GET", wire::Permission::kRead);
  }
  ~Audited() override { std::filesystem::remove(path); }
  std::vector<json> lines() const {
    std::vector<json> out;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
    return out;
  }

  std::string path = testing::TempDir() + "/weir-audit-" + std::to_string(::getpid()) + ".log";
  base::Metrics metrics;
  base::FakeEnv env;
  Nothing service;
  wire::Router router{env};
};

// As the Router leaves a record.
void record(FakeExchange& x, int status, base::Code code) {
  x.record().route = "/v2/logging", x.record().protocol = "oip-rest", x.record().request_id = "id-1";
  x.record().status = status, x.record().code = code;
}

TEST_F(Audited, AdminRequestsAreLinesAndOthersAreNot) {
  {
    auto log = *AuditLog::open(path, metrics);
    AuditLog::ShardLog shard_log(*log, env, router, nullptr);
    auto who = std::make_shared<wire::Identity>();
    who->name = "ops\"}\n{\"forged\":\"1";
    FakeExchange post("POST", "/v2/logging?x=1"), get("GET", "/v2/logging"), refused("POST", "/v2/logging");
    record(post, 200, base::Code::kOk), record(get, 200, base::Code::kOk);
    record(refused, 403, base::Code::kPermissionDenied);
    post.set_caller(*wire::Caller::enter(who, env.now()));
    post.record().model = "digits";
    refused.record().reject = "auth";
    shard_log.finished(post), shard_log.finished(get), shard_log.finished(refused);
    log->note(env.wall(), "keys were read", "/etc/weir/keys.yaml", base::invalid("it is broken"));
  }
  auto got = lines();
  ASSERT_EQ(got.size(), 3u);
  got[0].erase("time");
  EXPECT_EQ(got[0], json::parse(R"({"request_id":"id-1","who":"ops\"}\u000a{\"forged\":\"1","peer":"127.0.0.1:5000",
    "protocol":"oip-rest","action":"POST /v2/logging","model":"digits","path":"/v2/logging","status":200,"code":"OK"})"));
  EXPECT_EQ(got[1]["code"], "PERMISSION_DENIED");
  EXPECT_EQ(got[1]["reason"], "auth");
  EXPECT_FALSE(got[1].contains("who"));
  EXPECT_EQ(got[2]["path"], "/etc/weir/keys.yaml");
  EXPECT_EQ(got[2]["reason"], "it is broken");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(Audited, WhoIsRefusedAndWhatWasChangedAreSaid) {
  struct Names final : wire::Authenticator {
    base::Result<wire::Caller> admit(const wire::Request&, wire::Permission, std::string_view) override {
      return base::invalid("not asked");
    }
    base::Status permit(const wire::Request&, wire::Permission) override { return {}; }
    std::string name_of(const wire::Request& request) override {
      ++asked;
      return "name of " + std::string(request.fields.find("x-api-key"));
    }
    int asked = 0;
  } names;
  {
    auto log = *AuditLog::open(path, metrics);
    AuditLog::ShardLog shard_log(*log, env, router, &names);
    for (auto code : {base::Code::kPermissionDenied, base::Code::kResourceExhausted, base::Code::kUnauthenticated}) {
      FakeExchange x("POST", "/v2/logging");
      x.mutable_request().fields.add("x-api-key", "a");
      record(x, 403, code);
      shard_log.finished(x);
    }
    FakeExchange x("POST", "/v2/logging");
    record(x, 200, base::Code::kOk);
    shard_log.changed(x, "log_info=true");
    shard_log.finished(x), shard_log.finished(x);
  }
  auto got = lines();
  ASSERT_EQ(got.size(), 5u);
  EXPECT_EQ(got[0]["who"], "name of a");
  EXPECT_EQ(got[1]["who"], "name of a");
  EXPECT_FALSE(got[2].contains("who")) << "a wrong key is not looked for again";
  EXPECT_EQ(names.asked, 2);
  EXPECT_EQ(got[3]["change"], "log_info=true");
  EXPECT_FALSE(got[4].contains("change"));
}

TEST_F(Audited, AFullDiskIsSaidAndHoldsNobodyUp) {
  testing::internal::CaptureStderr();
  {
    auto log = *AuditLog::open("/dev/full", metrics);
    AuditLog::ShardLog shard_log(*log, env, router, nullptr);
    FakeExchange post("POST", "/v2/logging");
    record(post, 200, base::Code::kOk);
    for (int i = 0; i < 100; ++i) shard_log.finished(post);
  }
  base::log::flush(std::chrono::seconds(10));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(metrics.text().find("weir_audit_log_dropped_total 100\n"), std::string::npos);
  EXPECT_NE(said.find("the audit log cannot be written; lines are dropped until it can file=/dev/full"),
            std::string::npos)
      << said;
}

TEST_F(Audited, WithoutAFileTheServersLogHasThem) {
  testing::internal::CaptureStderr();
  {
    auto log = *AuditLog::open("", metrics);
    AuditLog::ShardLog shard_log(*log, env, router, nullptr);
    FakeExchange post("POST", "/v2/logging");
    record(post, 200, base::Code::kOk);
    shard_log.finished(post);
  }
  base::log::flush(std::chrono::seconds(10));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("admin action request_id=id-1"), std::string::npos) << said;
  EXPECT_NE(said.find("action=\"POST /v2/logging\""), std::string::npos) << said;
}

TEST_F(Audited, AFileThatCannotBeOpenedIsAnErrorThatNamesTheSetting) {
  EXPECT_NE(AuditLog::open("/nowhere/at/all", metrics).error().text.find("audit_log: '/nowhere/at/all'"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::ops
