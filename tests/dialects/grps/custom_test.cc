#include <gtest/gtest.h>

#include "bench.h"
#include "dialects/grps/routes.h"
#include "support/fake_wire.h"

namespace weir::grps {
namespace {

TEST(GrpsCustom, ABodysPlacesBecomeInputsAndOutputsThePlacesOfTheResponse) {
  auto r = route("/classify", "digits-1", {{"image", "body:/data/0/pixels"}});
  r.outputs = {{"/result/scores", "p"}, {"/result/again", "p"}};
  r.status = 201;
  r.content_type = "application/vnd.scores+json";
  Bench bench(with(r));
  bench.models["digits"].script.push_back(outputs("p FP32 [1,3] [1,2,0.5]"));
  auto a = bench.rest("POST", "/classify", R"({"x":[1],"data":[{"pixels":[3,4.5]},{}]})");
  EXPECT_EQ(bench.models["digits"].seen.at(0), "digits/1 rows=1 | image FP32 [1,2] [3.0,4.5]");
  EXPECT_EQ(a.status, 201);
  EXPECT_EQ(a.type, "application/vnd.scores+json");
  EXPECT_EQ(a.body, R"({"result":{"scores":[[1.0,2.0,0.5]],"again":[[1.0,2.0,0.5]]}})");
  bench.rest("POST", "/classify", R"({"data":[{"pixels":[[1,2],[3,4]]}]})");
  EXPECT_EQ(bench.models["digits"].seen.at(1), "digits/1 rows=2 | image FP32 [2,2] [1.0,2.0,3.0,4.0]");
  for (std::string bad : {"{}", "", "{", R"({"data":[{"pixels":["a","b"]}]})", R"({"data":[{"pixels":[[1],[2,3]]}]})",
                          R"({"data":[{"pixels":null}]})"})
    EXPECT_EQ(bench.rest("POST", "/classify", bad).status, 400) << bad;
}

TEST(GrpsCustom, QueryHeadersAndThePathBecomeInputs) {
  auto r =
      route("/rare/{flag}", "rare", {{"f", "path:flag"}, {"u", "query:u"}, {"w", "header:X-Wide"}, {"h", "body:/h"}});
  Bench bench(with(r));
  bench.models["rare"].script.push_back(outputs("o BOOL [1] [true]; s BYTES [2] [\"a\",\"b\"]"));
  auto a = bench.rest("POST", "/rare/true?u=65535", R"({"h":0.5})", {{"x-wide", "18446744073709551615"}});
  EXPECT_EQ(bench.models["rare"].seen.at(0),
            "rare/1 rows=1 | f BOOL [1] [true] | u UINT16 [1] [65535] | w UINT64 [1] [18446744073709551615] | h BF16 "
            "[1] [0.5]");
  EXPECT_EQ(a.body, R"({"o":true,"s":["a","b"]})");
  EXPECT_EQ(bench.rest("POST", "/rare/true?u=65536", R"({"h":0.5})", {{"x-wide", "1"}}).status, 400);
  a = bench.rest("POST", "/rare/true", R"({"h":0.5})", {{"x-wide", "1"}});
  EXPECT_NE(a.body.find("the request has no query:u, for input 'u'"), std::string::npos) << a.body;
  a = bench.rest("POST", "/rare/true?u=[[1,2", R"({"h":0.5})", {{"x-wide", "1"}});
  EXPECT_EQ(a.status, 400);
  EXPECT_EQ(a.body.find("nest too deep"), std::string::npos) << "it is cut short: " << a.body;
}

TEST(GrpsCustom, AnOutputsBytesCanBeTheResponseAndTheModelMayBeNamedInTheQuery) {
  auto r = route("/raw", "", {{"s", "body"}});
  r.raw_output = "t";
  r.content_type = "image/png";
  Bench bench(with(r));
  bench.models["my-text"].script.push_back(outputs("t BYTES [1] [\"png\"]"));
  auto a = bench.rest("POST", "/raw?model=my-text", "\xff raw");
  EXPECT_EQ(a.body, "png");
  EXPECT_EQ(a.type, "image/png");
  EXPECT_EQ(bench.rest("POST", "/raw?model=nothing", "x").status, 404);
  EXPECT_EQ(bench.rest("POST", "/raw", "x").status, 400);
}

TEST(GrpsCustom, AGetRouteHasNoBody) {
  auto r = route("/say", "my-text", {{"s", "query:text"}});
  r.method = "GET";
  Bench bench(with(r));
  bench.models["my-text"].script.push_back(outputs("t BYTES [1] [\"ok\"]"));
  EXPECT_EQ(bench.rest("GET", "/say?text=hi%20there").body, R"({"t":"ok"})");
  EXPECT_EQ(bench.models["my-text"].seen.at(0), "my-text/1 rows=1 | s BYTES [1] [\"hi there\"]");
}

TEST(GrpsCustom, StreamingIsSwitchedOnByANamedKey) {
  struct Case {
    std::string streaming, query, body;
    Bench::Headers headers;
  };
  for (const Case& c :
       {Case{"query_param:s", "?s=true", R"({"n":1})", {}}, Case{"header_param:X-S", "", R"({"n":1})", {{"x-s", "1"}}},
        Case{"body_param:/more/s", "", R"({"n":1,"more":{"s":true}})", {}}}) {
    auto r = route("/flow", "flow", {{"n", "body:/n"}});
    r.streaming = c.streaming;
    r.stream_content_type = "application/x-parts";
    Bench bench(with(r));
    bench.models["flow"].script = {outputs("o INT32 [1] [1]", false), outputs("o INT32 [1] [2]", false), {msg::Done{}}};
    Bench::Headers headers = c.headers;
    headers.emplace_back("accept", "application/x-ndjson");
    auto a = bench.rest("POST", "/flow" + c.query, c.body, headers);
    EXPECT_EQ(a.body, "{\"o\":1}\n{\"o\":2}\n") << c.streaming;
    EXPECT_EQ(a.type, "application/x-parts");
    EXPECT_EQ(bench.rest("POST", "/flow", R"({"n":1})").status, 501);
  }
}

TEST(GrpsCustom, ABodyWithoutFieldsAsksForNoStream) {
  auto r = route("/flow", "my-text", {{"s", "query:n"}});
  r.method = "GET";
  r.streaming = "body_param:s";
  Bench bench(with(r));
  bench.models["my-text"].script.push_back(outputs("t BYTES [1] [\"ok\"]"));
  EXPECT_EQ(bench.rest("GET", "/flow?n=1").body, R"({"t":"ok"})");
}

TEST(GrpsCustom, WhatIsWrongWithARouteIsSaid) {
  EXPECT_NE(check(route("classify", "", {{"a", "body"}})), "");
  EXPECT_NE(check(route("/grps/v1/x", "", {{"a", "body"}})), "");
  EXPECT_NE(check(route("/x", "", {})), "");
  EXPECT_NE(check(route("/x", "", {{"a", "query:"}})), "");
  auto r = route("/x", "", {{"a", "body"}});
  r.streaming = "cookie:x";
  EXPECT_NE(check(r), "");
  r.streaming = "";
  r.raw_output = "o";
  EXPECT_EQ(check(r), "");
  r.outputs = {{"/o", "o"}};
  EXPECT_NE(check(r), "");
  r.raw_output = "";
  EXPECT_EQ(check(r), "");
  r.outputs = {{"/o/b", "o"}, {"/ok", "o"}, {"/o", "o"}};
  EXPECT_EQ(check(r), "outputs: '/o/b' lies inside '/o'") << "one of them would not be in the answer";
}

// No request would find it, or it would find no value there.
TEST(GrpsCustom, APathThatNoRequestMatchesIsSaid) {
  for (const char* good : {"/x", "/x/", "/x/{k}", "/x/{k}:run/{l}", "/x/a:run", "/\xc3\xa9"})
    EXPECT_EQ(check(route(good, "", {{"a", "body"}})), "") << good;
  for (const char* bad : {"/x?y", "/x#y", "/x y", "/x\\y", "/x\n", "/x{k}", "/{k", "/k}", "/{}", "/{k}x",
                          "/{k}:", "/{k}:{l}", "/{a:b}", "/{k}/{k}", "/x/../y", "/x/."})
    EXPECT_NE(check(route(bad, "", {{"a", "body"}})), "") << bad;
  std::string many;
  for (char c = 'a'; c <= 'q'; ++c) (many += "/{") += c, many += '}';
  EXPECT_NE(check(route(many, "", {{"a", "body"}})), "");
  EXPECT_EQ(check(route("/x/{k}", "", {{"a", "path:k"}})), "");
  EXPECT_EQ(check(route("/x/{k}", "", {{"a", "path:l"}})), "inputs: the path has no {l}");
}

TEST(GrpsCustom, APathThatIsServedAlreadyIsSaid) {
  struct Silent final : wire::Service {
    void serve(wire::Exchange&, const wire::PathArgs&) override {}
  } service;
  base::FakeEnv env;
  wire::Router router(env);
  router.add({"POST", "/a/{x}", &service, "built-in"});
  auto r = route("/a/{y}", "", {{"a", "body"}});
  EXPECT_EQ(check_free({r}, router).text, "grps.routes: POST /a/{y} is served by built-in: expected another path");
  r.method = "GET";
  EXPECT_TRUE(check_free({r}, router).ok());
  EXPECT_TRUE(check_free({route("/a", "", {{"a", "body"}})}, router).ok());
}

TEST(GrpsCustom, RoutesThatLeadNowhereAreNamed) {
  Options options;
  auto add = [&](std::string path, std::string model, RouteSpec::Pairs inputs, RouteSpec::Pairs outputs) {
    auto& r = options.routes.emplace_back(route(std::move(path), std::move(model), std::move(inputs)));
    r.outputs = std::move(outputs);
  };
  add("/good", "digits-1", {{"image", "body"}}, {{"/a", "p"}});
  add("/any", "any", {{"what", "body"}}, {{"/a", "ever"}});
  add("/asked", "", {{"what", "body"}}, {});
  add("/model", "digist", {{"image", "body"}}, {});
  add("/input", "digits", {{"imag", "body"}}, {{"/a", "zzz"}});
  Bench bench;
  auto wrong = missing_from_catalog(options, *bench.models.catalog);
  ASSERT_EQ(wrong.size(), 3u);
  EXPECT_TRUE(wrong[0].starts_with("grps.routes: POST /model: Request for unknown model: 'digist' is not found"))
      << wrong[0];
  EXPECT_EQ(wrong[1], "grps.routes: POST /input: model 'digits' has no input 'imag', did you mean 'image'?");
  EXPECT_EQ(wrong[2], "grps.routes: POST /input: model 'digits' has no output 'zzz'; it has p");
}

}  // namespace
}  // namespace weir::grps
