// How the Router words what it refuses itself.
#include <gtest/gtest.h>

#include <string>

#include "support/fake_wire.h"
#include "wire/router.h"
#include "wire/websocket.h"

namespace weir::wire {
namespace {

using support::FakeExchange;

// Says `kWord`, whatever was wrong.
template <const char* kWord>
void say(Exchange& x, int status, std::string_view) {
  x.respond(status, "", base::Bytes::constant(kWord));
}
constexpr char kShort[] = "short", kLong[] = "long", kOwn[] = "own";

struct RouterForms : ::testing::Test {
  struct Silent final : Service {
    void serve(Exchange& x, const PathArgs&) override { x.respond(200, "", {}); }
  };

  void add(const char* method, const char* pattern, const char* protocol) {
    router.add({method, pattern, &service, protocol, Plan{BodyPlan::kIgnore}});
  }
  std::string ask(std::string method, std::string target) {
    FakeExchange x(std::move(method), std::move(target));
    router.begin(x);
    router.closed(x);
    return std::to_string(x.response.status) + " " + x.sent;
  }

  base::FakeEnv env;
  Silent service;
  Router router{env};
};

TEST_F(RouterForms, TheLongestPrefixDecides) {
  add("GET", "/v2/models/{model}", "test");
  router.error_form("/v2/", say<kShort>);
  router.error_form("/v2/models/", say<kLong>);
  EXPECT_EQ(ask("GET", "/v2/models/a/b/c"), "404 long");
  EXPECT_EQ(ask("GET", "/v2/x"), "404 short");
  EXPECT_EQ(ask("DELETE", "/v2/models/a"), "405 long");
}

TEST_F(RouterForms, AnotherMethodIsRefusedInTheFormOfThePathsProtocol) {
  add("POST", "/v1/models/{model}:say", "own");
  add("GET", "/v1/models", "own");
  add("POST", "/v1/models", "other");
  router.error_form("/v1", say<kShort>);
  router.error_form_of("own", say<kOwn>);
  EXPECT_EQ(ask("GET", "/v1/models/a:say"), "405 own");
  EXPECT_EQ(ask("DELETE", "/v1/models"), "405 short") << "two protocols have the path";
}

TEST_F(RouterForms, ARefusedHandshakeIsWordedAsItsPathWordsErrors) {
  struct Accepts final : Service {
    void serve(Exchange& x, const PathArgs&) override { (void)accept_websocket(x); }
  } accepts;
  router.add({"GET", "/a", &accepts, "test", Plan{BodyPlan::kStream}, Permission::kInfer, Upgrade::kWebSocket});
  router.error_form("/a", say<kLong>);
  FakeExchange x("GET", "/a");
  router.begin(x);
  EXPECT_EQ(x.response.status, 426);
  EXPECT_EQ(x.sent, "long");
  router.closed(x);
}

}  // namespace
}  // namespace weir::wire
