// A URL of a client's: how it is read, which hosts and addresses it may name, and which responses are taken.
#include "net/fetch_policy.h"

#include <gtest/gtest.h>

#include "net/fetch_response.h"

namespace weir::net {
namespace {

// --- URLs ------------------------------------------------------------------------------------------------------------

std::string read(std::string_view text) {
  auto url = parse_url(text);
  if (!url) return "!" + url.error().text;
  return url->host + " " + std::to_string(url->port) + " " + url->target +
         (url->kind == Url::Host::kAddress ? " #" : "");
}

TEST(Url, IsReadIntoHostPortAndTarget) {
  EXPECT_EQ(read("http://Example.COM"), "example.com 80 /");
  EXPECT_EQ(read("HTTPS://a-b.example:8443/x/y?q=1#part"), "a-b.example 8443 /x/y?q=1");
  EXPECT_EQ(read("http://a?q"), "a 80 /?q");
  EXPECT_EQ(read("http://93.184.216.34/x"), "93.184.216.34 80 /x #");
  EXPECT_EQ(read("http://[2606:4700:0:0::1]:81/"), "2606:4700::1 81 / #");
  EXPECT_EQ(parse_url("https://[::1]:8443/")->authority(), "[::1]:8443");
  EXPECT_EQ(parse_url("https://a.example:443/")->authority(), "a.example");
}

TEST(Url, WhatTwoParsersCouldReadInTwoWaysIsRefused) {
  for (const char* text : {"http://user@host/",
                           "http://a:b@host/",
                           "http://good.example@127.0.0.1/",
                           "http://good.example\\@127.0.0.1/",
                           "http:\\\\127.0.0.1\\",
                           "http://127.0.0.1\\.good.example/",
                           "http:/host",
                           "http:host",
                           "//host/",
                           "http://",
                           "http:///x",
                           "http://:80/",
                           "http://a..b/",
                           "http://a./",
                           "http://-a/",
                           "http://%31%32%37.0.0.1/",
                           "http://127.1/",
                           "http://0x7f.1/",
                           "http://2130706433/",
                           "http://017700000001/",
                           "http://0177.0.0.1/",
                           "http://1.2.3.4.5/",
                           "http://1.2.3.256/",
                           "http://a.0x1/",
                           "http://127.0.0.1 /",
                           "http://ho st/",
                           "http://h\tx/",
                           "http://h\nx/",
                           "http://h/\r\nHost: x",
                           "http://\xe2\x91\xa0.example/",
                           "http://[::1/",
                           "http://[::1%25eth0]/",
                           "http://[::1]x/",
                           "http://::1/",
                           "http://a:0/",
                           "http://a:65536/",
                           "http://a:80x/",
                           "http://a:/",
                           "http://a:+80/",
                           "ftp://a/",
                           "gopher://a/",
                           "file:///etc/passwd",
                           "http://a/<x>",
                           "http://a/{x}"})
    EXPECT_EQ(read(text)[0], '!') << text;
  EXPECT_EQ(read("http://" + std::string(254, 'a') + "/")[0], '!');
  EXPECT_EQ(read("http://a/" + std::string(kLongestUrl, 'a'))[0], '!');
}

// --- hosts and addresses ---------------------------------------------------------------------------------------------

TEST(FetchPolicy, SchemesAreOffUntilTheyAreNamedAndHostsUntilTheyAreListed) {
  wire::FetchRules rules;
  EXPECT_TRUE(FetchPolicy::make(rules)->off());
  rules.schemes = {"https"};
  auto nothing = FetchPolicy::make(rules);
  EXPECT_FALSE(nothing->check(*parse_url("https://a.example/")).ok());
  rules.hosts = {"a.example", "*.b.example", "c.example:8443", "[2606:4700:0::1]", "1.2.3.4"};
  auto policy = FetchPolicy::make(rules);
  ASSERT_TRUE(policy);
  auto may = [&](const char* url) { return policy->check(*parse_url(url)).ok(); };
  EXPECT_TRUE(may("https://A.example/x"));
  EXPECT_FALSE(may("http://a.example/x")) << "another scheme";
  EXPECT_FALSE(may("https://a.example:8443/x")) << "another port";
  EXPECT_FALSE(may("https://xa.example/x"));
  EXPECT_TRUE(may("https://x.b.example/"));
  EXPECT_TRUE(may("https://x.y.b.example/"));
  EXPECT_FALSE(may("https://b.example/"));
  EXPECT_FALSE(may("https://xb.example/"));
  EXPECT_TRUE(may("https://c.example:8443/"));
  EXPECT_FALSE(may("https://c.example/"));
  EXPECT_TRUE(may("https://[2606:4700::1]/"));
  EXPECT_TRUE(may("https://1.2.3.4/"));
  rules.hosts = {"*"};
  EXPECT_TRUE(FetchPolicy::make(rules)->check(*parse_url("https://anything.example/")).ok());
  EXPECT_FALSE(FetchPolicy::make(rules)->check(*parse_url("https://anything.example:22/")).ok());
}

TEST(FetchPolicy, RulesThatMeanNothingAreRefused) {
  for (wire::FetchRules rules :
       {wire::FetchRules{.schemes = {"ftp"}}, wire::FetchRules{.hosts = {"a b"}},
        wire::FetchRules{.hosts = {"*x.example"}}, wire::FetchRules{.hosts = {"http://a.example"}},
        wire::FetchRules{.networks = {"10.0.0.0/33"}}, wire::FetchRules{.networks = {"host"}},
        wire::FetchRules{.networks = {"10.0.0.0/8x"}}})
    EXPECT_FALSE(FetchPolicy::make(rules));
}

Endpoint at(const char* address) {
  std::string text = address;
  return resolve(text.find(':') == text.npos ? text + ":80" : "[" + text + "]:80")->at(0);
}

TEST(FetchPolicy, OnlyPublicAddressesAndThoseThatAreGranted) {
  wire::FetchRules rules;
  rules.networks = {"10.1.0.0/16", "fd00:1::5"};
  auto policy = FetchPolicy::make(rules);
  ASSERT_TRUE(policy);
  for (const char* good : {"8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1",
                           "10.1.2.3", "fd00:1::5", "::ffff:8.8.8.8", "::ffff:10.1.0.1"})
    EXPECT_TRUE(policy->allows(at(good))) << good;
  for (const char* bad : {"127.0.0.1",
                          "127.255.0.1",
                          "0.0.0.0",
                          "10.0.0.1",
                          "10.2.0.1",
                          "172.16.0.1",
                          "172.31.255.255",
                          "192.168.1.1",
                          "169.254.169.254",
                          "100.64.0.1",
                          "100.100.100.200",
                          "168.63.129.16",
                          "192.0.0.192",
                          "192.0.2.1",
                          "192.88.99.1",
                          "198.18.0.1",
                          "198.19.255.255",
                          "198.51.100.1",
                          "203.0.113.1",
                          "224.0.0.1",
                          "239.255.255.255",
                          "240.0.0.1",
                          "255.255.255.255",
                          "::",
                          "::1",
                          "::ffff:127.0.0.1",
                          "::ffff:169.254.169.254",
                          "::127.0.0.1",
                          "64:ff9b::7f00:1",
                          "64:ff9b:1::1",
                          "100::1",
                          "2001::1",
                          "2001:db8::1",
                          "2002:7f00:1::1",
                          "3fff::1",
                          "5f00::1",
                          "fc00::1",
                          "fd00:ec2::254",
                          "fd00:1::6",
                          "fe80::1",
                          "fec0::1",
                          "ff02::1"})
    EXPECT_FALSE(policy->allows(at(bad))) << bad;
}

// --- answers ---------------------------------------------------------------------------------------------------------

// The body, or "!" and why not, however the bytes are cut.
std::string take(const std::string& bytes, size_t piece, uint64_t most = 100) {
  FetchResponse reply(most);
  for (size_t i = 0; i < bytes.size() && !reply.done(); i += piece)
    if (auto s = reply.feed(std::string_view(bytes).substr(i, piece)); !s.ok()) return "!" + s.text;
  if (auto s = reply.end(); !s.ok()) return "!" + s.text;
  return reply.body();
}
std::string take(const std::string& bytes) {
  std::string whole = take(bytes, bytes.size());
  for (size_t piece : {1, 2, 3, 7}) EXPECT_EQ(take(bytes, piece), whole) << bytes;
  return whole;
}

TEST(FetchResponse, BodiesAreTakenByLengthByChunkAndToTheEnd) {
  EXPECT_EQ(take("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more"), "hello");
  EXPECT_EQ(take("HTTP/1.1 200\r\ncontent-length:0\r\n\r\n"), "");
  EXPECT_EQ(take("HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), "hi");
  EXPECT_EQ(take("HTTP/1.0 200 OK\r\nContent-Encoding: identity\r\n\r\nall of it"), "all of it");
  EXPECT_EQ(
      take(
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4;x=y\r\nwiki\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n"),
      "wiki0123456789");
}

TEST(FetchResponse, WhatIsNotPlainlyAnAnswerIsRefused) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  for (const std::string& text : std::vector<std::string>{
           "SSH-2.0-x\r\n\r\n",
           "HTTP/2 200 OK\r\n\r\n",
           "HTTP/1.1 2xx\r\n\r\n",
           "HTTP/1.1 2000\r\n\r\n",
           "HTTP/1.1 204 No\r\n\r\n",
           "HTTP/1.1 206 Part\r\n\r\n",
           "HTTP/1.1 101 Switch\r\n\r\n",
           "HTTP/1.1 401 Who\r\n\r\n",
           "HTTP/1.1 -12 x\r\n\r\n",
           ok + "Content-Length: 5\r\n\r\nhell",
           ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
           ok + "Content-Length: +5\r\n\r\nhello",
           ok + "Content-Length: 5, 5\r\n\r\nhello",
           ok + "Content-Length: -1\r\n\r\n",
           ok + "Content-Length: 99999999999999999999\r\n\r\n",
           ok + "Content-Length: 101\r\n\r\n",
           ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
           ok + "Transfer-Encoding: gzip\r\n\r\n",
           ok + "Transfer-Encoding: chunked, gzip\r\n\r\n",
           ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi",
           ok + " folded: x\r\n\r\n",
           ok + "no colon\r\n\r\n",
           ok + "space : x\r\n\r\n",
           ok + ": x\r\n\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhixx0\r\n\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
           ok + "Transfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'x'),
           ok + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(300, 'x') + "\r\nx\r\n0\r\n\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + std::string(8000, 'x') + "\r\n\r\n",
           ok + "\r\n" + std::string(101, 'x'),
           ok + "X: " + std::string(20'000, 'x') + "\r\n\r\n",
           std::string(50'000, 'x'),
           "",
           "H"})
    EXPECT_EQ(take(text)[0], '!') << text.substr(0, 120);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(take(many)[0], '!') << "informational heads for ever";
}

TEST(FetchResponse, RedirectsAndMissingThingsAreNamed) {
  EXPECT_EQ(take("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n"),
            "!its server answers with status 302; redirects are not followed");
  FetchResponse reply(10);
  EXPECT_EQ(reply.feed("HTTP/1.1 404 Not Found\r\n\r\n").code, base::Code::kNotFound);
}

}  // namespace
}  // namespace weir::net
