#include "dialects/ops/openapi.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "dialects/ops/api_docs.h"
#include "inference.pb.h"
#include "support/cpu_time.h"
#include "support/fake_offload.h"
#include "support/fake_wire.h"
#include "support/model_spec.h"
#include "support/scripted_models.h"

namespace weir::ops {
namespace {

using nlohmann::json;

constexpr std::string_view kText = R"({
  "aliases": {"/versions/{version}": ""},
  "error": "Error",
  "operations": {"POST / text/x": {"summary": "Typed", "request": {"text/x": "Out"}, "response": {"text/x": "Out"}},
                 "POST /": {"summary": "Plain", "request": "In", "response": {"text/plain": "Out"}},
                 "POST /m/{model}/infer": {"summary": "Run", "request": "In", "response": {"text/plain": "Out"}, "query": {"q": "A query"}}},
  "schemas": {"In": {"type": "object", "generationParameters": true, "properties": {"x": {}}}, "Out": {"type": "string"}, "Error": {"type": "object"}}})";

json document(std::vector<wire::Route> routes) {
  std::vector<const wire::Route*> all;
  for (const auto& route : routes) all.push_back(&route);
  return json::parse(write_openapi(all, {std::string(kText)}, "1.2.3"));
}
wire::Route route(std::string method, std::string pattern, wire::Permission permission = wire::Permission::kInfer) {
  return {std::move(method), std::move(pattern), nullptr, "test", {}, permission};
}

TEST(OpenApi, ARouteIsThereByItself) {
  json api =
      document({route("GET", "/a/{b}/c:d", wire::Permission::kHealth), route("GET", "/a", wire::Permission::kRead)});
  EXPECT_EQ(api["openapi"], "3.1.0");
  EXPECT_EQ(api["info"]["version"], "1.2.3");
  const json& operation = api["paths"]["/a/{b}/c:d"]["get"];
  EXPECT_EQ(operation["summary"], "GET /a/{b}/c:d");
  EXPECT_EQ(operation["x-permission"], "health");
  EXPECT_FALSE(operation.contains("security"));
  EXPECT_TRUE(api["paths"]["/a"]["get"].contains("security"));
  EXPECT_EQ(operation["parameters"].size(), 1u);
  EXPECT_EQ(operation["parameters"][0]["name"], "b");
}

TEST(OpenApi, ADialectSaysWhatARouteCannot) {
  json api = document({route("POST", "/m/{model}/infer"), route("POST", "/m/{model}/versions/{version}/infer")});
  for (const char* path : {"/m/{model}/infer", "/m/{model}/versions/{version}/infer"}) {
    const json& operation = api["paths"][path]["post"];
    EXPECT_EQ(operation["summary"], "Run") << path;
    EXPECT_EQ(operation["requestBody"]["content"]["application/json"]["schema"]["$ref"], "#/components/schemas/In");
    EXPECT_EQ(operation["responses"]["200"]["content"]["text/plain"]["schema"]["$ref"], "#/components/schemas/Out");
    EXPECT_EQ(operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"],
              "#/components/schemas/Error");
  }
  EXPECT_EQ(api["paths"]["/m/{model}/infer"]["post"]["parameters"].size(), 2u);
  EXPECT_EQ(api["paths"]["/m/{model}/versions/{version}/infer"]["post"]["parameters"].size(), 3u);
}

TEST(OpenApi, GenerationParametersComeFromTheirTable) {
  json properties = document({})["components"]["schemas"]["In"]["properties"];
  EXPECT_EQ(properties["temperature"]["maximum"], 2.0);
  EXPECT_EQ(properties["max_tokens"]["type"], "integer");
  EXPECT_TRUE(properties.contains("x"));
}

TEST(OpenApi, RoutesOfTwoMediaTypesAreOneOperation) {
  wire::Route typed = route("POST", "/");
  typed.content_type = "text/x", typed.protocol = "typed";
  const json operation = document({typed, route("POST", "/")})["paths"]["/"]["post"];
  EXPECT_EQ(operation["summary"], "Plain; Typed");
  EXPECT_EQ(operation["tags"], json::parse(R"(["test","typed"])"));
  for (const json& one : {operation["requestBody"], operation["responses"]["200"]})
    EXPECT_EQ(one["content"].size(), 2u) << one;
  EXPECT_EQ(document({typed})["paths"]["/"]["post"]["summary"], "Typed");
}

TEST(OpenApi, OperationIdsAreUnique) {
  json api = document({route("GET", "/a/b"), route("GET", "/a_b"), route("GET", "/a:b"), route("POST", "/a/b")});
  std::set<std::string> ids;
  for (const auto& [path, operations] : api["paths"].items())
    for (const auto& [method, operation] : operations.items())
      EXPECT_TRUE(ids.insert(operation["operationId"]).second) << path;
  EXPECT_EQ(ids.size(), 4u);
}

TEST(OpenApi, MethodsOfServicesHaveTheirMessages) {
  inference::ModelInferRequest::descriptor();  // linked
  json api = document({route("POST", "/inference.GRPCInferenceService/ModelInfer"),
                       route("POST", "/inference.GRPCInferenceService/ModelStreamInfer")});
  const json& unary = api["paths"]["/inference.GRPCInferenceService/ModelInfer"]["post"];
  EXPECT_EQ(unary["requestBody"]["content"]["application/json"]["schema"]["$ref"],
            "#/components/schemas/inference.ModelInferRequest");
  const json& stream = api["paths"]["/inference.GRPCInferenceService/ModelStreamInfer"]["post"];
  EXPECT_TRUE(stream["requestBody"]["content"].contains("application/x-ndjson"));
  EXPECT_TRUE(stream["responses"]["200"]["content"].contains("text/event-stream"));
  const json& properties = api["components"]["schemas"]["inference.ModelInferRequest"]["properties"];
  EXPECT_EQ(properties["model_name"]["type"], "string");
  EXPECT_EQ(properties["parameters"]["additionalProperties"]["$ref"], "#/components/schemas/inference.InferParameter");
  EXPECT_EQ(properties["raw_input_contents"]["items"]["contentEncoding"], "base64");
}

// ---- The routes

struct Docs : testing::Test {
  base::FakeEnv env;
  wire::Router router{env};
  bus::Bus bus{env, base::ShardId{0}, [] {}};
  support::FakeOffload offload;
  support::ScriptedModels models;
  ApiDocs docs{router, bus, offload, "1.2.3", {std::string(kText)}};

  void SetUp() override {
    models.add(support::model_spec("m", {{"<b>in", msg::DType::kFp32, {2}, false, {}}}, {}, 4));
    bus.publish(models.catalog);
  }
  std::string get(std::string target, std::string_view accept = "*/*") {
    support::FakeExchange x("GET", std::move(target));
    x.mutable_request().fields.add("accept", accept);
    if (router.begin(x).body == wire::BodyPlan::kWhole && !x.responding()) router.whole(x);
    offload.work();
    router.closed(x);
    return std::to_string(x.response.status) + ' ' + x.sent;
  }
};

TEST_F(Docs, TheManualIsTextAndAPageForBrowsers) {
  EXPECT_TRUE(get("/docs").starts_with("200 # weir"));
  for (const std::string& page : {get("/docs", "text/html,*/*;q=0.8"), get("/v2/docs")}) {
    EXPECT_NE(page.find("<code>/openapi.json</code>"), page.npos);
    EXPECT_EQ(page.find("<!--"), page.npos) << "every mark is filled in";
    EXPECT_EQ(page.find("<script"), page.npos);
  }
}

TEST_F(Docs, LinksOfPagesHoldBelowTheirProxysPath) {
  const std::string docs = get("/docs", "text/html"), v2 = get("/v2/docs"), model = get("/v2/models/m/docs");
  EXPECT_NE(docs.find("<a href=\"./openapi.json\">"), docs.npos);
  EXPECT_NE(v2.find("<a href=\"../openapi.json\">"), v2.npos);
  EXPECT_NE(model.find("<a href=\"../../../openapi.json\">"), model.npos);
  for (const auto& page : {docs, v2, model}) EXPECT_EQ(page.find("=\"/"), page.npos);
  EXPECT_EQ(get("/docs", "text/html"), docs) << "each is kept for itself";
}

TEST_F(Docs, TheDocumentDescribesItself) {
  json api = json::parse(get("/openapi.json").substr(4));
  EXPECT_EQ(api["paths"]["/openapi.json"]["get"]["summary"], "This document");
  EXPECT_EQ(get("/v2/docs/dataplane.json"), get("/openapi.json"));
}

TEST_F(Docs, AModelHasADocumentOfItsOwn) {
  json api = json::parse(get("/v2/models/m/docs/dataplane.json").substr(4));
  EXPECT_EQ(api["info"]["title"], "m");
  EXPECT_TRUE(api["paths"].contains("/v2/models/m/docs"));
  EXPECT_FALSE(api["paths"].contains("/openapi.json"));
  EXPECT_FALSE(api["paths"]["/v2/models/m/docs"]["get"].contains("parameters"));
  EXPECT_TRUE(get("/v2/models/nope/docs").starts_with("404"));
  EXPECT_TRUE(get("/v2/models/nope/docs/dataplane.json").starts_with("404"));
}

TEST_F(Docs, AWorkerMakesThem) {
  const std::vector<std::string> targets{"/v2/models/m/docs", "/openapi.json", "/v2/docs"};
  for (const auto& target : targets) {
    support::FakeExchange x("GET", target);
    (void)router.begin(x);
    EXPECT_EQ(offload.waiting(), 1U);
    EXPECT_FALSE(x.responding());
    router.closed(x);
  }
  EXPECT_EQ(offload.cancelled, targets.size()) << "the client has left";
  offload.refusal = base::failure(base::Code::kResourceExhausted, "too much waits");
  for (const auto& target : targets) EXPECT_TRUE(get(target).starts_with("429"));
}

// Each would take a copy of all that dialects say.
TEST_F(Docs, ManyWhoAskBeforeItIsMadeCostNoMoreThanTheirRequests) {
  wire::Router large_router{env};
  ApiDocs large{large_router, bus, offload, "1.2.3", {std::string(kText) + std::string(4 << 20, ' ')}};
  std::vector<std::unique_ptr<support::FakeExchange>> all;
  for (int i = 0; i < 21; ++i) all.push_back(std::make_unique<support::FakeExchange>("GET", "/openapi.json"));
  (void)large_router.begin(*all[0]);
  const double before = support::cpu_seconds();
  for (size_t i = 1; i < all.size(); ++i) (void)large_router.begin(*all[i]);
  EXPECT_LT(support::cpu_seconds() - before, 0.004) << "to copy 80 MiB takes longer";
  EXPECT_EQ(offload.waiting(), all.size());
  for (auto& x : all) large_router.closed(*x);
}

TEST_F(Docs, TheWholeServersAreKept) {
  const std::string document = get("/openapi.json"), page = get("/v2/docs");
  offload.refusal = base::failure(base::Code::kResourceExhausted, "too much waits");
  EXPECT_EQ(get("/openapi.json"), document);
  EXPECT_EQ(get("/v2/docs"), page);
}

// A model's author writes its names.
TEST_F(Docs, NamesOfTensorsAreText) {
  std::vector<const wire::Route*> routes = router.routes();
  std::string text =
      write_openapi(routes, {R"({"operations": {}, "schemas": {"InferRequest": {}, "InferResponse": {}}})"}, "1");
  std::string model = write_openapi(text, models.catalog->models["m"].preferred->spec);
  EXPECT_EQ(json::parse(model)["components"]["schemas"]["InferRequest"]["properties"]["inputs"]["items"]["oneOf"][0]
                              ["properties"]["name"]["const"],
            "<b>in");
  std::string page = write_reference(model, "./");
  EXPECT_EQ(page.find("<b>in"), page.npos);
  EXPECT_NE(page.find("&#60;b&#62;in"), page.npos);
}

}  // namespace
}  // namespace weir::ops
