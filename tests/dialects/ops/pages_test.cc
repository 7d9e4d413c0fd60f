#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <vector>

#include "bus/load_notes.h"
#include "bus/memory_use.h"
#include "bus/response_stats.h"
#include "dialects/ops/front_page.h"
#include "dialects/ops/metrics.h"
#include "dialects/ops/pages.h"
#include "support/fake_offload.h"
#include "support/fake_wire.h"
#include "wire/identity.h"

namespace weir::ops {
namespace {

using nlohmann::json;
using support::FakeExchange;

struct Site : testing::Test {
  base::FakeEnv env;
  base::Metrics metrics;
  std::string why, models;
  wire::Router router{env};
  support::FakeOffload offload;
  const FrontPageLink links[2] = {{"models", "/v2/models", "The models"}, {"metrics", "/metrics", "Counters"}};
  FrontPage front{router, "1.2.3", links, {}};
  Pages pages{router, metrics, offload, {[this] { return why; }, {}, [this] { return models; }}};

  std::string get(FakeExchange& x) {
    if (router.begin(x).body == wire::BodyPlan::kWhole && !x.responding()) router.whole(x);
    offload.work();
    router.closed(x);
    return std::to_string(x.response.status) + ' ' + x.sent;
  }
  std::string get(std::string target) {
    FakeExchange x("GET", std::move(target));
    return get(x);
  }
};

TEST_F(Site, LivenessHoldsWhileReadinessFalls) {
  EXPECT_EQ(get("/livez"), "200 {\"status\":\"alive\"}\n");
  EXPECT_EQ(get("/readyz"), "200 {\"status\":\"ready\"}\n");
  why = "the server is shutting down";
  EXPECT_EQ(get("/livez"), "200 {\"status\":\"alive\"}\n");
  FakeExchange x("GET", "/readyz");
  EXPECT_EQ(get(x), "503 {\"status\":\"not ready\",\"reason\":\"the server is shutting down\"}\n");
  EXPECT_EQ(x.record().code, base::Code::kUnavailable);
  EXPECT_TRUE(x.response.fields.has("retry-after"));
  why = "1 of 2 models is not ready: 'm': it says \"no\"";
  EXPECT_EQ(json::parse(get("/readyz").substr(4))["reason"], why);
  why = "", models = "the repository is \"away\"";
  EXPECT_EQ(get("/readyz"), "200 {\"status\":\"ready\",\"models\":\"the repository is \\\"away\\\"\"}\n");
}

TEST_F(Site, TheFrontPageLinksTheOthers) {
  auto page = json::parse(get("/").substr(4));
  EXPECT_EQ(page["name"], "weir");
  EXPECT_EQ(page["version"], "1.2.3");
  EXPECT_EQ(page["status"], "alive");
  EXPECT_EQ(page["links"]["metrics"], "/metrics");
}

TEST_F(Site, ABrowserGetsTheConsoleWhereThereIsOne) {
  wire::Router other{env};
  FrontPage console{other, "1.2.3", {}, base::Bytes::constant("the console")};
  FakeExchange browser("GET", "/"), tool("GET", "/");
  browser.mutable_request().fields.add("accept", "text/html");
  (void)other.begin(browser), (void)other.begin(tool);
  EXPECT_EQ(browser.sent, "the console");
  EXPECT_NE(browser.response.fields.find("content-security-policy").find("script-src 'self'"), std::string_view::npos);
  EXPECT_EQ(browser.response.fields.find("vary"), "accept");
  EXPECT_EQ(json::parse(tool.sent)["version"], "1.2.3");
}

TEST_F(Site, ABrowserGetsThePageWithTheSameLinks) {
  FakeExchange x("GET", "/");
  x.mutable_request().fields.add("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
  std::string page = get(x);
  EXPECT_EQ(x.response.fields.find("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(x.response.fields.find("vary"), "accept");
  EXPECT_NE(page.find("<a href=\"v2/models\">/v2/models</a>"), page.npos);
  EXPECT_NE(page.find("<a href=\"metrics\">"), page.npos);
  EXPECT_EQ(page.find("=\"/"), page.npos) << "a proxy may serve it below a path";
  EXPECT_NE(page.find("weir 1.2.3"), page.npos);
  EXPECT_EQ(page.find("<!--"), page.npos) << "every mark is filled in";
}

TEST_F(Site, TheIconIsThere) {
  EXPECT_TRUE(get("/favicon.ico").starts_with("200 <svg"));
  EXPECT_TRUE(get("/favicon.svg").starts_with("200 <svg"));
}

TEST_F(Site, MetricsAreText) {
  metrics.counter("weir_x_total", "X.").add(3);
  FakeExchange x("GET", "/metrics");
  EXPECT_NE(get(x).find("weir_x_total 3\n"), std::string::npos);
  EXPECT_EQ(x.response.fields.find("content-type"), "text/plain; version=0.0.4; charset=utf-8");
}

// It takes long where there are many models.
TEST_F(Site, AWorkerWritesTheMetricsForAllWhoWaitForThem) {
  size_t written = 0;
  metrics.collect([&](std::string& out) { out += "weir_written " + std::to_string(++written) + "\n"; });
  FakeExchange first("GET", "/metrics"), second("GET", "/metrics"), gone("GET", "/metrics"), late("GET", "/metrics");
  for (auto* x : {&first, &second, &gone}) (void)router.begin(*x);
  EXPECT_FALSE(first.responding() || second.responding());
  EXPECT_EQ(written, 0u);
  gone.close(false);
  router.closed(gone);
  EXPECT_EQ(offload.cancelled, 1u);
  offload.work_one();
  (void)router.begin(late);
  offload.work();
  EXPECT_NE(first.sent.find("weir_written 1\n"), std::string::npos) << first.sent;
  EXPECT_EQ(second.sent, first.sent);
  EXPECT_NE(late.sent.find("weir_written 2\n"), std::string::npos) << "what was begun before it asked is old";
  for (auto* x : {&first, &second, &late}) router.closed(*x);
}

TEST_F(Site, AKeyOfSomeModelsSeesTheMetricsOfTheseAlone) {
  metrics.counter("weir_x_total", "X.", {{"model", "chat"}}).add(3);
  metrics.counter("weir_x_total", "X.", {{"model", "digits"}}).add(4);
  wire::Identity identity;
  identity.models = std::make_shared<const base::ModelScope>(std::vector<std::string>{"chat"});
  FakeExchange some("GET", "/metrics"), all("GET", "/metrics");
  some.mutable_request().identity = &identity;
  for (auto* x : {&all, &some}) (void)router.begin(*x);
  offload.work();
  EXPECT_NE(some.sent.find("weir_x_total{model=\"chat\"} 3\n"), std::string::npos) << some.sent;
  EXPECT_EQ(some.sent.find("digits"), std::string::npos) << some.sent;
  EXPECT_NE(all.sent.find("weir_x_total{model=\"digits\"} 4\n"), std::string::npos);
  for (auto* x : {&some, &all}) router.closed(*x);
}

TEST_F(Site, WhoeverIsRefusedWorkStillGetsTheMetrics) {
  offload.refusal = base::failure(base::Code::kResourceExhausted, "too much waits");
  EXPECT_TRUE(get("/metrics").starts_with("200 "));
}

// Every line is a comment or `name{labels} value`, and no series comes twice.
void expect_prometheus(const std::string& text) {
  static const std::regex kLine(R"re([a-z_:][a-z0-9_:]*(\{([a-z_]+="([^"\\\n]|\\.)*",?)+\})? -?[0-9.e+]+)re");
  std::set<std::string> series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) {
      EXPECT_TRUE(series.insert(line).second) << line;
      continue;
    }
    EXPECT_TRUE(std::regex_match(line, kLine)) << line;
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
}

TEST(ModelMetrics, EveryFamilyIsWellFormedAndNamesTheModel) {
  bus::Catalog catalog;
  auto served = std::make_shared<bus::Served>();
  served->stats.inference_count.add(12);
  served->stats.execution_count.add(3);
  served->stats.success.add(5'000'000, 12);
  served->stats.rejected = 2;
  for (uint32_t rows : {1, 3, 8}) served->stats.record_batch(rows, 1, 2, 3);
  catalog.models["a\"b"].versions["1"] = served;
  catalog.index.push_back({"a\"b", "1", bus::ModelState::kReady, ""});
  catalog.index.push_back({"c", "", bus::ModelState::kUnavailable, "broken"});
  std::string text;
  append_models(text, catalog);
  append_triton(text, catalog);
  append_process(text, "1.2.3");
  expect_prometheus(text);
  for (const char* line : {"weir_model_inferences_total{model=\"a\\\"b\",version=\"1\"} 12\n",
                           "weir_model_requests_total{model=\"a\\\"b\",version=\"1\",outcome=\"rejected\"} 2\n",
                           "weir_model_batch_rows_bucket{model=\"a\\\"b\",version=\"1\",le=\"4\"} 2\n",
                           "weir_model_batch_rows_sum{model=\"a\\\"b\",version=\"1\"} 12\n",
                           "weir_model_ready{model=\"c\",version=\"\"} 0\n",
                           "nv_inference_request_duration_us{model=\"a\\\"b\",version=\"1\"} 5000\n",
                           "nv_inference_request_failure{model=\"a\\\"b\",version=\"1\",reason=\"REJECTED\"} 2\n",
                           "weir_log_dropped_total 0\n", "weir_build_info{version=\"1.2.3\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

// The step counts them, too, and a scaler adds them up.
TEST(ModelMetrics, WhatWaitsInStepsIsPendingThereAndWhatWaitsBeforeThemInTheirModel) {
  bus::Catalog catalog;
  auto ensemble = std::make_shared<bus::Served>(), step = std::make_shared<bus::Served>();
  ensemble->spec.configured.steps.push_back({});
  ensemble->stats.pending = 6, ensemble->stats.held = 2;
  step->stats.pending = 5, step->stats.held = 1;
  catalog.models["ensemble"].versions["1"] = ensemble;
  catalog.models["step"].versions["1"] = step;
  std::string text;
  append_models(text, catalog);
  append_triton(text, catalog);
  expect_prometheus(text);
  for (const std::string name : {"weir_model_pending", "nv_inference_pending_request_count"})
    for (const char* line : {"{model=\"ensemble\",version=\"1\"} 2\n", "{model=\"step\",version=\"1\"} 6\n"})
      EXPECT_NE(text.find(name + line), std::string::npos) << name << line << text;
}

TEST(TokenMetrics, ModelsOfTokensHaveFamiliesOfTheirOwnAndUnderVllmsNames) {
  bus::Catalog catalog;
  std::string text;
  append_tokens(text, catalog);
  append_vllm(text, catalog);
  EXPECT_EQ(text, "");
  catalog.models["tensors"].versions["1"] = std::make_shared<bus::Served>();
  for (const char* version : {"1", "2"}) {
    auto served = std::make_shared<bus::Served>();
    auto& stats = *(served->stats.tokens = std::make_unique<bus::TokenStats>());
    stats.time_to_first_token.record_ns(15'000'000);
    stats.inter_token.record_ns(3'000'000'000);
    stats.prompt_tokens.record_size(100);
    stats.max_tokens.record_size(16);
    stats.generated_total.add(7);
    stats.end(bus::TokenStats::Reason::kLength);
    stats.running.set(3);
    stats.blocks_used.set(1), stats.blocks_total.set(4);
    catalog.models["chat"].versions[version] = served;
  }
  append_tokens(text, catalog);
  append_vllm(text, catalog);
  expect_prometheus(text);
  for (const char* line :
       {"# TYPE weir_model_time_to_first_token_seconds histogram\n",
        "weir_model_time_to_first_token_seconds_bucket{model=\"chat\",version=\"1\",le=\"0.01\"} 0\n",
        "weir_model_time_to_first_token_seconds_bucket{model=\"chat\",version=\"1\",le=\"0.02\"} 1\n",
        "weir_model_time_to_first_token_seconds_bucket{model=\"chat\",version=\"1\",le=\"+Inf\"} 1\n",
        "weir_model_time_to_first_token_seconds_sum{model=\"chat\",version=\"1\"} 0.015\n",
        "weir_model_kv_usage_ratio{model=\"chat\",version=\"2\"} 0.25\n",
        "weir_model_sequences{model=\"chat\",version=\"1\",state=\"running\"} 3\n",
        "vllm:num_requests_running{model_name=\"chat\",engine=\"0\"} 3\n",
        "vllm:num_requests_waiting{model_name=\"chat\",engine=\"1\"} 0\n",
        "vllm:kv_cache_usage_perc{model_name=\"chat\",engine=\"0\"} 0.25\n",
        "vllm:generation_tokens_total{model_name=\"chat\",engine=\"0\"} 7\n",
        "vllm:request_success_total{model_name=\"chat\",engine=\"0\",finished_reason=\"length\"} 1\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"chat\",engine=\"0\",le=\"5\"} 1\n",
        "vllm:request_prompt_tokens_bucket{model_name=\"chat\",engine=\"0\",le=\"128\"} 1\n",
        "vllm:request_params_n_count{model_name=\"chat\",engine=\"0\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
  for (const char* family :
       {"num_preemptions_total", "prompt_tokens_total", "prefix_cache_queries_total", "prefix_cache_hits_total",
        "request_time_per_output_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
        "request_inference_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
        "request_generation_tokens", "request_params_max_tokens", "iteration_tokens_total"})
    EXPECT_NE(text.find("# TYPE vllm:" + std::string(family) + " "), std::string::npos) << family;
}

TEST(RequestMetrics, ReceivingAndSendingAreAroundTheQueueAndTheBatch) {
  using namespace std::chrono_literals;
  base::Metrics metrics;
  RequestMetrics request_metrics(metrics);
  FakeExchange x("POST", "/v2/models/m/infer");
  auto& record = x.record();
  record.protocol = "oip-rest", record.model = "m";
  record.began = x.time - 10ms;
  record.queue = 2ms, record.compute = 3ms;
  record.times = {x.time - 9ms, x.time - 8ms, x.time - 6ms, x.time - 6ms, x.time - 3ms};
  request_metrics.finished(x);
  record.code = base::Code::kInternal;  // it failed: its times are those of no whole way
  request_metrics.finished(x);
  const std::string text = metrics.text();
  for (const char* line :
       {"weir_model_receive_seconds_count{model=\"m\"} 1\n", "weir_model_receive_seconds_sum{model=\"m\"} 0.002",
        "weir_model_send_seconds_count{model=\"m\"} 1\n", "weir_model_send_seconds_sum{model=\"m\"} 0.003"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

struct MemoryInbox final : msg::Inbox, bus::TellsMemory {
  void put(msg::Call*) override {}
};

TEST(ModelMetrics, MemoryIsToldByWhatItIsForAndWhere) {
  bus::Catalog catalog;
  auto served = std::make_shared<bus::Served>();
  auto inbox = std::make_unique<MemoryInbox>();
  inbox->set_memory({{"weights", "cpu", 30}, {"kv", "cuda:0", 7}, {"kv", "cuda:0", 8}});
  served->inbox = std::move(inbox);
  catalog.models["m"].versions["1"] = served;
  std::string text;
  append_models(text, catalog);
  expect_prometheus(text);
  for (const char* line : {"weir_model_memory_bytes{model=\"m\",version=\"1\",what=\"weights\",place=\"cpu\"} 30\n",
                           "weir_model_memory_bytes{model=\"m\",version=\"1\",what=\"kv\",place=\"cuda:0\"} 15\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

struct DecoupledFake final : msg::Inbox, bus::CountsResponses, bus::HasLoadNotes {
  void put(msg::Call*) override {}
};

TEST(ModelMetrics, LoadsAndFirstResponsesHaveTritonsNames) {
  bus::Catalog catalog;
  for (const char* name : {"a", "b"}) {
    auto served = std::make_shared<bus::Served>();
    auto inbox = std::make_unique<DecoupledFake>();
    inbox->set_load_notes({std::chrono::milliseconds(1250), nullptr});
    for (uint64_t ms : {0, 1, 2, 100, 101}) inbox->first_responses().add(ms * 1'000'000 + 999'999);
    served->inbox = std::move(inbox);
    catalog.models[name].versions["1"] = served;
  }
  auto plain = std::make_shared<bus::Served>();
  plain->inbox = std::make_unique<MemoryInbox>();
  catalog.models["c"].versions["1"] = plain;
  std::string text;
  append_models(text, catalog);
  append_triton(text, catalog);
  expect_prometheus(text);
  const std::string histogram = "nv_inference_first_response_histogram_ms";
  for (const std::string& line :
       {std::string("weir_model_load_seconds{model=\"a\",version=\"1\"} 1.250000000\n"),
        std::string("nv_model_load_duration_secs{model=\"b\",version=\"1\"} 1.250000000\n"),
        histogram + "_bucket{model=\"a\",version=\"1\",le=\"100\"} 4\n",
        histogram + "_bucket{model=\"a\",version=\"1\",le=\"500\"} 5\n",
        histogram + "_bucket{model=\"a\",version=\"1\",le=\"+Inf\"} 5\n",
        histogram + "_sum{model=\"b\",version=\"1\"} 204\n", histogram + "_count{model=\"b\",version=\"1\"} 5\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find(histogram + "_count{model=\"c\""), std::string::npos);
}

TEST(ModelMetrics, BoundsOfFirstResponsesMayBeChosen) {
  bus::Catalog catalog;
  auto served = std::make_shared<bus::Served>();
  auto inbox = std::make_unique<DecoupledFake>();
  inbox->first_responses().set_bounds({-1, 0, 1, 2.5});
  served->inbox = std::move(inbox);
  catalog.models["m"].versions["1"] = served;
  std::string text;
  append_triton(text, catalog);
  for (const char* bound : {"-1", "0", "1", "2.5", "+Inf"})
    EXPECT_NE(text.find("version=\"1\",le=\"" + std::string(bound) + "\"} 0\n"), std::string::npos) << bound << text;
}

TEST(RequestMetrics, TheSeriesOfAModelEndWithIt) {
  base::Metrics metrics;
  std::set<std::string> served{"a", "b"};
  auto serves = [&](const std::string& model) { return served.contains(model); };
  RequestMetrics here(metrics, serves), there(metrics, serves);
  auto infer = [&](RequestMetrics& shard, const char* model) {
    FakeExchange x("POST", "/v2/models/m/infer");
    x.record().protocol = "oip-rest", x.record().model = model;
    x.record().compute = std::chrono::milliseconds(1);
    shard.finished(x);
  };
  for (const char* model : {"a", "b"}) infer(here, model), infer(there, model);
  const auto both = metrics.text();
  served = {"b"};
  for (auto* shard : {&here, &there}) shard->catalog_changed();
  infer(here, "a");  // it was in flight
  EXPECT_EQ(metrics.text().find("\"a\""), std::string::npos) << metrics.text();
  EXPECT_NE(metrics.text().find("weir_model_request_duration_seconds_count{model=\"b\"} 2\n"), std::string::npos);
  served = {"a", "b"};
  infer(there, "a");
  EXPECT_NE(metrics.text().find("weir_model_request_duration_seconds_count{model=\"a\"} 1\n"), std::string::npos);
  EXPECT_EQ(metrics.text().size(), both.size());
}

TEST(RequestMetrics, CountsByProtocolCodeAndModel) {
  base::Metrics metrics;
  RequestMetrics request_metrics(metrics);
  FakeExchange x("POST", "/v2/models/m/infer");
  x.record().protocol = "oip-rest";
  x.record().model = "m";
  x.record().bytes_in = 10;
  x.record().began = x.time - std::chrono::milliseconds(3);
  x.record().compute = std::chrono::milliseconds(1);
  request_metrics.finished(x);
  x.record().compute = {};  // refused before it ran, or a look at the model's metadata
  x.record().code = base::Code::kInvalidArgument;
  x.record().reject = wire::reason::kShape;
  request_metrics.finished(x);
  request_metrics.rejected(wire::reason::kFramingTe, *x.request().peer);
  std::string text = metrics.text();
  expect_prometheus(text);
  for (const char* line :
       {"weir_requests_total{protocol=\"oip-rest\",code=\"OK\"} 1\n",
        "weir_requests_total{protocol=\"oip-rest\",code=\"INVALID_ARGUMENT\"} 1\n",
        "weir_request_bytes_total{protocol=\"oip-rest\",direction=\"in\"} 20\n",
        "weir_request_duration_seconds_count{protocol=\"oip-rest\"} 2\n",
        "weir_model_request_duration_seconds_count{model=\"m\"} 1\n", "weir_model_queue_seconds_count{model=\"m\"} 1\n",
        "weir_rejects_total{reason=\"framing_te\"} 1\n", "weir_rejects_total{reason=\"shape\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

}  // namespace
}  // namespace weir::ops
