#include "wire/router.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "support/fake_wire.h"
#include "wire/limits.h"

namespace weir::wire {
namespace {

using support::FakeExchange;

struct Named final : Service {
  std::string last;
  std::vector<std::string> names;
  explicit Named(std::vector<std::string> n) : names(std::move(n)) {}
  void serve(Exchange& x, const PathArgs& args) override {
    last = x.request().method;
    for (const auto& n : names) last += " " + n + "=" + std::string(args[n]);
    x.respond(200, "text/plain", base::Bytes::adopt(last));
  }
};

struct RouterTest : ::testing::Test {
  base::FakeEnv env;
  Named service{{"model", "version"}};
  Router router{env, Cors{{"https://good.example"}}};

  void SetUp() override {
    auto route = [&](const char* method, const char* pattern, BodyPlan plan = BodyPlan::kWhole) {
      router.add({method, pattern, &service, "test", Plan{plan, 1000}});
    };
    route("GET", "/v2");
    route("GET", "/v2/health/live");
    route("GET", "/v2/models/{model}");
    route("POST", "/v2/models/{model}/infer");
    route("POST", "/v2/models/{model}/versions/{version}/infer");
    route("GET", "/v2/models/stats");
    route("POST", "/v2/models/stats");
    route("POST", "/stream", BodyPlan::kStream);
  }
  // begin() and, where it is due, whole().
  Plan go(FakeExchange& x) {
    Plan plan = router.begin(x);
    if (plan.body == BodyPlan::kWhole && !x.responding()) router.whole(x);
    return plan;
  }
  std::string get(std::string method, std::string target) {
    FakeExchange x(std::move(method), std::move(target));
    go(x);
    router.closed(x);
    return std::to_string(x.response.status) + " " + x.sent;
  }
};

TEST_F(RouterTest, ExactPathsAndPatternsAreFound) {
  EXPECT_EQ(get("GET", "/v2"), "200 GET model= version=");
  EXPECT_EQ(get("GET", "/v2?x=1"), "200 GET model= version=");
  EXPECT_EQ(get("POST", "/v2/models/a/infer"), "200 POST model=a version=");
  EXPECT_EQ(get("POST", "/v2/models/a/versions/3/infer"), "200 POST model=a version=3");
}

TEST_F(RouterTest, FixedSegmentsWinOverPlaceholders) {
  EXPECT_EQ(get("GET", "/v2/models/stats"), "200 GET model= version=");
  EXPECT_EQ(get("POST", "/v2/models/stats/infer"), "200 POST model=stats version=");
}

TEST_F(RouterTest, SegmentsAreDecodedOneByOne) {
  EXPECT_EQ(get("POST", "/v2/models/a%2Fb%20c/infer"), "200 POST model=a/b c version=");
  EXPECT_EQ(get("GET", "/v2/health/l%69ve"), "200 GET model= version=");
  EXPECT_EQ(get("GET", "/v2/models/a%zz").substr(0, 3), "404");
  EXPECT_EQ(get("GET", "/v2/models/").substr(0, 3), "404");
}

TEST_F(RouterTest, APathThatIsAskedForAgainIsFoundAsItWas) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(get("POST", "/v2/models/a%2Fb/versions/3/infer"), "200 POST model=a/b version=3");
    EXPECT_EQ(get("POST", "/v2/models/a%2Fb/versions/3/infer"), "200 POST model=a/b version=3");
    EXPECT_EQ(get("POST", "/v2/models/c/infer"), "200 POST model=c version=");
    EXPECT_EQ(get("GET", "/v2/models/c/infer").substr(0, 3), "405");
    EXPECT_EQ(get("POST", "/v2/models/c/infers").substr(0, 3), "404");
    const std::string longest(70'000, 'm');
    EXPECT_EQ(get("POST", "/v2/models/" + longest + "/infer"), "200 POST model=" + longest + " version=");
  }
  router.add({"POST", "/v2/models/c/infer", &service, "test", Plan{}});
  EXPECT_EQ(get("POST", "/v2/models/c/infer"), "200 POST model= version=");
}

TEST_F(RouterTest, HeadIsAnsweredByGet) { EXPECT_EQ(get("HEAD", "/v2"), "200 HEAD model= version="); }

TEST_F(RouterTest, AServiceWithoutMemoryEndsItsRequestOnly) {
  struct Hungry final : Service {
    bool begins = false;
    void serve(Exchange& x, const PathArgs&) override {
      if (begins) x.head({});
      throw std::bad_alloc();
    }
  } hungry;
  router.add({"POST", "/hungry", &hungry, "test", Plan{BodyPlan::kWhole, 1000}});
  EXPECT_EQ(get("POST", "/hungry").substr(0, 3), "503");
  hungry.begins = true;
  FakeExchange x("POST", "/hungry");
  go(x);
  EXPECT_TRUE(x.was_reset);
  EXPECT_EQ(x.record().reject, reason::kOverload);
  router.closed(x);
}

TEST_F(RouterTest, AServiceThatThrowsAtTheBeginOfAStreamedBodyEndsItsRequestOnly) {
  struct Thrower final : Service {
    std::function<void(Exchange&)> first;
    void serve(Exchange& x, const PathArgs&) override { first(x); }
  } thrower;
  router.add({"POST", "/thrower", &thrower, "test", Plan{BodyPlan::kStream, 1000}});
  thrower.first = [](Exchange&) { throw std::bad_alloc(); };
  EXPECT_EQ(get("POST", "/thrower").substr(0, 3), "503");
  thrower.first = [](Exchange&) { throw std::runtime_error("at 0xdeadbeef"); };
  EXPECT_EQ(get("POST", "/thrower"), "500 {\"error\":\"internal error\"}");
  thrower.first = [](Exchange& x) {
    x.head({});
    throw std::bad_alloc();
  };
  FakeExchange x("POST", "/thrower");
  EXPECT_EQ(go(x).body, BodyPlan::kStream);
  EXPECT_TRUE(x.was_reset);
  router.closed(x);
}

TEST_F(RouterTest, AnUnknownPathNamesTheNearest) {
  EXPECT_EQ(get("GET", "/v2/helth/live"),
            "404 {\"error\":\"no such path: /v2/helth/live; did you mean /v2/health/live?\"}");
  EXPECT_EQ(get("POST", "/v2/models/mine/infr"),
            "404 {\"error\":\"no such path: /v2/models/mine/infr; did you mean /v2/models/mine/infer?\"}");
  EXPECT_EQ(get("GET", "/v2/healthlive"),
            "404 {\"error\":\"no such path: /v2/healthlive; did you mean /v2/health/live?\"}");
  EXPECT_EQ(get("GET", "/somewhere/else/entirely"), "404 {\"error\":\"no such path: /somewhere/else/entirely\"}");
  EXPECT_TRUE(get("GET", "/\"x").starts_with("404 {\"error\":\"no such path: /\\\"x"));
}

TEST_F(RouterTest, AVerbBehindAPlaceholderIsPartOfThePattern) {
  router.add({"POST", "/v1/models/{model}:predict", &service, "", {}});
  router.add({"POST", "/v1/models/{model}/versions/{version}:predict", &service, "", {}});
  router.add({"GET", "/v1/models/{model}", &service, "", {}});
  EXPECT_EQ(get("POST", "/v1/models/a:predict"), "200 POST model=a version=");
  EXPECT_EQ(get("POST", "/v1/models/a:b%2Fc:predict"), "200 POST model=a:b/c version=");  // the last colon
  EXPECT_EQ(get("POST", "/v1/models/a/versions/2:predict"), "200 POST model=a version=2");
  EXPECT_EQ(get("GET", "/v1/models/a:tag"), "200 GET model=a:tag version=");  // no verb: the name's own colon
  EXPECT_EQ(get("GET", "/v1/models/a:predict").substr(0, 3), "405");
  EXPECT_EQ(get("POST", "/v1/models/:predict").substr(0, 3), "405");  // the name of a model
  EXPECT_EQ(get("POST", "/v1/models/a/versions/:predict").substr(0, 3), "404");
  EXPECT_EQ(get("POST", "/v1/models/a/versions/2:predit"),
            "404 {\"error\":\"no such path: /v1/models/a/versions/2:predit; did you mean "
            "/v1/models/a/versions/2:predict?\"}");
}

TEST_F(RouterTest, APlaceholderIsNearToNothing) {
  router.add({"POST", "/{any}", &service, "", {}});
  for (const char* one : {"/{any}/of/{these}", "/v3/models/{a}/{b}"}) router.add({"POST", one, &service, "", {}});
  for (auto path : {"/a/b", "/%zz", "/v2/models/mine/y", "/v2/models/mine/infer/x", "/x/ofx/", "/v4/models/a/b"})
    EXPECT_EQ(get("POST", path), std::string("404 {\"error\":\"no such path: ") + path + "\"}") << path;
  EXPECT_EQ(get("POST", "/a/off/b"), "404 {\"error\":\"no such path: /a/off/b; did you mean /a/of/b?\"}");
}

TEST_F(RouterTest, APathThatEndsWithASlashIsNotNearToALetterMore) {
  router.add({"GET", "/v2/", &service, "", {}});
  EXPECT_EQ(get("GET", "/v2/y"), "404 {\"error\":\"no such path: /v2/y\"}");
}

TEST_F(RouterTest, AnotherMethodIs405WithAllow) {
  FakeExchange x("DELETE", "/v2/models/stats");
  EXPECT_EQ(go(x).body, BodyPlan::kIgnore);
  EXPECT_EQ(x.response.status, 405);
  EXPECT_EQ(x.response.fields.find("allow"), "GET, POST, HEAD, OPTIONS");
  EXPECT_EQ(x.record().route, "/v2/models/stats");
  router.closed(x);
}

TEST_F(RouterTest, StreamsAreServedAtTheirHeadAndWholeBodiesWhenComplete) {
  FakeExchange stream("POST", "/stream"), whole("GET", "/v2");
  EXPECT_EQ(router.begin(stream).body, BodyPlan::kStream);
  EXPECT_TRUE(stream.ended);
  Plan plan = router.begin(whole);
  EXPECT_EQ(plan.body, BodyPlan::kWhole);
  EXPECT_EQ(plan.limit, 1000u);
  EXPECT_FALSE(whole.ended);
  router.whole(whole);
  EXPECT_TRUE(whole.ended);
  EXPECT_EQ(whole.record().protocol, "test");
  router.closed(whole);
  router.closed(stream);
  EXPECT_EQ(whole.match, nullptr);
}

TEST_F(RouterTest, TheFallbackTakesWhatItClaims) {
  Named last{{}};
  router.fallback(last, [](const Request& r) { return r.target.starts_with("/claimed"); }, "rpc", {});
  EXPECT_EQ(get("PUT", "/claimed/x"), "200 PUT");
  EXPECT_EQ(get("PUT", "/else").substr(0, 3), "404");
}

TEST_F(RouterTest, RequestIdsGoInAndOut) {
  FakeExchange theirs("GET", "/v2"), none("GET", "/v2"), evil("GET", "/v2");
  theirs.mutable_request().fields.add("x-request-id", "abc-1");
  evil.mutable_request().fields.add("x-request-id", "a b;c");
  for (auto* x : {&theirs, &none, &evil}) {
    x->record().began = base::kNever, go(*x);
    EXPECT_EQ(x->record().began, x->now()) << "where its codec has not said it";
    router.closed(*x);
  }
  EXPECT_EQ(theirs.response.fields.find("x-request-id"), "abc-1");
  EXPECT_EQ(none.response.fields.find("x-request-id"), none.record().request_id);
  EXPECT_EQ(none.record().request_id.size() + evil.record().request_id.size(), 32u);
  EXPECT_NE(evil.record().request_id, none.record().request_id);
}

TEST_F(RouterTest, TraceparentIsKeptWhenWellFormed) {
  FakeExchange good("GET", "/v2"), bad("GET", "/v2");
  std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  good.mutable_request().fields.add("traceparent", trace);
  bad.mutable_request().fields.add("traceparent", "00-zz");
  go(good);
  go(bad);
  EXPECT_EQ(good.record().traceparent, trace);
  EXPECT_EQ(good.response.fields.find("traceparent"), trace);
  EXPECT_EQ(bad.record().traceparent, "");
  router.closed(good);
  router.closed(bad);
}

TEST_F(RouterTest, CorsAnswersPreflightsOfAllowedOrigins) {
  FakeExchange good("OPTIONS", "/v2/models/a/infer"), bad("OPTIONS", "/v2/models/a/infer"), plain("GET", "/v2");
  for (auto* x : {&good, &bad}) {
    x->mutable_request().fields.add("access-control-request-method", "POST");
    x->mutable_request().fields.add("access-control-request-headers", "content-type");
  }
  good.mutable_request().fields.add("origin", "https://good.example");
  bad.mutable_request().fields.add("origin", "https://bad.example");
  plain.mutable_request().fields.add("origin", "https://good.example");
  for (auto* x : {&good, &bad, &plain}) go(*x), router.closed(*x);
  EXPECT_EQ(good.response.status, 204);
  EXPECT_EQ(good.response.fields.find("access-control-allow-origin"), "https://good.example");
  EXPECT_EQ(good.response.fields.find("access-control-allow-methods"), "POST");
  EXPECT_EQ(good.response.fields.find("access-control-allow-headers"), "content-type");
  EXPECT_FALSE(bad.response.fields.has("access-control-allow-origin"));
  EXPECT_FALSE(bad.response.fields.has("access-control-allow-methods"));
  EXPECT_EQ(plain.response.status, 200);
  EXPECT_EQ(plain.response.fields.find("vary"), "origin");
  const std::string exposed(plain.response.fields.find("access-control-expose-headers"));
  EXPECT_NE(exposed.find(", request-id"), exposed.npos) << "Anthropic's clients read it";
}

// A service that would answer anything, and words refusals itself.
struct OwnWords final : Service {
  int served = 0;
  void serve(Exchange& x, const PathArgs&) override {
    ++served;
    x.respond(200, "", {});
  }
  bool refuse(Exchange& x, const base::Status& why) override {
    x.respond(418, "", base::Bytes::adopt("no: " + why.text));
    return true;
  }
};

TEST_F(RouterTest, ARouteChangesStateUnlessItSaysThatItOnlyReads) {
  for (const Route* route : router.routes()) EXPECT_EQ(route->permission, Permission::kAdmin) << route->pattern;
  router.add({"GET", "/reads", &service, "test", Plan{BodyPlan::kIgnore}, Permission::kRead});
  auto foreign = [&](const char* method, const char* target) {
    FakeExchange x(method, target);
    x.mutable_request().fields.add("origin", "https://evil.example");
    service.last.clear();
    Plan plan = go(x);
    bool denied = x.response.status == 403;
    if (denied) {
      EXPECT_EQ(plan.body, BodyPlan::kIgnore);
      EXPECT_EQ(service.last, "");
    }
    EXPECT_EQ(x.record().reject, denied ? reason::kForeignPage : std::string_view());
    router.closed(x);
    return x.response.status;
  };
  EXPECT_EQ(foreign("GET", "/v2"), 403);
  EXPECT_EQ(foreign("HEAD", "/v2"), 403);
  EXPECT_EQ(foreign("POST", "/v2/models/a/infer"), 403);
  EXPECT_EQ(foreign("POST", "/stream"), 403);
  EXPECT_EQ(foreign("GET", "/reads"), 200);
  EXPECT_EQ(foreign("GET", "/nowhere"), 404);
  EXPECT_EQ(foreign("DELETE", "/v2"), 405);
}

TEST_F(RouterTest, WhatIsDeniedIsWordedByTheServiceElseByThePath) {
  OwnWords own;
  router.add({"POST", "/own", &own, "test", Plan{BodyPlan::kStream}});
  router.error_form("/v2/", [](Exchange& x, int status, std::string_view text) {
    x.respond(status, "", base::Bytes::adopt("form " + std::string(text)));
  });
  auto denied = [&](const char* target) {
    FakeExchange x("POST", target);
    x.mutable_request().fields.add("sec-fetch-site", "cross-site");
    EXPECT_EQ(go(x).body, BodyPlan::kIgnore);
    EXPECT_EQ(x.record().code, base::Code::kPermissionDenied);
    EXPECT_EQ(x.record().protocol, "test");
    EXPECT_NE(x.sent.find("cors.origins"), std::string::npos) << x.sent;
    router.closed(x);
    return std::to_string(x.response.status) + " " + x.sent.substr(0, 4);
  };
  EXPECT_EQ(denied("/own"), "418 no: ");
  EXPECT_EQ(denied("/v2/models/a/infer"), "403 form");
  EXPECT_EQ(denied("/stream"), "403 {\"er");
  EXPECT_EQ(own.served, 0);
}

TEST_F(RouterTest, AHostThatIsNotOursIsRefusedToBrowsersBeforeAnythingElse) {
  PeerInfo local{"127.0.0.1:5000", Security::kCleartext, false, Network::kLoopback, AdminMethods::kServed};
  router.add({"GET", "/reads", &service, "test", Plan{BodyPlan::kIgnore}, Permission::kRead});
  for (auto [method, target] : {std::pair("GET", "/reads"), {"GET", "/nowhere"}, {"OPTIONS", "/reads"}}) {
    FakeExchange x(method, target);
    x.mutable_request().peer = &local;
    x.mutable_request().authority = "rebound.example:8080";
    x.mutable_request().fields.add("user-agent", "Mozilla/5.0");
    go(x);
    EXPECT_EQ(x.response.status, 403) << target;
    EXPECT_EQ(x.record().reject, reason::kUntrustedHost);
    EXPECT_NE(x.sent.find("http.hosts"), std::string::npos) << x.sent;
    router.closed(x);
  }
}

TEST_F(RouterTest, ObserversHearOfEveryEnd) {
  struct : Observer {
    int finishes = 0;
    std::string reason;
    void finished(const Exchange& x) override { finishes += x.record().status != 0; }
    void rejected(std::string_view r, const PeerInfo&) override { reason = r; }
  } observer;
  router.observe(observer);
  get("GET", "/v2");
  get("GET", "/nowhere");
  router.rejected("host", {});
  EXPECT_EQ(observer.finishes, 2);
  EXPECT_EQ(observer.reason, "host");
}

TEST(RespondError, CarriesTheStatusIntoTheLedger) {
  FakeExchange x("GET", "/");
  respond_error(x, base::failure(base::Code::kResourceExhausted, "queue \"a\" is full"));
  EXPECT_EQ(x.response.status, 429);
  EXPECT_EQ(x.response.fields.find("retry-after"), "1");
  EXPECT_EQ(x.response.fields.find("content-length"), std::to_string(x.sent.size()));
  EXPECT_EQ(x.sent, "{\"error\":\"queue \\\"a\\\" is full\"}");
  EXPECT_EQ(x.record().code, base::Code::kResourceExhausted);
}

TEST(Request, QueryValuesAreDecoded) {
  Request r;
  r.target = "/p%20q?a=1&b=x%20y+z&c&b=2";
  EXPECT_EQ(r.path(), "/p%20q");
  EXPECT_EQ(r.query(), "a=1&b=x%20y+z&c&b=2");
  EXPECT_EQ(r.query_value("a"), "1");
  EXPECT_EQ(r.query_value("b"), "x y z");
  EXPECT_EQ(r.query_value("c"), "");
  EXPECT_EQ(r.query_value("d"), "");
}

TEST(FieldsOfAHead, AddSetFindAndRemove) {
  Fields f;
  f.add("a", "1");
  f.add("b", "");
  f.add("a", "2");
  EXPECT_EQ(f.find("a"), "1");
  EXPECT_TRUE(f.has("b"));
  EXPECT_FALSE(f.has("c"));
  EXPECT_EQ(f.bytes(), 3 * 32 + 5u);
  f.set("a", "3");
  EXPECT_EQ(f.size(), 2u);
  EXPECT_EQ(f.find("a"), "3");
  f.remove("b");
  EXPECT_EQ(f[0].name, "a");
  EXPECT_EQ(f[0].value, "3");
}

}  // namespace
}  // namespace weir::wire
