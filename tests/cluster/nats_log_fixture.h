// NatsLogs of a real nats-server, which the test starts; skipped where there is none.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cluster/nats_handles.h"
#include "cluster/nats_log.h"
#include "cluster/nats_stream.h"
#include "support/nats_server.h"

namespace weir::cluster {

using base::Code;
using std::chrono::seconds;

struct NatsLogTest : testing::Test {
  void SetUp() override {
    if (!NatsServer::installed()) GTEST_SKIP() << "nats-server is not installed";
    server.start();
  }
  std::unique_ptr<NatsLog> open(std::string key = "") {
    NatsLog::Options options{server.url(), "weir-jobs", "test", std::move(key), most};
    auto log = std::make_unique<NatsLog>(std::move(options), [this] {
      std::lock_guard lock(mutex);
      ++news;
      changed.notify_all();
    });
    EXPECT_TRUE(log->start().ok());
    EXPECT_TRUE(until([&] { return log->connected() && log->extent().has_value(); }));
    return log;
  }
  // A message as anybody publishes it who may.
  std::unique_ptr<NatsStream> plain() {
    auto stream = std::make_unique<NatsStream>(NatsStream::Options{server.url(), "weir-jobs", "plain"}, [] {});
    EXPECT_TRUE(stream->start().ok());
    EXPECT_TRUE(until([&] { return stream->connected() && stream->open().ok(); }));
    return stream;
  }
  // Somebody deletes the stream, and makes another one of that name.
  void make_anew() {
    natsStatus status = NATS_OK;
    auto connection =
        made<natsConnection>(status, [&](auto** out) { return natsConnection_ConnectTo(out, server.url().c_str()); });
    auto js = made<jsCtx>(status, [&](auto** out) { return natsConnection_JetStream(out, connection.get(), nullptr); });
    ASSERT_EQ(NATS_OK, js_DeleteStream(js.get(), "weir-jobs", nullptr, nullptr));
    plain();
  }
  uint64_t raw(const std::string& what, const std::string& bytes) {
    auto stream = plain();
    return stream->publish(stream->subject(what), {}, bytes).value();
  }
  std::string last_of(const std::string& what) {
    auto stream = plain();
    std::string out;
    for (uint64_t at = 0;;) {
      auto message = stream->get(at + 1, stream->subject(what)).value();
      if (!message) return out;
      at = message->sequence, out = message->bytes;
    }
  }
  // Looked at again with all news, and now and then.
  template <class Condition>
  bool until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (!condition()) {
      std::unique_lock lock(mutex);
      if (std::chrono::steady_clock::now() > end) return false;
      changed.wait_for(lock, std::chrono::milliseconds(50));
    }
    return true;
  }

  NatsServer server;
  uint64_t most = uint64_t(1) << 30;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> news{0};
};

}  // namespace weir::cluster
