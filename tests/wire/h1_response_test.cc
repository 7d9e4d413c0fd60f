#include "wire/h1_response.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace weir::wire {
namespace {

struct Taken final : ResponseListener {
  base::Status on_head(int, const Fields& fields) override {
    for (size_t i = 0; i < fields.size(); ++i)
      heads += std::string(fields[i].name) + '=' + std::string(fields[i].value) + ';';
    return {};
  }
  base::Status on_body(std::string_view piece) override { return body += piece, base::Status(); }
  std::string heads, body;
};

TEST(H1Response, AConnectionWhoseEndIsTheAnswersIsNotUsedAgain) {
  H1Response response;
  Taken taken;
  std::string_view bytes = "HTTP/1.1 200 OK\r\n\r\nall";
  response.begin();
  ASSERT_TRUE(response.feed(bytes, taken).ok());
  EXPECT_FALSE(response.done());
  ASSERT_TRUE(response.end().ok());
  EXPECT_TRUE(response.done());
  EXPECT_FALSE(response.reusable());
  EXPECT_EQ(response.announced(), -1);
  EXPECT_EQ(taken.body, "all");
}

TEST(H1Response, FieldsHaveANameAndNothingBeforeIt) {
  for (auto [line, good] : {std::pair{"a: b", true},
                            {"a:b", true},
                            {"a:", true},
                            {": b", false},
                            {":", false},
                            {"a", false},
                            {" a: b", false},
                            {"\ta: b", false},
                            {"a : b", false},
                            {"ab : c", false}}) {
    H1Response response;
    Taken taken;
    const std::string head = std::string("HTTP/1.1 204 No Content\r\n") + line + "\r\n\r\n";
    std::string_view bytes = head;
    response.begin();
    const base::Status status = response.feed(bytes, taken);
    EXPECT_EQ(status.ok(), good) << line;
    EXPECT_EQ(status.text, good ? "" : "not HTTP/1.1: a field") << line;
    EXPECT_EQ(taken.heads.empty(), !good) << line;
  }
}

TEST(H1Response, ChunksAreOneBodyHoweverTheyAreCut) {
  const std::string answer =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Last: 1\r\n\r\n";
  for (size_t step = 1; step <= answer.size(); ++step) {
    H1Response response;
    Taken taken;
    response.begin();
    for (size_t at = 0; at < answer.size(); at += step) {
      std::string_view bytes = std::string_view(answer).substr(at, step);
      EXPECT_FALSE(response.done()) << at;
      ASSERT_TRUE(response.feed(bytes, taken).ok()) << at;
    }
    EXPECT_TRUE(response.done());
    EXPECT_TRUE(response.reusable());
    EXPECT_EQ(taken.body, "abc0123456789");
  }
  for (const char* bad : {"3\r\nabcd\r\n", "x\r\nabc\r\n", "3\r\nabc0\r\n\r\n"}) {
    H1Response response;
    Taken taken;
    response.begin();
    const std::string all = std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") + bad;
    std::string_view bytes = all;
    EXPECT_FALSE(response.feed(bytes, taken).ok()) << bad;
  }
}

}  // namespace
}  // namespace weir::wire
