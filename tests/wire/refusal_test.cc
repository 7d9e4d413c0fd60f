// Bodies that a codec refuses once the route is known, and what a service throws: the answer is worded as the protocol
// of the route words errors.
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/h2_client.h"
#include "support/routed_exchange.h"
#include "wire/router.h"

namespace weir::test {
namespace {

using base::Bytes;
using wire::BodyPlan;
using wire::Exchange;

struct Never final : wire::Service {
  void serve(Exchange& x, const wire::PathArgs&) override { x.respond(200, "text/plain", Bytes::constant("served")); }
};

// Routes whose protocols have forms of their own, by the path or by the route, and one whose has none.
struct Routes {
  explicit Routes(base::Env& env) : router(env) {
    router.add({"POST", "/own/x", &never, "own", {BodyPlan::kWhole, 10, "own.max_body"}, wire::Permission::kRead});
    router.add({"POST", "/own/other", &never, "other", {BodyPlan::kWhole, 10}, wire::Permission::kRead});
    router.add({"POST", "/plain", &never, "plain", {BodyPlan::kWhole, 10}, wire::Permission::kRead});
    router.error_form("/own/", [](Exchange& x, int status, std::string_view text) {
      x.respond(status, "text/plain", Bytes::adopt("own: " + std::string(text)));
    });
    router.error_form_of("other", [](Exchange& x, int status, std::string_view text) {
      x.respond(status, "text/plain", Bytes::adopt("other: " + std::string(text)));
    });
  }
  Never never;
  wire::Router router;
};

struct Case {
  const char* path;
  const char* coding;  // or null
  std::string body;
  std::string_view status, answer;
};
const Case kCases[] = {
    {"/own/x", nullptr, "0123456789", "200", "served"},
    {"/own/x", nullptr, "0123456789a", "413",
     "own: the request body is larger than the limit of 10 bytes (own.max_body)"},
    {"/own/x", "br", "x", "415", "own: unknown Content-Encoding; gzip and deflate are supported"},
    {"/own/x", "gzip", "not gzip", "400", "own: the request body is not in its Content-Encoding"},
    {"/own/other", nullptr, "0123456789a", "413", "other: the request body is larger than the limit of 10 bytes"},
    {"/plain", nullptr, "0123456789a", "413", R"({"error":"the request body is larger than the limit of 10 bytes"})"},
};

TEST(RefusedBody, OverHttp1IsInTheProtocolsForm) {
  for (const Case& one : kCases)
    for (bool chunked : {false, true}) {
      support::FakeWire wire;
      support::FakeSlabs slabs;
      wire::Limits limits;
      const wire::PeerInfo peer{"127.0.0.1:1"};
      Routes routes(wire.env);
      const wire::CodecEnv env{routes.router, slabs, limits};
      auto h1 = wire::make_h1(env, wire, peer);
      std::string request = std::string("POST ") + one.path + " HTTP/1.1\r\nHost: a\r\n";
      if (one.coding) request += std::string("Content-Encoding: ") + one.coding + "\r\n";
      if (chunked)
        request += "Transfer-Encoding: chunked\r\n\r\n" + std::string(1, "0123456789ab"[one.body.size()]) + "\r\n" +
                   one.body + "\r\n0\r\n\r\n";
      else
        request += "Content-Length: " + std::to_string(one.body.size()) + "\r\n\r\n" + one.body;
      support::feed(*h1, request);
      const std::string out = support::take_output(*h1);
      EXPECT_EQ(out.substr(9, 3), one.status) << out;
      EXPECT_TRUE(out.ends_with("\r\n\r\n" + std::string(one.answer))) << out;
    }
}

TEST(RefusedBody, OverHttp2IsInTheProtocolsForm) {
  for (const Case& one : kCases)
    for (bool declared : {false, true}) {
      Server s;
      Routes routes(s.wire.env);
      s.restart({routes.router, s.slabs, s.limits});
      Client c;
      Headers head{{":method", "POST"}, {":scheme", "http"}, {":path", one.path}, {":authority", "h"}};
      if (one.coding) head.emplace_back("content-encoding", one.coding);
      if (declared) head.emplace_back("content-length", std::to_string(one.body.size()));
      const int32_t id = c.request(head, one.body);
      c.talk(s);
      EXPECT_EQ(c[id].status(), one.status);
      EXPECT_EQ(c[id].body, one.answer);
      EXPECT_EQ(c[id].field("accept-encoding"), one.status == "415" ? "gzip, deflate" : "");
      s.codec.reset();
    }
}

TEST(Thrown, IsInTheProtocolsForm) {
  struct Thrower final : wire::Service {
    bool memory = false;
    void serve(Exchange&, const wire::PathArgs&) override {
      if (memory) throw std::bad_alloc();
      throw std::runtime_error("at 0xdeadbeef");
    }
  } thrower;
  support::FakeWire wire;
  Routes routes(wire.env);
  for (const char* path : {"/own/thrower", "/thrower"})
    routes.router.add({"POST", path, &thrower, "own", {BodyPlan::kWhole, 10}, wire::Permission::kRead});
  const auto answer = [&](const char* path) {
    support::RoutedExchange x(new support::FakeExchange("POST", path), {&routes.router});
    routes.router.begin(*x);
    routes.router.whole(*x);
    return std::to_string(x->response.status) + " " + x->sent;
  };
  EXPECT_EQ(answer("/own/thrower"), "500 own: internal error");
  EXPECT_EQ(answer("/thrower"), R"(500 {"error":"internal error"})");
  thrower.memory = true;
  EXPECT_EQ(answer("/own/thrower"), "503 own: out of memory; try again later");
}

// gRPC's clients read no body.
TEST(RefusedBody, OfGrpcIsItsOwn) {
  Server s;
  Routes routes(s.wire.env);
  s.restart({routes.router, s.slabs, s.limits});
  Client c;
  const int32_t id = c.request({{":method", "POST"},
                                {":scheme", "http"},
                                {":path", "/own/x"},
                                {":authority", "h"},
                                {"content-type", "application/grpc"}},
                               "0123456789a");
  c.talk(s);
  EXPECT_EQ(c[id].field("grpc-status"), "8");
  EXPECT_EQ(c[id].body, "");
  s.codec.reset();
}

}  // namespace
}  // namespace weir::test
