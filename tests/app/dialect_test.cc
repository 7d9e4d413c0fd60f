// A protocol that weir has never heard of: what it brings is all in its Dialect, and nothing in app/ names it. What a
// real one needs beside its folder is one line in app/dialects.cc, which tests/lint/layers.py holds.
#include "dialects/dialect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "app/settings.h"
#include "app/shard_server.h"
#include "support/fake_wire.h"
#include "wire/codec.h"

namespace weir::app {
namespace {

struct Seen {
  base::Duration grace{0};
  std::string version;
};

// GET /throwaway answers with the greeting of the configuration.
class Throwaway final : public dialects::Dialect {
 public:
  explicit Throwaway(Seen& seen) : seen_(seen) {}

  std::string_view name() const override { return "throwaway"; }
  std::string_view title() const override { return "a protocol of the tests"; }
  void add_settings(std::vector<base::Setting>& rows) override {
    rows.push_back(base::setting::text("throwaway.greeting", "TEXT", "what it says", greeting_));
  }
  std::vector<std::string_view> services() const override { return {"throwaway.v1.Service"}; }
  std::vector<dialects::FrontPageLink> links() const override { return {{"throwaway", "/throwaway", "A greeting"}}; }
  base::Status open(const dialects::ServerServices& services) override {
    if (greeting_ == "wrong") return base::invalid("throwaway.greeting: no greeting is wrong");
    seen_.version = services.version;
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    return std::make_unique<OnShard>(shard, *this);
  }
  base::Result<dialects::OwnKeys> own_keys(base::Pipes) const override {
    return dialects::OwnKeys{"throwaway.keys", "throwaway", keys_};
  }

 private:
  struct OnShard final : dialects::Mounted, wire::Service {
    OnShard(const dialects::ShardServices& shard, Throwaway& its_dialect) : dialect(its_dialect) {
      shard.router.add({"GET", "/throwaway", this, "throwaway", {}, wire::Permission::kRead});
    }
    void serve(wire::Exchange& x, const wire::PathArgs&) override {
      x.respond(200, "text/plain", base::Bytes::adopt(std::string(dialect.greeting_)));
    }
    void drain(base::Duration grace) override { dialect.seen_.grace = grace; }

    Throwaway& dialect;
  };

  Seen& seen_;
  std::string greeting_ = "hello";
  std::vector<std::string> keys_;
};

struct Server {
  explicit Server(std::string_view file) {
    config.device.cuda = device::DeviceOptions::Use::kOff;
    config.dialects.push_back({std::make_unique<Throwaway>(seen)});
    read = read_file_text(file, "/etc/weir/weir.yaml", config);
    state.emplace(config);
    shard.emplace(base::ShardId(0), net::Pin::kNo);
    status = open_dialects(*state, 1, [](base::ShardId, const std::function<void()>&) {});
    if (status.ok()) status = server.emplace(*shard, *state, 1).mount_dialects();
  }
  std::string get(std::string_view target) {
    const auto env = server->codec_env();
    auto codec = wire::make_sniff(env, wire, peer);
    std::string request =
        "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n";
    codec->feed(std::as_bytes(std::span(request)));
    if (auto next = codec->successor()) codec = std::move(next);
    std::string answer = support::take_output(*codec);
    codec->closed();
    return answer;
  }

  Seen seen;
  Config config;
  base::Status read, status;
  support::FakeWire wire;
  wire::PeerInfo peer{"127.0.0.1:5000", wire::Security::kCleartext};
  std::optional<ServerState> state;
  std::optional<net::Shard> shard;
  std::optional<ShardServer> server;
};

TEST(Dialect, OneThatTheAppDoesNotKnowIsServed) {
  Server server("throwaway: {greeting: good day}\n");
  ASSERT_TRUE(server.read.ok()) << server.read.text;
  ASSERT_TRUE(server.status.ok()) << server.status.text;
  EXPECT_NE(server.get("/throwaway").find("\r\n\r\ngood day"), std::string::npos);
  EXPECT_NE(server.get("/").find("/throwaway"), std::string::npos);  // the front page links it
  EXPECT_NE(show(server.config).find("throwaway:\n  greeting: \"good day\"  # weir.yaml:1"), std::string::npos);
  EXPECT_FALSE(server.seen.version.empty());
  auto names = services(server.config);
  EXPECT_NE(std::find(names.begin(), names.end(), "throwaway.v1.Service"), names.end());
}

TEST(Dialect, OneThatIsSwitchedOffIsNotThere) {
  Server server("protocols: {throwaway: false}\nthrowaway: {greeting: wrong}\n");
  ASSERT_TRUE(server.status.ok()) << server.status.text;
  EXPECT_EQ(server.get("/throwaway").substr(0, 12), "HTTP/1.1 404");
  EXPECT_EQ(server.get("/").find("/throwaway"), std::string::npos);
}

TEST(Dialect, WhatIsWrongWithItsSettingsIsSaid) {
  Server server("throwaway: {greeting: wrong}\n");
  EXPECT_EQ(server.status.text, "throwaway.greeting: no greeting is wrong");
  Server unknown("throwaway: {greting: x}\n");
  EXPECT_EQ(unknown.read.text,
            "/etc/weir/weir.yaml:1:13: unknown key 'greting' in 'throwaway', did you mean 'greeting'?");
}

}  // namespace
}  // namespace weir::app
