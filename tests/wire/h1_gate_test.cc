#include "wire/h1_gate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::wire {
namespace {

// The status with which a head is refused; 0 when it passes.
HeadError judge(std::string_view head, Head* out = nullptr, HeadText* text = nullptr) {
  static Head ignored;
  static HeadText unread;
  ignored = Head();
  unread.clear();
  HeadScan scan;
  HeadError refusal;
  Limits limits;
  size_t n = scan.advance(head, limits, &refusal);
  if (refusal) return refusal;
  EXPECT_EQ(n, head.size()) << head;
  return inspect_head(head, limits, out ? out : &ignored, text ? text : &unread);
}

std::string post(std::string fields) { return "POST /x HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n"; }

struct Case {
  const char* what;
  std::string head;
  int status;
  std::string_view reason;
};

TEST(H1Gate, RefusesWhatTwoPartiesCouldReadDifferently) {
  using namespace std::string_view_literals;
  const std::vector<Case> cases{
      {"CL then TE", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400, reason::kFramingTe},
      {"TE then CL", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400, reason::kFramingTe},
      {"TE.TE", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400, reason::kFramingTe},
      {"chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400, reason::kFramingTe},
      {"chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n"), 400, reason::kFramingTe},
      {"chunked, gzip", post("Transfer-Encoding: chunked, gzip\r\n"), 400, reason::kFramingTe},
      {"gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n"), 501, reason::kFramingTe},
      {"deflate, chunked", post("Transfer-Encoding: deflate;q=1 ,\tCHUNKED\r\n"), 501, reason::kFramingTe},
      {"gzip, chunked, gzip", post("Transfer-Encoding: gzip, chunked, gzip\r\n"), 400, reason::kFramingTe},
      {"gzip, chunked with CL", post("Transfer-Encoding: gzip, chunked\r\nContent-Length: 5\r\n"), 400,
       reason::kFramingTe},
      {"gzip, chunked on 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400,
       reason::kFramingTe},
      {"xchunked", post("Transfer-Encoding: xchunked\r\n"), 501, reason::kFramingTe},
      {"identity", post("Transfer-Encoding: identity\r\n"), 501, reason::kFramingTe},
      {"empty TE", post("Transfer-Encoding:\r\n"), 501, reason::kFramingTe},
      {"identity with CL", post("Transfer-Encoding: identity\r\nContent-Length: 5\r\n"), 400, reason::kFramingTe},
      {"quoted chunked", post("Transfer-Encoding: \"chunked\"\r\n"), 501, reason::kFramingTe},
      {"chunked with parameter", post("Transfer-Encoding: chunked;q=1\r\n"), 501, reason::kFramingTe},
      {"vertical tab before chunked",
       post("Transfer-Encoding: \x0b"
            "chunked\r\n"),
       400, reason::kParse},
      {"TE on 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400, reason::kFramingTe},
      {"blank before the colon of TE", post("Transfer-Encoding : chunked\r\n"), 400, reason::kParse},
      {"tab before the colon of TE", post("Transfer-Encoding\t: chunked\r\n"), 400, reason::kParse},
      {"leading blank on TE", post(" Transfer-Encoding: chunked\r\n"), 400, reason::kParse},
      {"underscore TE", post("Transfer_Encoding: chunked\r\n"), 400, reason::kParse},
      {"underscore CL", post("content_length: 5\r\n"), 400, reason::kParse},
      {"two equal CL", post("Content-Length: 5\r\nContent-Length: 5\r\n"), 400, reason::kFramingCl},
      {"two CL", post("Content-Length: 5\r\nContent-Length: 6\r\n"), 400, reason::kFramingCl},
      {"CL list", post("Content-Length: 5, 5\r\n"), 400, reason::kFramingCl},
      {"CL +5", post("Content-Length: +5\r\n"), 400, reason::kFramingCl},
      {"CL -5", post("Content-Length: -5\r\n"), 400, reason::kFramingCl},
      {"CL 0x5", post("Content-Length: 0x5\r\n"), 400, reason::kFramingCl},
      {"CL 0 5", post("Content-Length: 0 5\r\n"), 400, reason::kFramingCl},
      {"CL 0+5", post("Content-Length: 0+5\r\n"), 400, reason::kFramingCl},
      {"CL 2^63 behind zeros", post("Content-Length: 0009223372036854775808\r\n"), 400, reason::kFramingCl},
      {"CL 5_0", post("Content-Length: 5_0\r\n"), 400, reason::kFramingCl},
      {"CL 5 5", post("Content-Length: 5 5\r\n"), 400, reason::kFramingCl},
      {"CL 5.0", post("Content-Length: 5.0\r\n"), 400, reason::kFramingCl},
      {"CL empty", post("Content-Length:\r\n"), 400, reason::kFramingCl},
      {"CL 2^64", post("Content-Length: 18446744073709551616\r\n"), 400, reason::kFramingCl},
      {"CL 2^63", post("Content-Length: 9223372036854775808\r\n"), 400, reason::kFramingCl},
      {"obs-fold", post("X: a\r\n b\r\n"), 400, reason::kParse},
      {"obs-fold with a tab", post("X: a\r\n\tb\r\n"), 400, reason::kParse},
      {"folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, reason::kParse},
      {"bare LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400, reason::kParse},
      {"bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400, reason::kParse},
      {"bare LF empty line", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400, reason::kParse},
      {"bare CR in a value", post("X: a\rb\r\n"), 400, reason::kParse},
      {"CR CR LF", post("X: a\r\r\n"), 400, reason::kParse},
      {"NUL in a value", post(std::string("X: a\0b\r\n"sv)), 400, reason::kParse},
      {"NUL in a name", post(std::string("X\0: a\r\n"sv)), 400, reason::kParse},
      {"DEL in a value", post("X: a\x7f\r\n"), 400, reason::kParse},
      {"no colon", post("Xyz\r\n"), 400, reason::kParse},
      {"empty name", post(": a\r\n"), 400, reason::kParse},
      {"no Host", "GET / HTTP/1.1\r\n\r\n", 400, reason::kHost},
      {"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, reason::kHost},
      {"two Hosts on 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, reason::kHost},
      {"two empty Hosts", "GET / HTTP/1.1\r\nHost:\r\nHost:\r\n\r\n", 400, reason::kHost},
      {"absolute form, empty Host", "GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", 400, reason::kHost},
      {"Host with a path", "GET / HTTP/1.1\r\nHost: a/v1\r\n\r\n", 400, reason::kHost},
      {"Host with ?", "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", 400, reason::kHost},
      {"Host with #", "GET / HTTP/1.1\r\nHost: a#b\r\n\r\n", 400, reason::kHost},
      {"Host with userinfo", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, reason::kHost},
      {"Host with a backslash", "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n", 400, reason::kHost},
      {"Host with a blank", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, reason::kHost},
      {"Host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, reason::kHost},
      {"absolute form, other Host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kHost},
      {"absolute form, userinfo", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kHost},
      {"absolute form, no authority", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kHost},
      {"authority form", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"asterisk on GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501, reason::kParse},
      {"fragment in the target", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"high byte in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"backslash in the target", "GET /a\\b HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"control in the target", "GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"blank after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"tab in the request line", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"HTTP/0.9", "GET /\r\n\r\n", 400, reason::kParse},
      {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, reason::kParse},
      {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, reason::kParse},
      {"http/1.1", "GET / http/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"HTTP/01.1", "GET / HTTP/01.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"method with a colon", "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"a very long method", std::string(33, 'A') + " / HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason::kParse},
      {"other Expect", post("Expect: 200-ok\r\n"), 417, reason::kParse},
      {"Expect list", post("Expect: 100-continue, x\r\n"), 417, reason::kParse},
      {"a TLS hello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"sv), 400, reason::kParse},
  };
  for (const Case& c : cases) {
    HeadError refusal = judge(c.head);
    EXPECT_EQ(refusal.status, c.status) << c.what;
    EXPECT_EQ(refusal.reason, c.reason) << c.what;
    EXPECT_FALSE(refusal.text.empty()) << c.what;
  }
}

TEST(H1Gate, PassesOrdinaryHeads) {
  for (std::string head : {
           "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET /v2/models/a%2Fb?x=1&y={z} HTTP/1.1\r\nhost:localhost:8080\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: [::1]:8080\r\nX: \xc3\xa9\t\r\nEmpty:\r\n\r\n",
           "GET / HTTP/1.0\r\n\r\n",
           "GET / HTTP/1.1\r\nHost:\r\n\r\n",
           "GET / HTTP/1.0\r\nHost: \r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\n\r\n",
           "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET HTTP://A:80/x HTTP/1.1\r\nHost: a:80\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nx_y: 1\r\nExpect: 100-Continue\r\nContent-Length:  12 \r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:\tChunked \r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
           "AA\r\n\r\n",
       })
    EXPECT_FALSE(judge(head)) << head;
}

TEST(H1Gate, TellsWhatTheCodecNeeds) {
  Head h;
  EXPECT_FALSE(
      judge("PUT http://h:1?q HTTP/1.1\r\nHost: H:1\r\nContent-Length: 12\r\nTE: trailers\r\n"
            "Connection: x, Close\r\nExpect: 100-continue\r\n\r\n",
            &h));
  EXPECT_EQ(h.method, "PUT");
  EXPECT_EQ(h.target, "?q");
  EXPECT_EQ(h.host, "h:1");
  EXPECT_EQ(h.content_length, 12);
  EXPECT_TRUE(h.te_trailers && h.expect_continue && !h.keep_alive && !h.chunked);
  for (const char* thirteen : {"13", "013", "00000000000000000000000000000013"}) {
    Head zeros;
    HeadText text;
    EXPECT_FALSE(judge(post("Content-Length: " + std::string(thirteen) + "\r\n"), &zeros, &text)) << thirteen;
    EXPECT_EQ(zeros.content_length, 13);
    EXPECT_EQ(text.for_parser, "");  // a length that the gate has read needs no second opinion
    text.clear();
    EXPECT_FALSE(judge(post("Upgrade: x\r\nContent-Length: " + std::string(thirteen) + "\r\n"), &zeros, &text));
    EXPECT_EQ(text.for_parser, "POST /x HTTP/1.1\r\nUpgrade: x\r\nContent-Length: 13\r\n\r\n");
  }
  Head old;
  EXPECT_FALSE(judge("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nExpect: 100-continue\r\n\r\n", &old));
  EXPECT_TRUE(old.keep_alive);
  EXPECT_FALSE(old.expect_continue);
  Head both;
  EXPECT_FALSE(judge("GET / HTTP/1.0\r\nConnection: close\r\nConnection: Keep-Alive\r\n\r\n", &both));
  EXPECT_FALSE(both.keep_alive);
}

TEST(H1Gate, EachCharacterStandsWhereItMay) {
  const std::string token = "!#$%&'*+-.^_`|~";
  for (int c = 0; c < 256; ++c) {
    if (c == '\n') continue;  // ends the line
    const char at = char(c);
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool of_token = alnum || (c > 0 && c < 128 && token.find(at) != token.npos);
    const std::string rest = " /x HTTP/1.1\r\nHost: a\r\n\r\n";
    EXPECT_EQ(!judge(std::string("G") + at + "T" + rest), of_token) << "method " << c;
    EXPECT_EQ(!judge(post(std::string("x") + at + "y: 1\r\n")), of_token || c == ':') << "name " << c;
    EXPECT_EQ(!judge(std::string("GET /a") + at + "b HTTP/1.1\r\nHost: a\r\n\r\n"),
              c > 0x20 && c < 0x7f && c != '#' && c != '\\')
        << "target " << c;
    EXPECT_EQ(!judge(post(std::string("x: a") + at + "b\r\n")), c == '\t' || (c >= 0x20 && c != 0x7f)) << "value " << c;
  }
}

TEST(H1Gate, WhatIsBoundedMayBeAsLongAsItsBound) {
  const std::string rest = " / HTTP/1.1\r\nHost: a\r\n\r\n";
  EXPECT_FALSE(judge(std::string(32, 'A') + rest));
  EXPECT_EQ(judge(" / HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
  Head head;
  EXPECT_FALSE(judge(post("Content-Length: 999999999999999999\r\n"), &head));
  EXPECT_EQ(head.content_length, 999'999'999'999'999'999);
  EXPECT_EQ(judge(post("Content-Length: 1000000000000000000\r\n")).status, 400);
  for (const char* bad : {"/5", ":5", "5/", "5:"})
    EXPECT_EQ(judge(post("Content-Length: " + std::string(bad) + "\r\n")).status, 400);
  Limits limits;
  limits.header_fields = 2, limits.header_bytes = 40;
  auto scanned = [&](const std::string& text) {
    HeadScan scan;
    HeadError refusal;
    size_t n = scan.advance(text, limits, &refusal);
    return refusal ? refusal.status : int(n);
  };
  EXPECT_EQ(scanned("GET /\r\na: b\r\nc: d\r\n\r\n"), 21);
  EXPECT_EQ(scanned("GET /\r\na: b\r\nc: d\r\ne: f\r\n\r\n"), 431);
  const std::string longest = "GET /\r\na: " + std::string(26, 'x');  // 36 bytes, and the ends of two lines
  EXPECT_EQ(scanned(longest + "\r\n\r\n"), 40) << "the last line end is the 40th byte";
  EXPECT_EQ(scanned(longest + "x\r\n\r\n"), 431);
  EXPECT_EQ(scanned("GET /" + std::string(34, 'x')), 0);
  EXPECT_EQ(scanned("GET /" + std::string(35, 'x')), 414);
}

TEST(H1Gate, AnAbsoluteTargetGivesItsAuthority) {
  Head head;
  EXPECT_FALSE(judge("GET https://a:1/p?q HTTP/1.1\r\nHost: a:1\r\n\r\n", &head));
  EXPECT_EQ(head.target, "/p?q");
  EXPECT_EQ(head.host, "a:1");
  Head hostless;
  EXPECT_FALSE(judge("GET http://b/x HTTP/1.0\r\n\r\n", &hostless));
  EXPECT_EQ(hostless.host, "b");
  EXPECT_FALSE(hostless.keep_alive);
  EXPECT_EQ(judge("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
  EXPECT_EQ(judge("GET https:/a HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
  EXPECT_EQ(judge("OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
  Head plain;
  EXPECT_FALSE(judge(post("TE: gzip\r\nTE: trailers\r\nTE: deflate\r\n"), &plain));
  EXPECT_TRUE(plain.te_trailers && plain.keep_alive);
  EXPECT_FALSE(plain.expect_continue || plain.chunked);
}

TEST(H1Gate, AHeadMayComeInAnyPieces) {
  std::string head = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", more = head + "rest\n\n";
  HeadScan scan;
  HeadError refusal;
  for (size_t n = 0; n < head.size(); ++n) {
    EXPECT_EQ(scan.advance(std::string_view(more).substr(0, n), {}, &refusal), 0u);
    EXPECT_FALSE(refusal);
  }
  EXPECT_EQ(scan.advance(more, {}, &refusal), head.size());
}

TEST(H1Gate, AFloodIsNoticedBeforeItEnds) {
  HeadError refusal;
  HeadScan many, big, line;
  std::string head = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 101; ++i) head += "a: b\r\n";
  EXPECT_EQ(many.advance(head, {}, &refusal), 0u);
  EXPECT_EQ(refusal.status, 431);
  EXPECT_EQ(refusal.reason, reason::kHeaderCount);
  refusal = {};
  EXPECT_EQ(big.advance("GET / HTTP/1.1\r\nX: " + std::string(17000, 'x'), {}, &refusal), 0u);
  EXPECT_EQ(refusal.status, 431);
  EXPECT_EQ(refusal.reason, reason::kHeaderBytes);
  refusal = {};
  EXPECT_EQ(line.advance("GET /" + std::string(17000, 'x'), {}, &refusal), 0u);
  EXPECT_EQ(refusal.status, 414);
}

TEST(H1Gate, ABareLineFeedIsNoticedAtOnce) {
  HeadScan scan;
  HeadError refusal;
  EXPECT_EQ(scan.advance("GET / HTTP/1.1\n", {}, &refusal), 0u);
  EXPECT_EQ(refusal.status, 400);
}

TEST(H1Gate, ReadsTheFieldsAndLeavesTheParserWhatItActsOn) {
  Head head;
  HeadText text;
  EXPECT_FALSE(
      judge("POST /x?y HTTP/1.1\r\nHOST: a:1\r\nUser-Agent:me \t\r\nCONTENT-length: 5\r\nX-Empty:\r\n"
            "Connection: Keep-Alive\r\nuser-agent: you\r\nUpgrade: x\r\nProxy-Connection: close\r\n\r\n",
            &head, &text));
  std::string seen;
  for (size_t i = 0; i < text.fields.size(); ++i)
    seen += std::string(text.fields[i].name) + "=" + std::string(text.fields[i].value) + ";";
  EXPECT_EQ(seen,
            "host=a:1;user-agent=me;content-length=5;x-empty=;connection=Keep-Alive;user-agent=you;upgrade=x;"
            "proxy-connection=close;");
  EXPECT_EQ(text.for_parser,
            "POST /x?y HTTP/1.1\r\nUpgrade: x\r\nProxy-Connection: close\r\nContent-Length: 5\r\n\r\n");
  text.clear();
  EXPECT_FALSE(judge(post("Connection: Upgrade, close\r\n"), &head, &text));
  EXPECT_EQ(text.for_parser, "POST /x HTTP/1.1\r\nConnection: Upgrade, close\r\n\r\n");
  text.clear();
  EXPECT_FALSE(judge(post("Transfer-Encoding: chunked\r\n"), &head, &text));
  EXPECT_EQ(text.for_parser, "POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
}

}  // namespace
}  // namespace weir::wire
