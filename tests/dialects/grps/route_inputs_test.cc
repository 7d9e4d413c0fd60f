// Routes of the configuration's own: forms, base64, numbers in strings, and errors in words of their own.
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "bench.h"

namespace weir::grps {
namespace {

const Bench::Headers kPairs{{"content-type", "application/x-www-form-urlencoded"}};
const Bench::Headers kParts{{"content-type", "multipart/form-data; boundary=B"}};
std::string part(std::string_view name, std::string_view lines, std::string_view octets) {
  return "--B\r\nContent-Disposition: form-data; name=" + std::string(name) + "\r\n" + std::string(lines) + "\r\n" +
         std::string(octets) + "\r\n";
}
std::string octets_of(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(GrpsRoute, NumbersMayBeInStrings) {
  auto r = route("/own", "rare", {{"f", "body:/f"}, {"u", "body:/u"}, {"w", "body:/w"}, {"h", "body:/h"}});
  Bench bench(with(r));
  bench.models["rare"].script.assign(1, outputs("o BOOL [1] [true]"));
  bench.rest("POST", "/own", R"({"f":"true","u":" 65535 ","w":["18446744073709551615"],"h":["1.5"]})");
  EXPECT_EQ(bench.models["rare"].seen.at(0),
            "rare/1 rows=1 | f BOOL [1] [true] | u UINT16 [1] [65535] | w UINT64 [1] [18446744073709551615] | h BF16 "
            "[1] [1.5]");
  bench.rest("POST", "/own", R"({"f":"1","u":"2.0","w":3,"h":"NaN"})");
  EXPECT_EQ(bench.models["rare"].seen.size(), 2u);
  for (std::string bad :
       {R"("")", R"("1e")", R"("65536")", R"("1,2")", R"("[1]")", R"("1\u0030x")", R"(["1",["2"]])", R"("-")"})
    EXPECT_EQ(bench.rest("POST", "/own", R"({"f":1,"w":1,"h":1,"u":)" + bad + "}").status, 400) << bad;
  EXPECT_EQ(bench.models["rare"].seen.size(), 2u);
}

TEST(GrpsRoute, FieldsOfAFormBecomeInputs) {
  auto r = route("/own", "rare", {{"f", "form:f"}, {"u", "form:u"}, {"w", "form:w"}, {"h", "form:h"}});
  Bench bench(with(r));
  bench.models["rare"].script.assign(1, outputs("o BOOL [1] [true]"));
  std::string seen = "rare/1 rows=1 | f BOOL [1] [true] | u UINT16 [1] [7] | w UINT64 [1] [8] | h BF16 [1] [0.5]";
  bench.rest("POST", "/own", "f=true&u=7&w=%5B8%5D&h=0.5&more=1", kPairs);
  EXPECT_EQ(bench.models["rare"].seen.at(0), seen);
  // One of them is the tensor's own bytes.
  bench.rest("POST", "/own",
             part("f", "", "true") + part("u", "Content-Type: application/octet-stream\r\n", std::string("\7\0", 2)) +
                 part("w", "", "8") + part("h", "", "0.5") + "--B--",
             kParts);
  EXPECT_EQ(bench.models["rare"].seen.at(1), seen);
  auto a = bench.rest("POST", "/own", "f=true&w=8&h=0.5", kPairs);
  EXPECT_NE(a.body.find("the request has no form:u, for input 'u'"), std::string::npos) << a.body;
  EXPECT_EQ(bench.rest("POST", "/own", "f=true&u=x&w=8&h=0.5", kPairs).status, 400);
  a = bench.rest("POST", "/own", "{}", Bench::kJson);
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("Content type is not supported"), std::string::npos) << a.body;
}

TEST(GrpsRoute, AFileIsAnElementOfBytesOrTheNumbersThemselves) {
  Bench text(with(route("/own", "my-text", {{"s", "form:file"}})));
  text.models["my-text"].script.assign(1, outputs("t BYTES [1] [\"ok\"]"));
  text.rest("POST", "/own", part("file", "Content-Type: image/png\r\n", "\x89PNG\r\n") + "--B--", kParts);
  EXPECT_EQ(text.models["my-text"].seen.at(0),
            "my-text/1 rows=1 | s BYTES [1] [\"" + base::base64_encode("\x89PNG\r\n") + "\"]");
  text.rest("POST", "/own", "file=", kPairs);
  EXPECT_EQ(text.models["my-text"].seen.at(1), "my-text/1 rows=1 | s BYTES [1] [\"\"]") << "there, and empty";
  Bench digits(with(route("/own", "digits", {{"image", "form:file"}})));
  digits.rest("POST", "/own",
              part("file", "Content-Type: application/octet-stream\r\n", octets_of({1, 2, 3, 4.5})) + "--B--", kParts);
  EXPECT_EQ(digits.models["digits"].seen.at(0), "digits/1 rows=2 | image FP32 [2,2] [1.0,2.0,3.0,4.5]");
}

TEST(GrpsRoute, Base64IsDecodedWhereverItStands) {
  std::string octets = octets_of({1, 2}), base64 = base::base64_encode(octets);
  struct Case {
    std::string source, query, body;
    Bench::Headers headers;
  };
  for (const Case& c : {Case{"base64:body:/a/0", "", R"({"a":[")" + base64 + "\"]}", Bench::kJson},
                        Case{"base64:body:/a", "", R"({"a":"data:image/png;base64,)" + base64 + "\"}", Bench::kJson},
                        Case{"base64:form:a", "", "a=" + base::percent_encode(base64), kPairs},
                        Case{"base64:form:a", "", part("a", "", base64) + "--B--", kParts},
                        Case{"base64:query:a", "?a=" + base::percent_encode(base64), "", {}},
                        Case{"base64:header:X-A", "", "", {{"x-a", base64}}},
                        Case{"base64:body", "", base64, {{"content-type", "text/plain"}}}}) {
    Bench bench(with(route("/own", "digits", {{"image", c.source}})));
    bench.rest("POST", "/own" + c.query, c.body, c.headers);
    ASSERT_EQ(bench.models["digits"].seen.size(), 1u) << c.source;
    EXPECT_EQ(bench.models["digits"].seen[0], "digits/1 rows=1 | image FP32 [1,2] [1.0,2.0]") << c.source;
  }
  Bench bench(with(route("/own", "my-text", {{"s", "base64:body:/a"}})));
  bench.rest("POST", "/own", R"({"a":"aGk="})");
  EXPECT_EQ(bench.models["my-text"].seen.at(0), "my-text/1 rows=1 | s BYTES [1] [\"hi\"]");
  EXPECT_NE(bench.rest("POST", "/own", R"({"a":"**"})").body.find("base64:body:/a is not base64"), std::string::npos);
  EXPECT_NE(bench.rest("POST", "/own", R"({"a":7})").body.find("expected a string"), std::string::npos);
}

TEST(GrpsRoute, ErrorsHaveTheBodyThatTheConfigurationGives) {
  auto r = route("/own", "digits", {{"image", "body:/a"}});
  r.error_status = 500;
  r.error_body = R"({"no": {"why": "{message}", "code": {code}, "name": "{name}", "{other}": {}}})";
  Bench bench(with(r));
  auto a = bench.rest("POST", "/own", R"({"a":"\"cc"})");
  EXPECT_EQ(a.status, 500);
  EXPECT_EQ(a.type, "application/json");
  EXPECT_TRUE(a.body.starts_with(R"({"no": {"why": "input 'image')")) << a.body;
  EXPECT_TRUE(a.body.ends_with(R"(", "code": 400, "name": "INVALID_ARGUMENT", "{other}": {}}})")) << a.body;
  bench.models["digits"].script.push_back({msg::Failed{base::failure(base::Code::kUnavailable, "a \"b\" <c>\n")}});
  a = bench.rest("POST", "/own", R"({"a":[1,2]})");
  EXPECT_NE(a.body.find(R"("why": "a \"b\" <c>\u000a", "code": 503)"), std::string::npos) << a.body;
  for (auto [type, text] :
       {std::pair{"text/html", "<p>a &#34;b&#34; &#60;c&#62;\n"}, {"text/plain", "<p>a \"b\" <c>\n"}}) {
    r.error_body = "<p>{message}";
    r.error_status = 0;
    r.error_content_type = type;
    Bench other(with(r));
    other.models["digits"].script.push_back({msg::Failed{base::failure(base::Code::kUnavailable, "a \"b\" <c>\n")}});
    a = other.rest("POST", "/own", R"({"a":[1,2]})");
    EXPECT_EQ(a.status, 503);
    EXPECT_EQ(a.type, type);
    EXPECT_EQ(a.body, text);
  }
}

TEST(GrpsRoute, AStreamEndsWithTheErrorInTheSameWords) {
  auto r = route("/own", "flow", {{"n", "body:/n"}});
  r.streaming = "query_param:s";
  r.error_body = "failed: {message}";
  Bench bench(with(r));
  bench.models["flow"].script = {outputs("o INT32 [1] [1]", false),
                                 {msg::Failed{base::failure(base::Code::kInternal, "it broke")}}};
  auto a = bench.rest("POST", "/own?s=true", R"({"n":1})", {{"accept", "application/x-ndjson"}});
  EXPECT_EQ(a.status, 200);
  EXPECT_EQ(a.body, "{\"o\":1}\nfailed: it broke\n");
}

TEST(GrpsRoute, WhatIsWrongWithItIsSaid) {
  EXPECT_EQ(check(route("/own", "m", {{"a", "base64:form:x"}})), "");
  for (std::string bad : {"base64", "base64:", "base64:base64:body", "form:", "form", "cookie:x", "body:x", ""})
    EXPECT_NE(check(route("/own", "m", {{"a", bad}})), "") << bad;
  auto r = route("/own", "m", {{"a", "form:x"}});
  r.method = "GET";
  EXPECT_NE(check(r), "");
  r.method = "PUT";
  EXPECT_EQ(check(r), "");
  r.error_status = 199;
  EXPECT_NE(check(r), "");
  r.error_status = 0;
  r.error_content_type = "text/plain";
  EXPECT_NE(check(r), "") << "of no body";
}

// ---- infer/predict

TEST(GrpsStreaming, IsSwitchedOnAsConfigured) {
  struct Case {
    std::string control, query, body;
    Bench::Headers headers;
  };
  const Bench::Headers asked{{"content-type", "application/json"}, {"x-flow", "True"}};
  for (const Case& c :
       {Case{"query_param:streaming", "&streaming=true", "", Bench::kJson},
        Case{"query_param:flow", "&flow=1", "", Bench::kJson}, Case{"header_param:X-Flow", "", "", asked},
        Case{"body_param:stream", "", R"(,"stream":true)", Bench::kJson},
        Case{"body_param:/more/stream", "", R"(,"more":{"stream":true})", Bench::kJson}}) {
    Options options;
    options.streaming = c.control;
    EXPECT_EQ(check_streaming(c.control), "");
    Bench bench(options);
    auto a = bench.predict(R"({"str_data":"x")" + c.body + "}", "?model=any" + c.query, c.headers);
    EXPECT_EQ(a.type, "application/octet-stream") << c.control << a.body;
    a = bench.predict(R"({"str_data":"x"})", "?model=any");
    EXPECT_EQ(a.type, "application/json") << c.control;
    a = bench.predict(R"({"str_data":"x","stream":false,"more":7})", "?model=any&flow=false&streaming=no");
    EXPECT_EQ(a.type, "application/json") << c.control;
    a = bench.predict(R"({"str_data":"x"})", "?model=any&streaming=true");
    EXPECT_EQ(a.type == "application/octet-stream", c.control == "query_param:streaming");
    EXPECT_EQ(bench.predict("{", "?model=any").status, 400);
    EXPECT_EQ(bench.predict("octets", "?model=any", {{"content-type", "application/octet-stream"}}).body, "octets");
  }
  for (auto bad : {"query_param", "query_param:", "cookie:x", "streaming"}) EXPECT_NE(check_streaming(bad), "") << bad;
}

}  // namespace
}  // namespace weir::grps
