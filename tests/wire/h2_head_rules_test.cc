// Heads of requests: well formed or not, as RFC 9113 has it, and as libnghttp2 has it where its own checks are on.
#include "wire/h2_head_rules.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace weir::wire {
namespace {

using Head = std::vector<std::pair<std::string, std::string>>;
using Block = H2HeadRules::Block;

bool well_formed(const Head& head, Block block = Block::kRequest) {
  H2HeadRules rules;
  rules.begin(block);
  for (const auto& [name, value] : head) rules.field(name, value);
  return rules.well_formed();
}

// A server of the library's own, which has its checks on. It says what it thinks of one head.
class Judge {
 public:
  Judge() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          static_cast<Judge*>(user)->passed_ |= frame->hd.type == NGHTTP2_HEADERS;
          return 0;
        });
    nghttp2_option* options = nullptr;
    nghttp2_option_new(&options);
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(options, 1);
    nghttp2_session_server_new2(&session_, callbacks, this, options);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry connect{NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1};
    nghttp2_submit_settings(session_, 0, &connect, 1);
    receive(std::string(NGHTTP2_CLIENT_MAGIC) + std::string("\0\0\0\4\0\0\0\0\0", 9));
  }
  ~Judge() { nghttp2_session_del(session_); }
  Judge(const Judge&) = delete;

  bool likes(const Head& head) {
    std::string block;
    for (const auto& [name, value] : head) block += '\0' + text(name) + text(value);
    const char size = char(block.size());
    passed_ = false;
    receive(std::string{0, char(block.size() >> 8), size, 1, 5, 0, 0, 0, 1} + block);
    return passed_;
  }

 private:
  static std::string text(const std::string& t) { return char(t.size()) + t; }
  void receive(const std::string& bytes) {
    ASSERT_EQ(nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
              ssize_t(bytes.size()));
  }

  nghttp2_session* session_ = nullptr;
  bool passed_ = false;
};

const Head kGet{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h:1"}};
const Head kConnect{{":method", "CONNECT"}, {":authority", "h:1"}};

Head with(Head head, const Head& more) {
  head.insert(head.end(), more.begin(), more.end());
  return head;
}
Head without(Head head, std::string_view name) {
  std::erase_if(head, [&](const auto& field) { return field.first == name; });
  return head;
}

struct Case {
  const char* what;
  Head head;
  bool good;
};

const std::vector<Case> kCases{
    {"a plain one", kGet, true},
    {"all kinds of fields", with(kGet, {{"te", "Trailers"}, {"x", ""}, {"y", " a\tb "}, {"host", "h"}}), true},
    {"Host alone", with(without(kGet, ":authority"), {{"host", "h"}}), true},
    {"neither", without(kGet, ":authority"), false},
    {"no method", without(kGet, ":method"), false},
    {"no scheme", without(kGet, ":scheme"), false},
    {"no path", without(kGet, ":path"), false},
    {"an empty path", with(without(kGet, ":path"), {{":path", ""}}), false},
    {"a path without its slash", with(without(kGet, ":path"), {{":path", "a"}}), false},
    {"a path with a space", with(without(kGet, ":path"), {{":path", "/a b"}}), false},
    {"* of GET", with(without(kGet, ":path"), {{":path", "*"}}), false},
    {"* of OPTIONS", {{":method", "OPTIONS"}, {":scheme", "HTTPS"}, {":path", "*"}, {":authority", "h"}}, true},
    {"a path of another scheme", {{":method", "GET"}, {":scheme", "x"}, {":path", "a"}, {":authority", "h"}}, true},
    {"no scheme's name", {{":method", "GET"}, {":scheme", "9"}, {":path", "/"}, {":authority", "h"}}, false},
    {"a method with a space", {{":method", "G T"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}}, false},
    {"a method twice", with(kGet, {{":method", "GET"}}), false},
    {"a pseudo field behind another", with({{"x", "1"}}, kGet), false},
    {"one of responses", with(kGet, {{":status", "200"}}), false},
    {"one that nobody knows", with(kGet, {{":x", "1"}}), false},
    {"a bare colon", with(kGet, {{":", "1"}}), false},
    {"no name", with(kGet, {{"", "1"}}), false},
    {"a name in capitals", with(kGet, {{"X", "1"}}), false},
    {"a name with a space", with(kGet, {{"a b", "1"}}), false},
    {"a name with a byte beyond ASCII", with(kGet, {{"\xc3\xa4", "1"}}), false},
    {"a line feed", with(kGet, {{"x", "1\n2"}}), false},
    {"a zero", with(kGet, {{"x", std::string("1\0", 2)}}), false},
    {"bytes beyond ASCII", with(kGet, {{"x", "\xc3\xa4\xff"}}), true},
    {"Host twice", with(kGet, {{"host", "h"}, {"host", "h"}}), false},
    {"an empty Host", with(kGet, {{"host", ""}}), false},
    {"Host with a slash", with(kGet, {{"host", "a/b"}}), false},
    {"connection", with(kGet, {{"connection", "close"}}), false},
    {"keep-alive", with(kGet, {{"keep-alive", "1"}}), false},
    {"proxy-connection", with(kGet, {{"proxy-connection", "close"}}), false},
    {"transfer-encoding", with(kGet, {{"transfer-encoding", "chunked"}}), false},
    {"upgrade", with(kGet, {{"upgrade", "websocket"}}), false},
    {"te: gzip", with(kGet, {{"te", "gzip"}}), false},
    {"te twice", with(kGet, {{"te", "trailers"}, {"te", "trailers"}}), true},
    {"a length", with(kGet, {{"content-length", "0"}}), true},
    {"a length twice", with(kGet, {{"content-length", "0"}, {"content-length", "0"}}), false},
    {"a length with a sign", with(kGet, {{"content-length", "-0"}}), false},
    {"a length with a space", with(kGet, {{"content-length", " 0"}}), false},
    {"an empty length", with(kGet, {{"content-length", ""}}), false},
    {"a length beyond all", with(kGet, {{"content-length", "9223372036854775808"}}), false},
    {"CONNECT", kConnect, true},
    {"CONNECT with a path", with(kConnect, {{":path", "/"}}), false},
    {"CONNECT with a scheme", with(kConnect, {{":scheme", "http"}}), false},
    {"CONNECT with a Host alone", {{":method", "CONNECT"}, {"host", "h"}}, false},
    {"a WebSocket", with(kConnect, {{":protocol", "websocket"}, {":scheme", "http"}, {":path", "/"}}), true},
    {"… without a path", with(kConnect, {{":protocol", "websocket"}, {":scheme", "http"}}), false},
    {"a protocol of GET", with(kGet, {{":protocol", "websocket"}}), false},
    {"a protocol of spaces", with(kConnect, {{":protocol", " "}, {":scheme", "http"}, {":path", "/"}}), false},
};

TEST(H2HeadRules, WhatAHeadMayBe) {
  for (const Case& c : kCases) {
    EXPECT_EQ(well_formed(c.head), c.good) << c.what;
    EXPECT_EQ(Judge().likes(c.head), c.good) << "libnghttp2 of " << c.what;
  }
}

// Heads that are put together at random, and mostly not right.
TEST(H2HeadRules, TheLibraryFindsTheSame) {
  const std::vector<std::string> names{
      ":method",          ":scheme", ":path", ":authority",     ":protocol", ":status", "host", "te",
      "connection",       "x",       "X",     "content-length", "upgrade",   "a b",     "",     ":",
      "transfer-encoding"};
  const std::vector<std::string> values{"GET", "CONNECT", "OPTIONS", "http",     "https", "*",
                                        "/",   "/a?b",    "h:1",     "0",        "-1",    "",
                                        " ",   "a b",     "\x7f",    "trailers", "A/b",   "\t0"};
  std::mt19937 random(20);
  auto any = [&](const std::vector<std::string>& of) { return of[random() % of.size()]; };
  int good = 0;
  for (int i = 0; i < 40'000; ++i) {
    Head head = random() % 4 == 0 ? kConnect : kGet;
    for (size_t changes = random() % 4; changes > 0; --changes) {
      std::pair<std::string, std::string> field{any(names), any(values)};
      const size_t at = head.empty() ? 0 : random() % (head.size() + 1);
      if (at < head.size() && random() % 2)
        head[at] = std::move(field);
      else
        head.insert(head.begin() + ssize_t(at), std::move(field));
    }
    std::string shown;
    for (const auto& [name, value] : head) shown += name + '=' + value + '\n';
    const bool liked = Judge().likes(head);
    ASSERT_EQ(well_formed(head), liked) << shown;
    good += liked;
  }
  EXPECT_GT(good, 5'000);
}

TEST(H2HeadRules, WhatTrailersMayBe) {
  EXPECT_TRUE(well_formed({}, Block::kTrailers));
  EXPECT_TRUE(well_formed({{"x-sum", "1"}}, Block::kTrailers));
  for (const Head& head : {kGet, Head{{"X", "1"}}, Head{{"connection", "close"}}, Head{{"te", "gzip"}},
                           Head{{"x", "1"}, {":path", "/"}}, Head{{"x", "\n"}}})
    EXPECT_FALSE(well_formed(head, Block::kTrailers));
}

TEST(H2HeadRules, ANewBlockIsJudgedForItself) {
  H2HeadRules rules;
  rules.begin(Block::kRequest);
  rules.field("X", "1");
  EXPECT_FALSE(rules.well_formed());
  rules.begin(Block::kTrailers);
  EXPECT_TRUE(rules.well_formed());
}

TEST(H2HeadRules, APriorityIsReadOrPassedOver) {
  auto read = [](const Head& more) {
    H2HeadRules rules;
    rules.begin(Block::kRequest);
    for (const auto& [name, value] : with(kGet, more)) rules.field(name, value);
    EXPECT_TRUE(rules.well_formed());
    auto found = rules.priority();
    return found ? std::to_string(found->urgency) + (found->inc ? "i" : "") : "none";
  };
  EXPECT_EQ(read({}), "none");
  EXPECT_EQ(read({{"priority", "u=1, i"}}), "1i");
  EXPECT_EQ(read({{"priority", "i=?0,u=7;x=1"}}), "7");
  EXPECT_EQ(read({{"priority", "x=\"a\", i"}}), "3i");
  EXPECT_EQ(read({{"priority", "u=0"}, {"priority", "i"}}), "0i");
  EXPECT_EQ(read({{"priority", "u=8"}}), "none");
  EXPECT_EQ(read({{"priority", "i=1"}}), "none");
}

}  // namespace
}  // namespace weir::wire
