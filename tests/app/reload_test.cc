// A running server reads its files again.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <new>
#include <string>
#include <vector>

#include "app/file_watch.h"
#include "app/live_settings.h"
#include "app/logs.h"
#include "app/reloader.h"
#include "base/log.h"

namespace weir::app {
namespace {

using base::log::Level;
using Seen = FileWatch::Seen;

struct Folder {
  Folder() {
    std::string pattern = testing::TempDir() + "/weir-reload-XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path + '/' + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }
  std::string path;
};

TEST(FileWatch, AChangeIsSeenOnceWhenTheFilesRest) {
  Folder folder;
  folder.write("cert", "1"), folder.write("key", "1");
  FileWatch watch({folder.file("cert"), "", folder.file("key")});
  EXPECT_EQ(watch.look(), Seen::kNothing);
  folder.write("cert", "22");
  EXPECT_EQ(watch.look(), Seen::kNothing) << "the key may follow";
  folder.write("key", "22");
  EXPECT_EQ(watch.look(), Seen::kNothing);
  EXPECT_EQ(watch.look(), Seen::kChanged);
  watch.took();
  EXPECT_EQ(watch.look(), Seen::kNothing);
  folder.write("cert", "333");
  watch.skip(), watch.took();
  EXPECT_EQ(watch.look(), Seen::kNothing) << "it was read for another reason";
  EXPECT_EQ(watch.look(), Seen::kNothing);
  EXPECT_TRUE(FileWatch({"", ""}).empty());
}

TEST(FileWatch, WhatCouldNotBeReadIsToBeReadAgain) {
  Folder folder;
  folder.write("cert", "1");
  FileWatch watch({folder.file("cert")});
  folder.write("cert", "22");
  EXPECT_EQ(watch.look(), Seen::kNothing);
  EXPECT_EQ(watch.look(), Seen::kChanged);
  EXPECT_EQ(watch.look(), Seen::kUnread);
  EXPECT_EQ(watch.look(), Seen::kUnread);
  folder.write("cert", "333");
  EXPECT_EQ(watch.look(), Seen::kNothing);
  EXPECT_EQ(watch.look(), Seen::kChanged) << "another change";
  watch.took();
  EXPECT_EQ(watch.look(), Seen::kNothing);
  folder.write("cert", "4444");
  watch.skip();
  EXPECT_EQ(watch.look(), Seen::kUnread) << "nor could it be read for another reason";
}

// As Kubernetes renews a secret: the folder's link is put in another place.
TEST(FileWatch, ALinkThatLeadsElsewhereIsAChange) {
  Folder folder;
  folder.write("one", "x"), folder.write("two", "x");
  std::filesystem::create_symlink("one", folder.file("cert"));
  FileWatch watch({folder.file("cert")});
  std::filesystem::create_symlink("two", folder.file("next"));
  std::filesystem::rename(folder.file("next"), folder.file("cert"));
  EXPECT_EQ(watch.look(), Seen::kNothing);
  EXPECT_EQ(watch.look(), Seen::kChanged);
}

class LiveSettingsTest : public testing::Test {
 protected:
  ~LiveSettingsTest() override { set_up_logs(Config()); }
  static base::Result<Config> read(const std::string& text) {
    Config config;
    if (auto s = read_file_text(text, "weir.yaml", config); !s.ok()) return s;
    return config;
  }

  std::string text = "log: {level: info}\nshards: 2\n";
  LiveSettings live{read(text).value(), [this] { return read(text); }};
};

TEST_F(LiveSettingsTest, TheLogsAreTakenAndTheOthersNamed) {
  EXPECT_TRUE(live.reload().value().empty());
  text = "log: {level: error, format: json}\nshards: 3\ntls: {required: true}\n";
  EXPECT_EQ(live.reload().value(), (std::vector<std::string>{"shards", "tls.required"}));
  EXPECT_FALSE(base::log::enabled(Level::kWarning));
  EXPECT_TRUE(base::log::enabled(Level::kError));
  EXPECT_EQ(base::log::format(), base::log::Format::kJson);
  text = "log: {level: verbose}\nshards: 2\n";
  EXPECT_TRUE(live.reload().value().empty()) << "as the server runs again";
  EXPECT_TRUE(base::log::enabled(Level::kVerbose));
  EXPECT_EQ(base::log::format(), base::log::Format::kText);
}

TEST_F(LiveSettingsTest, AnotherSecretNeedsARestart) {
  text = "salience: {bearer_token: one}\n";
  LiveSettings with_secret(read(text).value(), [this] { return read(text); });
  EXPECT_TRUE(with_secret.reload().value().empty());
  text = "salience: {bearer_token: two}\n";
  EXPECT_EQ(with_secret.reload().value(), std::vector<std::string>{"salience.bearer_token"});
}

TEST_F(LiveSettingsTest, ALevelThatAClientHasSetStaysUntilTheFileChanges) {
  base::log::enable(Level::kInfo, false);
  EXPECT_TRUE(live.reload().value().empty());
  EXPECT_FALSE(base::log::enabled(Level::kInfo));
}

TEST_F(LiveSettingsTest, AMistakeChangesNothing) {
  text = "log: {level: error}\nshard: 3\n";
  auto outcome = live.reload();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().text.find("weir.yaml:2:"), std::string::npos) << outcome.error().text;
  EXPECT_TRUE(base::log::enabled(Level::kInfo));
}

// OpenSSL would wait there for who writes into it.
TEST(FileWatch, APipeIsAFileThatWaits) {
  Folder folder;
  folder.write("cert", "1");
  FileWatch watch({folder.file("cert"), folder.file("key")});
  EXPECT_EQ(watch.waiting(), "");
  ASSERT_EQ(::mkfifo(folder.file("key").c_str(), 0600), 0);
  EXPECT_EQ(watch.waiting(), folder.file("key"));
}

TEST(Reloader, APipeInTheCertificatesPlaceIsNotRead) {
  Folder folder;
  ASSERT_EQ(::mkfifo(folder.file("cert").c_str(), 0600), 0);
  std::promise<void> done;
  Reloader::Steps steps;
  steps.settings = []() -> base::Result<std::vector<std::string>> { return std::vector<std::string>(); };
  steps.certificates = []() -> base::Status {
    ADD_FAILURE() << "it would wait";
    return {};
  };
  steps.models = [](const std::function<void()>& then) { then(); };
  Reloader reloader({folder.file("cert")}, steps);
  reloader.reload([&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(Reloader, ReadsEverythingThatThereIsWhenItIsAsked) {
  std::vector<std::string> order;
  std::promise<void> done;
  Reloader::Steps steps;
  steps.settings = [&]() -> base::Result<std::vector<std::string>> {
    order.emplace_back("settings");
    return base::invalid("a mistake, which holds nothing else up");
  };
  steps.certificates = [&] {
    order.emplace_back("certificates");
    return base::Status();
  };
  steps.models = [&](std::function<void()> then) {
    order.emplace_back("models");
    then();
  };
  {
    Reloader reloader({"/no/such/file"}, steps);
    reloader.reload([&] { done.set_value(); });
    done.get_future().wait();
    reloader.stop();
    reloader.reload([] { FAIL() << "it has stopped"; });
  }
  EXPECT_EQ(order, (std::vector<std::string>{"settings", "certificates", "models"}));
}

// Under systemd the server would be reloading for good.
TEST(Reloader, SaysThatItIsDoneWhateverIsThrown) {
  std::promise<void> done, again;
  Reloader::Steps steps;
  int models = 0;
  steps.settings = []() -> base::Result<std::vector<std::string>> { throw std::bad_alloc(); };
  steps.models = [&](const std::function<void()>& then) {
    if (++models == 1) throw std::bad_alloc();
    then();
  };
  Reloader reloader({}, steps);
  reloader.reload([&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  reloader.reload([&] { again.set_value(); });
  EXPECT_EQ(again.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(models, 2);
}

// A file that belongs to somebody else looks the same once it does not.
TEST(Reloader, CertificatesThatCouldNotBeReadAreTriedAgain) {
  Folder folder;
  folder.write("cert", "1");
  std::promise<void> read;
  std::atomic<int> tries{0};
  Reloader::Steps steps;
  steps.certificates = [&]() -> base::Status {
    if (++tries == 1) return base::invalid("it cannot be read");
    if (tries == 2) read.set_value();
    return {};
  };
  Reloader reloader({folder.file("cert")}, steps);
  folder.write("cert", "22");
  EXPECT_EQ(read.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace weir::app
