#include "dialects/ops/access_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "support/fake_wire.h"

namespace weir::ops {
namespace {

using nlohmann::json;
using support::FakeExchange;

struct LogFile : testing::Test {
  std::string path = testing::TempDir() + "/weir-access-" + std::to_string(::getpid()) + ".log";
  base::Metrics metrics;
  base::FakeEnv env;

  void SetUp() override { std::filesystem::remove(path); }
  void TearDown() override { std::filesystem::remove(path); }
  static std::vector<json> lines_of(const std::string& path) {
    std::vector<json> out;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
    return out;
  }
};

TEST_F(LogFile, EachExchangeIsOneLineWithAllThatIsKnown) {
  {
    auto log = *AccessLog::open(path, metrics);
    AccessLog::ShardLog shard_log(*log, env);
    FakeExchange x("POST", "/v2/models/m/infer");
    auto& ledger = x.record();
    ledger.protocol = "oip-rest", ledger.route = "/v2/models/{model}/infer", ledger.model = "m", ledger.version = "3";
    ledger.request_id = "id-1", ledger.status = 200, ledger.bytes_in = 12, ledger.bytes_out = 34;
    ledger.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    ledger.began = x.time - std::chrono::microseconds(812);
    ledger.queue = std::chrono::microseconds(101), ledger.compute = std::chrono::microseconds(511);
    shard_log.finished(x);
    shard_log.rejected(wire::reason::kFramingTe, *x.request().peer);
    shard_log.flush();
  }
  auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  json want = json::parse(R"({"time":"2023-11-14T22:13:20.000000Z","request_id":"id-1","peer":"127.0.0.1:5000",
    "protocol":"oip-rest","http":"1.1","method":"POST","route":"/v2/models/{model}/infer","model":"m","version":"3","status":200,
    "code":"OK","bytes_in":12,"bytes_out":34,"seconds":0.000812,"queue_seconds":0.000101,"compute_seconds":0.000511,
    "trace_id":"0af7651916cd43dd8448eb211c80319c"})");
  want["time"] = lines[0]["time"];
  EXPECT_EQ(lines[0], want);
  EXPECT_TRUE(
      std::regex_match(lines[0]["time"].get<std::string>(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")));
  EXPECT_EQ(lines[1]["reason"], "framing_te");
}

TEST_F(LogFile, AClientCannotForgeALine) {
  {
    auto log = *AccessLog::open(path, metrics);
    AccessLog::ShardLog shard_log(*log, env);
    FakeExchange x("GET\"}\n{\"forged\":\"1", "/");
    x.record().request_id = std::string(1000, 'x') + "\x1b[31m\xe2\x80\xa8";
    shard_log.finished(x);
    shard_log.flush();
  }
  auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_FALSE(lines[0].contains("forged"));
  EXPECT_EQ(lines[0]["request_id"].get<std::string>().size(), 256u);
}

TEST_F(LogFile, ReopenFollowsARename) {
  auto log = *AccessLog::open(path, metrics);
  AccessLog::ShardLog shard_log(*log, env);
  FakeExchange x("GET", "/");
  shard_log.finished(x);
  shard_log.flush();
  while (!std::filesystem::exists(path) || std::filesystem::file_size(path) == 0) std::this_thread::yield();
  std::filesystem::rename(path, path + ".1");
  log->reopen();
  while (!std::filesystem::exists(path)) std::this_thread::yield();
  shard_log.finished(x);
  shard_log.flush();
  log.reset();
  EXPECT_EQ(lines_of(path).size(), 1u);
  EXPECT_EQ(lines_of(path + ".1").size(), 1u);
  std::filesystem::remove(path + ".1");
}

TEST_F(LogFile, AFullDeviceLosesLinesHoldsNobodyUpAndIsSaidOnce) {
  testing::internal::CaptureStderr();
  {
    auto log = *AccessLog::open("/dev/full", metrics);
    AccessLog::ShardLog shard_log(*log, env);
    FakeExchange x("GET", "/");
    for (int i = 0; i < 1000; ++i) {
      shard_log.finished(x);
      shard_log.flush();
    }
  }
  base::log::flush(std::chrono::seconds(10));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(metrics.text().find("weir_access_log_dropped_total 1000\n"), std::string::npos);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  EXPECT_NE(said.find("the access log cannot be written; lines are dropped until it can file=/dev/full "
                      "reason=\"No space left on device\" lines="),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("the access log ends with lines lost file=/dev/full lines=1000\n"), std::string::npos) << said;
}

TEST_F(LogFile, WhenTheDiskHasRoomAgainTheLogAndTheFileSayWhatIsLost) {
  std::filesystem::create_symlink("/dev/full", path);
  testing::internal::CaptureStderr();
  {
    auto log = *AccessLog::open(path, metrics);
    AccessLog::ShardLog shard_log(*log, env);
    FakeExchange x("GET", "/");
    for (int i = 0; i < 3; ++i) shard_log.finished(x);
    shard_log.flush();
    while (metrics.text().find("weir_access_log_dropped_total 3\n") == std::string::npos) std::this_thread::yield();
    std::filesystem::remove(path);
    log->reopen();
    while (!std::filesystem::exists(path)) std::this_thread::yield();
    shard_log.finished(x);
    shard_log.flush();
  }
  base::log::flush(std::chrono::seconds(10));
  std::string said = testing::internal::GetCapturedStderr();
  auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], json::parse(R"({"dropped":3})"));
  EXPECT_EQ(lines[1]["method"], "GET");
  EXPECT_NE(said.find("the access log is written again"), std::string::npos) << said;
  EXPECT_NE(said.find("lost_lines=3\n"), std::string::npos) << said;
  EXPECT_EQ(said.find("the access log ends with lines lost"), std::string::npos) << said;
}

// A reader that stops for longer than the writer waits cuts a line short; the lines after it are whole.
TEST_F(LogFile, ALineThatIsCutShortSpoilsNoOther) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  constexpr int kLines = 1000;  // more than a pipe holds
  std::string got, buffer(1 << 16, 0);
  auto drain = [&] {
    for (ssize_t n; (n = ::read(reader, buffer.data(), buffer.size())) > 0;) got.append(buffer, 0, size_t(n));
  };
  {
    auto log = *AccessLog::open(path, metrics);
    AccessLog::ShardLog shard_log(*log, env);
    FakeExchange x("GET", "/");
    for (int i = 0; i < kLines; ++i) shard_log.finished(x);
    shard_log.flush();
    while (metrics.text().find("weir_access_log_dropped_total 0\n") != std::string::npos) std::this_thread::yield();
    drain();
    shard_log.finished(x);
    shard_log.flush();
  }
  drain();
  ::close(reader);
  std::istringstream in(got);
  uint64_t whole = 0, cut = 0, dropped = 0;
  for (std::string line; std::getline(in, line);) {
    auto parsed = json::parse(line, nullptr, false);
    if (parsed.is_discarded())
      ++cut;
    else if (parsed.contains("dropped"))
      dropped += parsed["dropped"].get<uint64_t>();
    else
      ++whole;
  }
  EXPECT_LE(cut, 1u);
  EXPECT_EQ(whole + dropped, uint64_t(kLines) + 1);
}

// Neither the start nor, behind a reopen(), the end waits for whoever will read it.
TEST_F(LogFile, APipeThatNobodyReadsYetIsOpened) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto log = *AccessLog::open(path, metrics);
  int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  AccessLog::ShardLog shard_log(*log, env);
  shard_log.finished(FakeExchange("GET", "/"));
  shard_log.flush();
  char first = 0;
  while (::read(reader, &first, 1) != 1) std::this_thread::yield();
  EXPECT_EQ(first, '{');
  ::close(reader);
  log->reopen();
}

TEST_F(LogFile, AFileThatCannotBeOpenedIsAnError) { EXPECT_FALSE(AccessLog::open("/no/such/folder/log", metrics)); }

}  // namespace
}  // namespace weir::ops
