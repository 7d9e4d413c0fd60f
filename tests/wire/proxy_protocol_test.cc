#include "wire/proxy_protocol.h"

#include <gtest/gtest.h>

#include "support/split_feed.h"

namespace weir::wire {
namespace {

using State = ProxyHeader::State;

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);

std::string v2(char command, char family, std::string body) {
  return kSignature + command + family + char(body.size() >> 8) + char(body.size() & 0xff) + body;
}
std::string tcp4() { return std::string("\xc0\x00\x02\x01\x0a\x00\x00\x01\x13\x88\x1f\x90", 12); }  // 192.0.2.1:5000
std::string tcp6() {
  std::string ip("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01", 16);
  return ip + ip + std::string("\x13\x88\x1f\x90", 4);
}

struct Parsed {
  State state = State::kMore;
  std::string client, rest;
};
Parsed parse(const std::string& bytes, size_t step) {
  ProxyHeader header;
  Parsed out;
  support::feed_in_pieces(bytes, step, [&](std::span<const std::byte> in) {
    if (out.state == State::kMore) out.state = header.feed(in);
    if (out.state != State::kMore) out.rest.append(reinterpret_cast<const char*>(in.data()), in.size());
  });
  out.client = header.client();
  return out;
}

TEST(ProxyHeader, NothingIsTakenBehindItsEnd) {
  ProxyHeader header;
  std::span<const std::byte> none;
  EXPECT_EQ(header.feed(none), State::kMore);
  const std::string line = "PROXY UNKNOWN\r\n", more = "PROXY TCP4 192.0.2.1 10.0.0.1 5000 8080\r\n";
  auto in = std::as_bytes(std::span(line));
  EXPECT_EQ(header.feed(in), State::kDone);
  in = std::as_bytes(std::span(more));
  EXPECT_EQ(header.feed(in), State::kDone);
  EXPECT_EQ(in.size(), more.size());
  EXPECT_EQ(header.feed(none), State::kDone);
}

TEST(ProxyHeader, NamesTheClientHoweverItIsCut) {
  struct Case {
    std::string header, client;
  };
  const Case cases[] = {
      {"PROXY TCP4 192.0.2.1 10.0.0.1 5000 8080\r\n", "192.0.2.1:5000"},
      {"PROXY TCP6 2001:db8::1 ::1 5000 8080\r\n", "[2001:db8::1]:5000"},
      {"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:10.0.0.1 5000 8080\r\n", "192.0.2.1:5000"},  // of a dual-stack listener
      {"PROXY TCP6 ::ffff:c000:201 2001:db8::2 5000 8080\r\n", "192.0.2.1:5000"},
      {"PROXY UNKNOWN\r\n", ""},
      {"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", ""},
      {v2(0x21, 0x11, tcp4()), "192.0.2.1:5000"},
      {v2(0x21, 0x21, tcp6()), "[2001:db8::1]:5000"},
      {v2(0x21, 0x11, tcp4() + std::string(300, 't')), "192.0.2.1:5000"},  // with TLVs
      {v2(0x20, 0x11, tcp4()), ""},                                        // LOCAL
      {v2(0x20, 0x00, ""), ""},
      {v2(0x21, 0x00, std::string(40, 'x')), ""},   // UNSPEC
      {v2(0x21, 0x31, std::string(216, 'x')), ""},  // unix
      {v2(0x21, 0x12, tcp4()), ""},                 // UDP
      {v2(0x21, 0x11, tcp4() + std::string(4096 - 12, 't')), "192.0.2.1:5000"},
  };
  for (const auto& c : cases)
    support::for_each_split(c.header + "GET / HTTP/1.1\r\n", [&](size_t step) {
      auto got = parse(c.header + "GET / HTTP/1.1\r\n", step);
      EXPECT_EQ(got.state, State::kDone) << step;
      EXPECT_EQ(got.client, c.client);
      EXPECT_EQ(got.rest, "GET / HTTP/1.1\r\n");
    });
}

TEST(ProxyHeader, WhatIsNoHeaderIsBadAsSoonAsThatIsKnown) {
  const std::string cases[] = {
      "GET / HTTP/1.1\r\n",
      "PROXY TCP4 192.0.2.1 10.0.0.1 5000\r\n",
      "PROXY TCP4 192.0.2.1 10.0.0.1 5000 8080\n",
      "PROXY TCP4 192.0.2.1 10.0.0.1 5000 70000\r\n",
      "PROXY TCP4 192.0.2.1 10.0.0.1 -1 80\r\n",
      "PROXY TCP4 2001:db8::1 ::1 5000 8080\r\n",
      "PROXY TCP6 192.0.2.1 10.0.0.1 5000 8080\r\n",
      "PROXY TCP4 ::ffff:192.0.2.1 10.0.0.1 5000 8080\r\n",
      "PROXY TCP4 192.0.2.1  10.0.0.1 5000 8080\r\n",
      "PROXY TCP5 192.0.2.1 10.0.0.1 5000 8080\r\n",
      "PROXY TCP4 a.example 10.0.0.1 5000 8080\r\n",
      "PROXY TCP4 192.0.2.1 10.0.0.1 5000 8080" + std::string(80, ' '),
      "PROXY UNKNOWN" + std::string(200, 'x') + "\r\n",
      v2(0x11, 0x11, tcp4()),                // version 1 in binary
      v2(0x22, 0x11, tcp4()),                // an unknown command
      v2(0x21, 0x11, tcp4().substr(0, 11)),  // too short for its family
      v2(0x21, 0x21, tcp4()),
      v2(0x21, 0x11, tcp4() + std::string(4097 - 12, 't')),  // one octet more than is taken
      std::string("\r\n\r\n\0\r\nQUIT\r", 12),
      "\x16\x03\x01",
  };
  for (const auto& bytes : cases)
    support::for_each_split(bytes, [&](size_t step) { EXPECT_EQ(parse(bytes, step).state, State::kBad) << bytes; });
  EXPECT_EQ(parse("G", 1).state, State::kBad);
  EXPECT_EQ(parse("PRO", 1).state, State::kMore);
}

TEST(ProxyHeader, APortIsANumberOfSixteenBits) {
  for (auto [port, good] : {std::pair("0", true), {"65535", true}, {"65536", false}, {"", false}, {"1x", false}}) {
    EXPECT_EQ(parse("PROXY TCP4 192.0.2.1 10.0.0.1 " + std::string(port) + " 8080\r\n", 1).state,
              good ? State::kDone : State::kBad)
        << port;
    EXPECT_EQ(parse("PROXY TCP4 192.0.2.1 10.0.0.1 5000 " + std::string(port) + "\r\n", 1).state,
              good ? State::kDone : State::kBad)
        << port;
  }
  EXPECT_EQ(parse(v2(0x21, 0x11, std::string("\xff\0\x80\x01\x0a\0\0\x01\x01\x02\x1f\x90", 12)), 1).client,
            "255.0.128.1:258");
}

TEST(ProxyHeader, OfV1TheLongestIsTaken) {
  std::string ip = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
  std::string longest = "PROXY TCP6 " + ip + ' ' + ip + " 65535 65535\r\n";
  EXPECT_EQ(longest.size(), 104u);
  EXPECT_EQ(parse(longest, 1).client, '[' + ip + "]:65535");
  std::string unknown = "PROXY UNKNOWN " + ip + ' ' + ip + " 65535 65535\r\n";
  EXPECT_EQ(unknown.size(), ProxyHeader::kLongestV1);
  EXPECT_EQ(parse(unknown, 1).state, State::kDone);
  EXPECT_EQ(parse("PROXY UNKNOWN  " + ip + ' ' + ip + " 65535 65535\r\n", 1).state, State::kBad);
}

}  // namespace
}  // namespace weir::wire
