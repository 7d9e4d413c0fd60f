// Host names: several questions at once, and none that outlives whoever asked.
#include "net/resolver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <set>

namespace weir::net {
namespace {

// A name service that answers "slow…" when it is told to, and other names at once.
class FakeSystem {
 public:
  std::vector<Endpoint> ask(const std::string& host) {
    std::unique_lock lock(mutex_);
    asked_.insert(host);
    most_ = std::max(most_, ++now_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return released_ || !host.starts_with("slow"); });
    --now_;
    return *resolve("127.0.0.1:0");
  }
  void wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_.size() >= count; });
  }
  void release() {
    std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  unsigned most() {
    std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> asked_;
  bool released_ = false;
  unsigned now_ = 0, most_ = 0;
};

class ResolverTest : public testing::Test {
 protected:
  ResolverTest() {
    resolver =
        std::make_unique<SystemResolver>(shard, [its = fake](const std::string& host) { return its->ask(host); });
    shard.start();
  }
  ~ResolverTest() override {
    fake->release();
    shard.stop();
    shard.join();
  }
  std::future<std::string> look_up(const std::string& host) {
    auto told = std::make_shared<std::promise<std::string>>();
    auto heard = told->get_future();
    shard.post([this, told, host] {
      resolver->look_up(host, [told](auto found) { told->set_value(found.empty() ? "none" : found[0].text()); });
    });
    return heard;
  }

  const std::shared_ptr<FakeSystem> fake = std::make_shared<FakeSystem>();
  Shard shard{base::ShardId(0), Pin::kNo};
  std::unique_ptr<SystemResolver> resolver;
};

TEST_F(ResolverTest, OneThatTakesLongHoldsUpNoOther) {
  auto first = look_up("slow 1"), second = look_up("slow 2"), third = look_up("slow 3");
  fake->wait_for(3);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(look_up("quick").get(), "127.0.0.1:0");
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  fake->release();
  EXPECT_EQ(first.get(), "127.0.0.1:0");
  EXPECT_EQ(second.get(), "127.0.0.1:0");
  EXPECT_EQ(third.get(), "127.0.0.1:0");
}

TEST_F(ResolverTest, NoMoreThanAFewAreAskedAtOnce) {
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < 40; ++i) all.push_back(look_up("slow " + std::to_string(i)));
  fake->wait_for(SystemResolver::kAtOnce);
  fake->release();
  for (auto& one : all) EXPECT_EQ(one.get(), "127.0.0.1:0");
  EXPECT_EQ(fake->most(), SystemResolver::kAtOnce);
}

TEST_F(ResolverTest, NobodyIsToldWhoHasGone) {
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < 8; ++i) all.push_back(look_up("slow " + std::to_string(i)));
  fake->wait_for(SystemResolver::kAtOnce);
  std::promise<void> gone;
  shard.post([&] {
    resolver.reset();
    gone.set_value();
  });
  gone.get_future().get();
  fake->release();
  for (auto& one : all) EXPECT_THROW(one.get(), std::future_error);
}

TEST_F(ResolverTest, TheSystemKnowsAddressesAndNoInventedNames) {
  EXPECT_EQ(SystemResolver::ask_system("127.0.0.1").at(0).text(), "127.0.0.1:0");
  EXPECT_TRUE(SystemResolver::ask_system("no-such-name.invalid").empty());
}

}  // namespace
}  // namespace weir::net
