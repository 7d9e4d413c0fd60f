#include "app/access_control.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "app/banner.h"
#include "auth/key_file.h"
#include "base/fake_env.h"
#include "cluster/node.h"

namespace weir::app {
namespace {

using wire::Role;

class AccessControlTest : public testing::Test {
 protected:
  AccessControlTest() { config.dialects.clear(); }
  wire::Roles anonymous() {
    AccessControl access(config);
    EXPECT_TRUE(access.open().ok());
    return access.anonymous();
  }
  std::string open() {
    AccessControl access(config);
    EXPECT_TRUE(access.open().ok());
    return what_is_open(config, access);
  }

  Config config;
};

TEST_F(AccessControlTest, AdminMethodsAreGuardedWhereOtherMachinesReachTheirListener) {
  config.listen = {"127.0.0.1:8080"};
  EXPECT_TRUE(anonymous().has(Role::kAdmin));
  config.listen = {"127.0.0.1:8080", "0.0.0.0:8080"};
  EXPECT_FALSE(anonymous().has(Role::kAdmin));
  for (const char* address : {"unix:/run/admin.sock", "127.0.0.1:9090", "localhost:9090"}) {
    config.admin_listen = {address};
    EXPECT_TRUE(anonymous().has(Role::kAdmin)) << address;
  }
  config.admin_listen.push_back("0.0.0.0:9090");
  EXPECT_FALSE(anonymous().has(Role::kAdmin));
  config.auth.admin = AuthConfig::Admin::kOpen;
  EXPECT_TRUE(anonymous().has(Role::kAdmin));
}

TEST_F(AccessControlTest, WhatIsOpenNamesTheAdminMethodsOfReachableListenersAlone) {
  config.listen = {"0.0.0.0:8080"};
  config.admin_listen = {"127.0.0.1:9090"};
  EXPECT_NE(open().find("whoever reaches 0.0.0.0:8080 may see and run models"), std::string::npos) << open();
  EXPECT_EQ(open().find("load and unload"), std::string::npos) << open();
  EXPECT_EQ(open().find("admin methods are refused"), std::string::npos) << open();
  config.admin_listen = {"0.0.0.0:9090"};
  EXPECT_NE(open().find("admin methods are refused"), std::string::npos) << open();
  config.auth.admin = AuthConfig::Admin::kOpen;
  EXPECT_NE(open().find("0.0.0.0:8080, 0.0.0.0:9090"), std::string::npos) << open();
  EXPECT_NE(open().find("load and unload"), std::string::npos) << open();
}

// A server whose keys file changes while it runs.
class KeysFileTest : public AccessControlTest {
 protected:
  KeysFileTest() {
    std::string pattern = testing::TempDir() + "/weir-keys-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    config.auth.keys_file = folder + "/keys.yaml";
    write("keys.yaml", "keys:\n" + key("one"));
    access.on_read([this](const std::string&, const base::Status& outcome) { (outcome.ok() ? read : failed)++; });
  }
  ~KeysFileTest() override { std::filesystem::remove_all(folder); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder + '/' + name) << text; }
  static std::string key(const std::string& name) {
    return "  - {name: " + name + ", hash: \"" + auth::show_digest(auth::digest_of(name)) + "\"}\n";
  }
  void open() {
    const auto status = access.open();
    ASSERT_TRUE(status.ok()) << status.text;
    authenticator = access.make_authenticator(env, {});
  }
  bool admits(const std::string& secret) {
    wire::Request request;
    request.peer = &peer;
    request.fields.add("authorization", "Bearer " + secret);
    return authenticator->admit(request, wire::Permission::kInfer, "oip").has_value();
  }

  base::FakeEnv env;
  wire::PeerInfo peer{"192.0.2.1:5000", wire::Security::kCleartext};
  std::string folder;
  AccessControl access{config};
  std::unique_ptr<auth::Authenticator> authenticator;
  int read = 0, failed = 0;
};

// The first half of a list of keys is a list, too: one with fewer restrictions.
TEST_F(KeysFileTest, AFileThatIsBeingWrittenIsReadWhenItRests) {
  open();
  for (const char* name : {"two", "three", "four"}) {
    std::ofstream(config.auth.keys_file, std::ios::app) << key(name);
    access.look();
    EXPECT_FALSE(admits(name)) << "more may follow";
  }
  access.look();
  EXPECT_TRUE(admits("one") && admits("two") && admits("four"));
  access.look();
  EXPECT_EQ(read, 1);
}

TEST_F(KeysFileTest, AFileThatCouldNotBeReadIsTriedAgainThoughItLooksTheSame) {
  open();
  write("keys.yaml", "keys:\n" + key("two") + key("three"));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 4; ++i) access.look();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(failed, 1) << "the log has one line";
  EXPECT_TRUE(admits("one"));
  access.look();
  EXPECT_EQ(read, 1);
  EXPECT_FALSE(admits("one")) << "it has been revoked";
  EXPECT_TRUE(admits("three"));
}

// The log says that keys were read to whoever has asked for it.
TEST_F(KeysFileTest, AReloadIsOverWhenTheKeysWereRead) {
  open();
  access.start();
  write("keys.yaml", "keys:\n" + key("two"));
  EXPECT_TRUE(access.reload().ok());
  EXPECT_FALSE(admits("one"));
  EXPECT_TRUE(admits("two"));
  write("keys.yaml", "keys: [one\n");
  EXPECT_FALSE(access.reload().ok());
  EXPECT_TRUE(admits("two")) << "a mistake changes nothing";
}

TEST_F(KeysFileTest, ThereMayBeAsManyKeysAsTheirFormatAllows) {
  std::string text = "keys:\n";
  for (size_t i = 0; i < auth::kMostKeys; ++i) text += key("tenant-" + std::to_string(i));
  ASSERT_LT(text.size(), auth::kMostKeyFileBytes);
  write("keys.yaml", text);
  open();
  EXPECT_TRUE(admits("tenant-0") && admits("tenant-99999"));
  EXPECT_FALSE(admits("tenant-100000"));
}

// A protocol whose keys came through a pipe.
struct Piped final : dialects::Dialect {
  std::string_view name() const override { return "piped"; }
  std::string_view title() const override { return name(); }
  base::Status open(const dialects::ServerServices&) override { return {}; }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices&) override { return nullptr; }
  base::Result<dialects::OwnKeys> own_keys(base::Pipes pipes) const override {
    if (pipes == base::Pipes::kRefused) return base::failure(base::Code::kFailedPrecondition, "it is a pipe");
    return dialects::OwnKeys{"piped.keys", "oip", {"from-the-pipe"}};
  }
};

TEST_F(KeysFileTest, KeysThatCameThroughAPipeStayWhenOthersChange) {
  config.dialects.push_back({std::make_unique<Piped>()});
  open();
  EXPECT_TRUE(admits("one") && admits("from-the-pipe"));
  write("keys.yaml", "keys:\n" + key("two"));
  access.look(), access.look();
  EXPECT_TRUE(admits("two") && admits("from-the-pipe"));
  EXPECT_FALSE(admits("one"));
}

TEST_F(KeysFileTest, AListThatCameThroughAPipeStaysWhenOthersChange) {
  struct Listed final : dialects::Dialect {
    explicit Listed(std::string* secret) : secret_(secret) {}
    std::string_view name() const override { return "listed"; }
    std::string_view title() const override { return name(); }
    base::Status open(const dialects::ServerServices&) override { return {}; }
    base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices&) override { return nullptr; }
    base::Result<dialects::OwnKeys> own_keys(base::Pipes) const override {
      return dialects::OwnKeys{"listed.keys", "oip", {*secret_}};
    }
    std::string* secret_;
  };
  std::string secret = "first";
  config.dialects.push_back({std::make_unique<Listed>(&secret)});
  const std::string text = "keys:\n" + key("one");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), ssize_t(text.size()));
  close(ends[1]);
  config.auth.keys_file = "/dev/fd/" + std::to_string(ends[0]);
  open();
  access.start();
  EXPECT_TRUE(admits("one") && admits("first"));
  secret = "second";
  EXPECT_TRUE(access.reload().ok());
  EXPECT_TRUE(admits("one") && admits("second"));
  EXPECT_FALSE(admits("first"));
  close(ends[0]);
}

TEST_F(KeysFileTest, APipeThatTakesThePlaceOfTheFileIsAMistake) {
  open();
  const std::string file = folder + "/keys.yaml";
  ASSERT_EQ(::unlink(file.c_str()), 0);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  access.start();
  EXPECT_EQ(access.reload().text, "auth.keys_file: '" + file + "' is not a regular file");
  EXPECT_TRUE(admits("one"));
}

// Whatever else is read again, the calls of other nodes are let in.
TEST_F(KeysFileTest, TheKeyOfTheClusterStaysAmongThem) {
  write("secret", "a secret of the cluster that is long enough\n");
  config.cluster.nats = "nats://127.0.0.1:1";
  config.cluster.name = "one";
  config.cluster.secret = folder + "/secret";
  open();
  const auto call_key = cluster::Secrets::derive("a secret of the cluster that is long enough").call_key;
  EXPECT_TRUE(admits(call_key));
  write("keys.yaml", "keys:\n" + key("two") + key("three"));
  access.look(), access.look();
  EXPECT_TRUE(admits("three"));
  EXPECT_TRUE(admits(call_key));
}

}  // namespace
}  // namespace weir::app
