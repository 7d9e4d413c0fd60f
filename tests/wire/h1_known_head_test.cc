// A head that comes again is not read again: what services see of it, and how it ends, must be the same as ever.
#include "h1_fixture.h"

namespace weir::wire {
namespace {

std::string head(std::string_view method, std::string_view fields) {
  return std::string(method) + " /v2?x=1 HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}
const std::string kPost = head("POST", "X-Key: one\r\nContent-Length: 3\r\n");

TEST(H1KnownHead, EachRequestIsSeenAsTheFirstWas) {
  Conn c;
  for (std::string_view body : {"abc", "def", "ghi", "jkl"}) EXPECT_EQ(c.talk(kPost + std::string(body)), kOk);
  ASSERT_EQ(c.intake.seen.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const auto& seen = c.intake.seen[i];
    EXPECT_EQ(seen.method + " " + seen.target + " " + seen.authority, "POST /v2?x=1 a");
    EXPECT_EQ(seen.fields, c.intake.seen[0].fields);
    EXPECT_EQ(seen.content_length, 3);
    EXPECT_EQ(seen.body, std::vector<std::string>({"abc", "def", "ghi", "jkl"})[i]);
  }
  EXPECT_TRUE(c.h1->idle());
}

TEST(H1KnownHead, PipelinedAndInPieces) {
  Conn c;
  std::string all;
  for (int i = 0; i < 6; ++i) all += kPost + "abc";
  std::string out = c.talk(all);
  for (char byte : all) c.feed({&byte, 1}), out += c.out();
  std::string expected;
  for (int i = 0; i < 12; ++i) expected += kOk;
  EXPECT_EQ(out, expected);
  ASSERT_EQ(c.intake.seen.size(), 12u);
  for (const auto& seen : c.intake.seen) EXPECT_EQ(seen.fields, c.intake.seen[0].fields);
}

// Begins as the known one does, and goes on otherwise.
TEST(H1KnownHead, AnotherHeadIsReadAnew) {
  Conn c;
  for (int i = 0; i < 3; ++i) c.talk(kPost + "abc");
  c.talk(head("POST", "X-Key: one\r\nContent-Length: 33\r\n") + std::string(33, 'x'));
  c.talk(head("POST", "X-Key: two\r\nContent-Length: 3\r\n") + "abc");
  c.talk(head("GET", ""));
  c.talk(kPost + "abc");
  ASSERT_EQ(c.intake.seen.size(), 7u);
  EXPECT_EQ(c.intake.seen[3].content_length, 33);
  EXPECT_EQ(c.intake.seen[3].body.size(), 33u);
  EXPECT_EQ(c.intake.seen[4].fields[1].second, "two");
  EXPECT_EQ(c.intake.seen[5].method, "GET");
  EXPECT_EQ(c.intake.seen[5].content_length, -1);
  EXPECT_EQ(c.intake.seen[5].fields.size(), 1u);
  EXPECT_EQ(c.intake.seen[6].fields, c.intake.seen[0].fields);
}

TEST(H1KnownHead, TheNextRefusalHasNothingOfIt) {
  Conn c;
  for (int i = 0; i < 3; ++i) c.talk(head("HEAD", ""));
  const std::string refused = c.talk("GET / HTTP/1.1\r\nHost : a\r\n\r\n");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 400 ")) << refused;
  EXPECT_TRUE(refused.ends_with("\"}")) << refused;  // an answer to HEAD would have no body
  EXPECT_TRUE(c.h1->finished());
}

TEST(H1KnownHead, TheEndOfAConnectionIsNotForgotten) {
  Conn c;
  const std::string last = head("GET", "Connection: close\r\n");
  c.talk(get()), c.talk(get());
  const std::string out = c.talk(last);
  EXPECT_NE(out.find("connection: close"), out.npos);
  EXPECT_TRUE(c.h1->finished());
}

TEST(H1KnownHead, AClientThatAsksFirstIsAnsweredEachTime) {
  Conn c;
  const std::string asks = head("POST", "Expect: 100-continue\r\nContent-Length: 3\r\n");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(c.talk(asks), "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_EQ(c.talk("abc"), kOk);
  }
}

TEST(H1KnownHead, ChunkedBodiesAreFramedEachTime) {
  Conn c;
  const std::string chunked = head("POST", "Transfer-Encoding: chunked\r\n");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(c.talk(chunked + "3\r\nabc\r\n0\r\n\r\n"), kOk);
  for (const auto& seen : c.intake.seen) EXPECT_EQ(seen.body, "abc");
}

// After two silent seconds nothing is kept.
TEST(H1KnownHead, ASilentConnectionForgets) {
  Conn c;
  for (int i = 0; i < 3; ++i) c.talk(kPost + "abc");
  c.wait(4s);
  EXPECT_EQ(c.talk(kPost + "abc"), kOk);
  EXPECT_EQ(c.intake.seen.back().fields, c.intake.seen[0].fields);
}

TEST(H1KnownHead, TheBudgetOfABodyHolds) {
  Conn c;
  c.intake.plan.limit = 3;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(c.talk(kPost + "abc"), kOk);
  c.intake.plan.limit = 2;
  EXPECT_TRUE(c.talk(kPost + "abc").starts_with("HTTP/1.1 413 "));
}

}  // namespace
}  // namespace weir::wire
