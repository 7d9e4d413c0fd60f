// The body of a new batch of Anthropic's, in any pieces.
#include "dialects/openai/anthropic/request_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dialects/openai/batches/line.h"

namespace weir::openai::anthropic {
namespace {

std::string request(const std::string& id, const std::string& params = R"({"model":"m"})") {
  return R"({"custom_id":")" + id + R"(","params":)" + params + "}";
}
std::string body(const std::string& requests) { return "{\"requests\":[" + requests + "]}"; }

// The error, or nothing; the lines are appended to `out`.
std::string read(const std::string& text, size_t piece, std::string& out, RequestLines::Bounds bounds = {1000, 100}) {
  RequestLines lines(bounds);
  base::Status status;
  for (size_t at = 0; at < text.size() && status.ok(); at += piece) status = lines.read(text.substr(at, piece), out);
  if (status.ok()) status = lines.finish();
  return status.text;
}
std::string error_of(const std::string& text, RequestLines::Bounds bounds = {1000, 100}) {
  std::string out;
  const std::string error = read(text, text.size(), out, bounds);
  for (size_t piece : {1u, 3u}) EXPECT_EQ(read(text, piece, out, bounds), error) << text;
  return error;
}

TEST(RequestLines, AreTheSameWhereverTheBodyIsCut) {
  const std::string params = "{\"model\":\"m\",\n \"a\":[\"}]\\\"\",{\"b\":\"\\\\\"}],\"c\":1e3}";
  const std::string text = " { \"other\" : {\"requests\":[1]} , \"requests\" : [ " + request("a", params) + " ,\r\n" +
                           request("b\\u00e9") + "\t] , \"n\":12 } ";
  std::string whole;
  EXPECT_EQ(read(text, text.size(), whole), "");
  for (size_t piece : {1u, 2u, 3u, 7u}) {
    std::string out;
    EXPECT_EQ(read(text, piece, out), "");
    EXPECT_EQ(out, whole);
  }
  batches::Line line;
  const std::string_view lines = whole;
  const size_t end = lines.find('\n');
  ASSERT_TRUE(batches::read_line(lines.substr(0, end), kMessagesPath, line).ok());
  EXPECT_EQ(line.custom_id, "a");
  EXPECT_EQ(line.model, "m");
  EXPECT_EQ(nlohmann::json::parse(line.body), nlohmann::json::parse(params));
  ASSERT_TRUE(batches::read_line(lines.substr(end + 1), kMessagesPath, line).ok());
  EXPECT_EQ(line.custom_id, "b\u00e9");
}

TEST(RequestLines, MembersBesideThemAreNamed) {
  RequestLines lines({1000, 100});
  std::string out;
  ASSERT_TRUE(lines.read("{\"betas\":[\"x\"],\"requests\":[" + request("a") + "],\"more\":null}", out).ok());
  EXPECT_TRUE(lines.finish().ok());
  EXPECT_EQ(lines.ignored(), "betas, more");
  EXPECT_EQ(lines.lines(), 1u);
}

TEST(RequestLines, WhatIsWrongIsToldByItsPlace) {
  for (const char* text :
       {"[]", "null", "x", "{]", "{\"requests\":{}}", "{\"requests\":1}", "{\"requests\" [", "{,", "{\"requests\":[,",
        "{\"a\":1,}", "{\"a\":1 \"b\"", "{\"a\":tru}", "{\"a\":[}}", "{} {",
        "{\"requests\":[{\"custom_id\":\"a\",\"params\":{}},]}", "{\"requests\":[],\"requests\":[]}"})
    EXPECT_NE(error_of(text), "") << text;
  EXPECT_EQ(error_of("{}"), "requests: expected a list of at least one request");
  EXPECT_EQ(error_of("{\"requests\":[]}"), "requests: expected a list of at least one request");
  EXPECT_EQ(error_of("{\"requests\":["), "requests: the body is cut short");
  EXPECT_EQ(error_of(""), "requests: the body is cut short");
  EXPECT_EQ(error_of(body(request("a") + "," + request(""))), "requests.1.custom_id: it must have 1 to 64 characters");
  EXPECT_EQ(error_of(body(request("a", "[]"))), "requests.0.params: it is missing, or is no object");
  EXPECT_EQ(error_of(body(R"({"custom_id":"a"})")), "requests.0.params: it is missing, or is no object");
  EXPECT_EQ(error_of(body(request("a", R"({"stream":true})"))),
            "requests.0.params.stream: it must be false in a batch");
  EXPECT_EQ(error_of(body(request("a") + "," + request("a"))),
            "requests.1.custom_id: 'a' is the custom_id of another request, too");
  EXPECT_NE(error_of(body(request(std::string(65, 'x')))).find("requests.0.custom_id: "), std::string::npos);
  EXPECT_NE(error_of(body("{\"custom_id\":\"a\",\"params\":{\"a\":\"\xff\"}}")), "");
}

TEST(RequestLines, LengthsAndCountsAreBounded) {
  EXPECT_EQ(error_of(body(request("a") + "," + request("b") + "," + request("c")), {1000, 2}),
            "requests: a batch may have 2 requests (jobs.max_lines)");
  const std::string text = "requests.0: it has more than 200 bytes (jobs.max_line)";
  EXPECT_EQ(error_of(body(request("a", "{\"a\":\"" + std::string(300, 'x') + "\"}")), {200, 9}), text);
  EXPECT_EQ(error_of("{\"requests\":[" + std::string(100'000, '['), {200, 9}), text);
  EXPECT_EQ(error_of(body(request("a", "{\"a\":\"" + std::string(150, 'x') + "\"}")), {200, 9}), text)
      << "the line is longer than its request";
  std::string numbers = "1";
  for (int i = 0; i < 500'000; ++i) numbers += ",1";
  std::string out;
  EXPECT_EQ(read(body(request("a", "{\"a\":[" + numbers + "]}")), 100'000, out, {4 << 20, 9}),
            "requests.0: it has more than 500000 brackets, commas and colons");
  EXPECT_NE(error_of("{\"" + std::string(1000, 'x')), "");
  EXPECT_NE(error_of("{\"a\":\"" + std::string(100'000, 'x')), "");
}

}  // namespace
}  // namespace weir::openai::anthropic
