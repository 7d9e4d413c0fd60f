#include "wire/access.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::wire {
namespace {

using Headers = std::vector<std::pair<std::string_view, std::string_view>>;

constexpr auto kChrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120 Safari/537.36";

struct AccessTest : testing::Test {
  PeerInfo remote{"192.0.2.7:5000", Security::kCleartext, false, Network::kOther, AdminMethods::kServed};
  PeerInfo local{"127.0.0.1:5000", Security::kCleartext, false, Network::kLoopback, AdminMethods::kServed};
  std::vector<std::string> origins, hosts;

  std::string check(const PeerInfo& peer, std::string host, const Headers& headers, Permission permission,
                    std::string method = "POST") {
    Request request;
    request.method = std::move(method);
    request.authority = std::move(host);
    request.peer = &peer;
    for (auto [name, value] : headers) request.fields.add(name, value);
    auto denial = AccessRules({origins}, {hosts}).check(request, permission);
    if (!denial) return "";
    EXPECT_EQ(denial->status.code, base::Code::kPermissionDenied);
    return std::string(denial->reason) + ": " + denial->status.text;
  }
  bool admits(const Headers& headers, Permission permission = Permission::kInfer, std::string method = "POST") {
    return check(local, "localhost:8080", headers, permission, std::move(method)).empty();
  }
};

TEST_F(AccessTest, WhatIsNoBrowserGoesOnWhateverItAsksFor) {
  for (auto permission : {Permission::kRead, Permission::kInfer, Permission::kAdmin})
    for (const auto* peer : {&remote, &local})
      for (const char* method : {"GET", "POST", "DELETE"}) {
        EXPECT_EQ(check(*peer, "weir.example", {}, permission, method), "");
        EXPECT_EQ(check(*peer, "weir.example", {{"user-agent", "curl/8"}, {"content-type", "text/plain"}}, permission,
                        method),
                  "");
        // Node's fetch sends two of a browser's fields, and none that says where a page is from.
        EXPECT_EQ(
            check(*peer, "weir.example", {{"user-agent", "node"}, {"sec-fetch-mode", "cors"}, {"accept-language", "*"}},
                  permission, method),
            "");
      }
}

TEST_F(AccessTest, AForeignPageOnlyReads) {
  const Headers foreign[] = {
      {{"origin", "https://evil.example"}},
      {{"origin", "null"}},
      {{"origin", "http://localhost:3000"}},
      {{"origin", "http://localhost:8080.evil.example"}},
      {{"origin", "http://localhost"}},
      {{"origin", "https://evil.example"}, {"sec-fetch-site", "cross-site"}},
      {{"origin", "https://evil.example"}, {"sec-fetch-site", "same-origin"}},
      {{"sec-fetch-site", "cross-site"}},
      {{"sec-fetch-site", "same-site"}},
      {{"sec-fetch-site", "Same-Origin"}},
      {{"sec-fetch-site", ""}},
      {{"origin", ""}},
      {{"origin", "http://localhost:8080"}, {"sec-fetch-site", "cross-site"}},
      {{"referer", "http://evil.example/page"}},
  };
  for (const auto& headers : foreign) {
    std::string shown = headers.size() == 1 ? std::string(headers[0].second) : "two of them";
    for (const char* method : {"GET", "HEAD", "POST"}) {
      EXPECT_FALSE(admits(headers, Permission::kInfer, method)) << shown;
      EXPECT_FALSE(admits(headers, Permission::kAdmin, method)) << shown;
      EXPECT_TRUE(admits(headers, Permission::kRead, method)) << shown;
    }
  }
  EXPECT_EQ(check(local, "localhost:8080", foreign[0], Permission::kInfer),
            "foreign_page: pages of origin 'https://evil.example' may not call this: list the origin in cors.origins");
  EXPECT_EQ(check(local, "localhost:8080", foreign[7], Permission::kInfer),
            "foreign_page: pages of other origins may not call this (sec-fetch-site: cross-site), unless their request "
            "names an origin that cors.origins lists");
}

TEST_F(AccessTest, TheServersOwnPagesAndTheAddressBarGoOn) {
  for (auto permission : {Permission::kInfer, Permission::kAdmin})
    for (const char* method : {"GET", "POST"}) {
      EXPECT_TRUE(admits({{"origin", "http://localhost:8080"}, {"sec-fetch-site", "same-origin"}}, permission, method));
      EXPECT_TRUE(admits({{"origin", "http://LOCALHOST:8080"}}, permission, method));
      EXPECT_TRUE(admits({{"sec-fetch-site", "same-origin"}, {"user-agent", kChrome}}, permission, method));
      EXPECT_TRUE(admits({{"sec-fetch-site", "none"}, {"user-agent", kChrome}}, permission, method));
      EXPECT_TRUE(admits({{"referer", "http://localhost:8080/docs"}}, permission, method));
    }
}

TEST_F(AccessTest, ListedOriginsGoOn) {
  origins = {"https://app.example"};
  for (const char* site : {"cross-site", "same-site"})
    EXPECT_TRUE(admits({{"origin", "https://app.example"}, {"sec-fetch-site", site}}));
  EXPECT_FALSE(admits({{"origin", "https://app.example.evil.example"}}));
  EXPECT_FALSE(admits({{"origin", "http://app.example"}}));
  EXPECT_TRUE(admits({{"referer", "https://app.example/x"}}));
  origins = {"*"};
  EXPECT_TRUE(admits({{"origin", "https://evil.example"}, {"sec-fetch-site", "cross-site"}}));
}

TEST_F(AccessTest, AnOriginIsTheHostsWithoutTheUsualPort) {
  Request request;
  request.peer = &remote;
  request.authority = "weir.example";
  EXPECT_TRUE(is_own_origin("http://weir.example", request));
  EXPECT_TRUE(is_own_origin("https://weir.example", request)) << "a proxy may end TLS";
  EXPECT_TRUE(is_own_origin("https://weir.example:443", request));
  EXPECT_FALSE(is_own_origin("https://weir.example:8443", request));
  request.authority = "weir.example:443";
  EXPECT_TRUE(is_own_origin("https://weir.example", request));
  EXPECT_FALSE(is_own_origin("http://weir.example", request));
  PeerInfo tls = remote;
  tls.security = Security::kTls;
  request.peer = &tls;
  request.authority = "weir.example:8443";
  EXPECT_TRUE(is_own_origin("https://weir.example:8443", request));
  EXPECT_FALSE(is_own_origin("http://weir.example:8443", request));
  EXPECT_FALSE(is_own_origin("null", request));
  request.authority = "[::1]:8080";
  request.peer = &remote;
  EXPECT_TRUE(is_own_origin("http://[::1]:8080", request));
  EXPECT_FALSE(is_own_origin("http://[::1]", request));
}

TEST_F(AccessTest, ABrowserThatSaysNothingOfThePageDoesNotChangeTheServerByGet) {
  Headers silent{{"user-agent", kChrome}};
  EXPECT_FALSE(admits(silent, Permission::kAdmin, "GET"));
  EXPECT_FALSE(admits(silent, Permission::kAdmin, "HEAD"));
  EXPECT_TRUE(admits(silent, Permission::kAdmin, "POST")) << "with POST they always say";
  EXPECT_TRUE(admits(silent, Permission::kInfer, "GET"));
  EXPECT_TRUE(admits(silent, Permission::kRead, "GET"));
}

TEST_F(AccessTest, OverLoopbackABrowserAsksForALoopbackName) {
  Headers rebound{{"user-agent", kChrome}};
  for (const char* host : {"localhost", "localhost:8080", "LocalHost.", "a.localhost:1", "127.0.0.1:8080", "127.1.2.3",
                           "[::1]:8080", "[::1]"})
    EXPECT_EQ(check(local, host, rebound, Permission::kRead, "GET"), "") << host;
  for (const char* host :
       {"evil.example:8080", "evil.example", "127.0.0.1.evil.example", "127.evil.example", "127.0.0.256", "127.0.0",
        "1270.0.0.1", "0.0.0.0:8080", "notlocalhost", "localhost.evil.example", "192.168.1.5", "[::2]", "[::1].x", ""})
    EXPECT_EQ(check(local, host, rebound, Permission::kRead, "GET"),
              "untrusted_host: browsers may not ask for host '" + std::string(host) +
                  "' here: list it in http.hosts if it is this server's");
  EXPECT_EQ(check(local, "evil.example", {{"origin", "http://evil.example"}}, Permission::kRead).substr(0, 14),
            "untrusted_host");
  EXPECT_EQ(check(local, "evil.example", {{"sec-fetch-site", "same-origin"}}, Permission::kRead).substr(0, 14),
            "untrusted_host");
  EXPECT_EQ(check(remote, "evil.example", rebound, Permission::kRead, "GET"), "") << "no loopback";
}

TEST_F(AccessTest, NamesOfTheServersOwnAreListed) {
  hosts = {"weir.example", "*.b.example", "c.example:8443"};
  Headers browser{{"user-agent", kChrome}};
  for (const auto* peer : {&local, &remote}) {
    for (const char* host : {"weir.example", "WEIR.example:8080", "x.b.example", "x.y.b.example:1", "c.example:8443"})
      EXPECT_EQ(check(*peer, host, browser, Permission::kRead), "") << host;
    for (const char* host : {"x.weir.example", "b.example", ".b.example", "c.example", "c.example:80", "evil.example"})
      EXPECT_NE(check(*peer, host, browser, Permission::kRead), "") << host;
  }
  EXPECT_EQ(check(local, "localhost", browser, Permission::kRead), "");
  EXPECT_NE(check(remote, "localhost", browser, Permission::kRead), "") << "not over loopback, and not listed";
  hosts = {"*"};
  EXPECT_EQ(check(local, "any.example", browser, Permission::kRead), "");
}

TEST_F(AccessTest, AdminMethodsAreServedWhereTheyAre) {
  PeerInfo outside = local;
  outside.admin = AdminMethods::kElsewhere;
  EXPECT_EQ(check(outside, "localhost", {}, Permission::kAdmin),
            "admin_listener: admin methods are served at admin.listen");
  EXPECT_EQ(check(outside, "localhost", {}, Permission::kInfer), "");
  EXPECT_EQ(check(outside, "localhost", {}, Permission::kRead), "");
  EXPECT_EQ(check(local, "localhost", {}, Permission::kAdmin), "");
}

}  // namespace
}  // namespace weir::wire
