#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "base/encoding.h"
#include "dialects/ops/otlp.h"
#include "dialects/ops/request_spans.h"
#include "marshal/call_times.h"
#include "marshal/json_cursor.h"
#include "marshal/pb_wire.h"
#include "span_reader.h"
#include "support/fake_wire.h"

namespace weir::ops {
namespace {

using std::chrono::microseconds;
using support::FakeExchange;

struct Spans : testing::Test {
  base::FakeEnv env;
  base::Metrics metrics;
  std::mutex mutex;
  std::string posted;
  std::vector<std::string> baggage{"user.id"};
  SpanExporter exporter{[this](std::string spans) {
                          std::lock_guard lock(mutex);
                          posted += spans;
                          return SpanExporter::Reply{};
                        },
                        {},
                        metrics};
  RequestSpans spans{exporter, env, baggage};
  struct Ear final : msg::Sink {
    void on(msg::Call&, msg::Event&&) override {}
  } ear;
  static constexpr base::Time kBegan{std::chrono::seconds(1000)};

  ~Spans() override {
    exporter.stop(std::chrono::seconds(20), [] {});
  }

  wire::Trace& traced(FakeExchange& x) {
    auto& record = x.record();
    record.trace = std::make_unique<wire::Trace>();
    record.trace->id.fill(0xab), record.trace->span.fill(0xcd);
    record.trace->flags = 1, record.trace->sink = &spans;
    record.trace->began = record.began = kBegan;
    record.trace->to_unix_ns = int64_t(1'700'000'000) * 1'000'000'000 - kBegan.time_since_epoch().count();
    x.time = kBegan;
    return *record.trace;
  }
  // Ends the exchange; returns its spans by name, the request's own as "".
  std::map<std::string, Read> finish(FakeExchange& x) {
    spans.finished(x);
    spans.flush();
    exporter.stop(std::chrono::seconds(20), [] {});
    std::map<std::string, Read> out;
    PbReader r(posted);
    while (r.next()) {
      EXPECT_TRUE(r.is(2, PbType::kBytes));
      Read span = read_span(r.bytes());
      EXPECT_EQ(span.trace, "abababababababababababababababab");
      EXPECT_LE(span.start, span.end);
      out[span.kind == uint64_t(SpanKind::kServer) ? "" : span.name] = span;
    }
    EXPECT_TRUE(r.ok());
    return out;
  }
};

// A Call that has run.
void run(msg::Call& call, base::Time queued) {
  call.model = "m", call.version = "3", call.tenant = 0x1234;
  call.times.queued = call.times.received = queued;
  call.times.started = queued + microseconds(100), call.times.computing = queued + microseconds(110);
  call.times.computed = queued + microseconds(300), call.times.finished = queued + microseconds(310);
  call.times.batch_rows = 4;
}

struct WholeRequest : Spans {
  FakeExchange x{"POST", "/v2/models/m/infer?secret=1"};

  WholeRequest() {
    auto& trace = traced(x);
    trace.parent.fill(0xef), trace.state = "a=1";
    auto& record = x.record();
    record.protocol = "oip-rest", record.route = "/v2/models/{model}/infer", record.model = "m", record.version = "3";
    record.status = 200, record.bytes_in = 12, record.bytes_out = 34, record.request_id = "id-1";
    x.mutable_request().authority = "[::1]:8080";
    x.mutable_request().fields.add("user-agent", "curl/8");
    x.mutable_request().fields.add("baggage", "user.id=al%20ice,other=1");
    x.mutable_request().fields.add("authorization", "Bearer secret");
    trace.whole = kBegan + microseconds(20);
    msg::Call call;
    run(call, kBegan + microseconds(50));
    call.sink = &ear;
    marshal::record_call(record, call);
    x.time = kBegan + microseconds(500);
  }
};

TEST_F(WholeRequest, ItsSpanSaysWhatIsKnownAndNoSecret) {
  const Read request = finish(x).at("");
  EXPECT_EQ(request.name, "POST /v2/models/{model}/infer");
  EXPECT_EQ(request.parent, "efefefefefefefef");
  EXPECT_EQ(request.id, "cdcdcdcdcdcdcdcd");
  EXPECT_EQ(request.state, "a=1");
  EXPECT_EQ(request.flags, 0x301u);
  EXPECT_EQ(request.start, 1'700'000'000'000'000'000u);
  EXPECT_EQ(request.end, 1'700'000'000'000'500'000u);
  const std::map<std::string, std::string> want{{"http.request.method", "POST"},
                                                {"http.route", "/v2/models/{model}/infer"},
                                                {"url.path", "/v2/models/m/infer"},
                                                {"url.scheme", "http"},
                                                {"http.response.status_code", "200"},
                                                {"network.protocol.name", "http"},
                                                {"network.protocol.version", "1.1"},
                                                {"user_agent.original", "curl/8"},
                                                {"server.address", "::1"},
                                                {"server.port", "8080"},
                                                {"client.address", "127.0.0.1"},
                                                {"weir.protocol", "oip-rest"},
                                                {"weir.request_id", "id-1"},
                                                {"weir.model.name", "m"},
                                                {"weir.model.version", "3"},
                                                {"http.request.body.size", "12"},
                                                {"http.response.body.size", "34"},
                                                {"baggage.user.id", "al ice"}};
  EXPECT_EQ(request.attributes, want);
}

TEST_F(WholeRequest, ItsPartsNestAndFollowEachOther) {
  auto all = finish(x);
  const Read& request = all.at("");
  uint64_t at = request.start;
  for (auto [name, micros] : {std::pair("receive", 20u),
                              {"decode", 30u},
                              {"queue", 100u},
                              {"stage", 10u},
                              {"compute", 200u},
                              {"send", 140u}}) {
    ASSERT_TRUE(all.contains(name)) << name;
    const Read& child = all.at(name);
    EXPECT_EQ(child.parent, request.id);
    EXPECT_EQ(child.flags, 0x101u);
    EXPECT_EQ(child.start, at) << name;
    EXPECT_EQ(child.end - child.start, micros * 1000) << name;
    at = child.end;
  }
  EXPECT_EQ(at, request.end);
  EXPECT_EQ(all.at("compute").attributes.at("weir.batch.rows"), "4");
  EXPECT_EQ(all.at("compute").attributes.at("weir.tenant"), "0000000000001234");
  EXPECT_EQ(all.size(), 7u);
}

TEST_F(Spans, WhatALaneHasMeasuredWithinATurnOfTheShardStillNests) {
  FakeExchange x("POST", "/");
  traced(x);
  msg::Call call;
  run(call, kBegan);
  marshal::record_spans(x.record(), call, call.times.finished);
  auto all = finish(x);  // the shard's clock has not moved
  EXPECT_EQ(all.at("").end, all.at("compute").end);
  EXPECT_EQ(all.at("send").start, all.at("send").end);
}

TEST_F(Spans, TokensAreCountedAndTheFirstIsTimed) {
  FakeExchange x("POST", "/v1/chat/completions");
  traced(x);
  x.record().route = "/v1/chat/completions", x.record().model = "chat", x.record().status = 200;
  msg::Call call;
  run(call, kBegan);
  call.generation = std::make_unique<msg::Generation>();
  call.times.first_token = kBegan + microseconds(250);
  call.progress = {.prompt_tokens = 7, .cached_tokens = 2, .generated_tokens = 5, .finish = msg::Finish::kLength};
  marshal::record_spans(x.record(), call, call.times.finished);
  auto all = finish(x);
  for (const Read& span : {all.at(""), all.at("compute")}) {
    EXPECT_EQ(span.attributes.at("gen_ai.usage.input_tokens"), "7");
    EXPECT_EQ(span.attributes.at("gen_ai.usage.output_tokens"), "5");
    EXPECT_EQ(span.attributes.at("gen_ai.usage.cache_read.input_tokens"), "2");
    EXPECT_EQ(span.attributes.at("gen_ai.server.time_to_first_token"), "0.000250");
  }
  EXPECT_EQ(all.at("").attributes.at("gen_ai.operation.name"), "chat");
  EXPECT_EQ(all.at("").attributes.at("gen_ai.request.model"), "chat");
  EXPECT_EQ(all.at("").attributes.at("gen_ai.response.finish_reasons"), "[length]");
}

TEST_F(Spans, AGrpcErrorOfTheServerHasItsCodeAndItsWords) {
  FakeExchange x("POST", "/inference.GRPCInferenceService/ModelInfer");
  traced(x);
  x.mutable_request().fields.add("content-type", "application/grpc");
  x.mutable_request().version = wire::Version::kHttp2;
  x.record().route = "/inference.GRPCInferenceService/ModelInfer", x.record().status = 200;
  x.record().set_outcome(base::failure(base::Code::kInternal, "the model gave no answer"));
  auto all = finish(x);
  const Read& request = all.at("");
  EXPECT_EQ(request.name, "inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(request.attributes.at("rpc.system"), "grpc");
  EXPECT_EQ(request.attributes.at("rpc.service"), "inference.GRPCInferenceService");
  EXPECT_EQ(request.attributes.at("rpc.method"), "ModelInfer");
  EXPECT_EQ(request.attributes.at("rpc.grpc.status_code"), "13");
  EXPECT_EQ(request.attributes.at("error.type"), "INTERNAL");
  EXPECT_EQ(request.status, 2u);
  EXPECT_EQ(request.message, "the model gave no answer");
  EXPECT_EQ(request.parent, "");
}

TEST_F(Spans, ACallOfConnectSaysSo) {
  FakeExchange x("POST", "/inference.GRPCInferenceService/ModelInfer");
  traced(x);
  x.mutable_request().fields.add("content-type", "application/proto");
  x.record().route = "/inference.GRPCInferenceService/ModelInfer", x.record().status = 503;
  x.record().set_outcome(base::failure(base::Code::kUnavailable, "the server drains"));
  auto all = finish(x);
  const Read& request = all.at("");
  EXPECT_EQ(request.name, "inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(request.attributes.at("rpc.system"), "connect_rpc");
  EXPECT_EQ(request.attributes.at("rpc.method"), "ModelInfer");
  EXPECT_EQ(request.attributes.at("rpc.connect_rpc.error_code"), "unavailable");
  EXPECT_FALSE(request.attributes.contains("rpc.grpc.status_code"));
  EXPECT_EQ(request.status, 2u);
}

TEST_F(Spans, PlainJsonOfAMethodIsNotConnect) {
  FakeExchange x("POST", "/inference.GRPCInferenceService/ModelInfer");
  traced(x);
  x.mutable_request().fields.add("content-type", "application/json");
  x.record().route = "/inference.GRPCInferenceService/ModelInfer", x.record().status = 200;
  auto all = finish(x);
  EXPECT_EQ(all.at("").name, "POST /inference.GRPCInferenceService/ModelInfer");
  EXPECT_FALSE(all.at("").attributes.contains("rpc.system"));
}

TEST_F(Spans, AClientsMistakeIsNoErrorOfTheServer) {
  FakeExchange x("POST", "/v2/models/n/infer");
  traced(x);
  x.record().status = 404;
  x.record().set_outcome(base::failure(base::Code::kNotFound, "unknown model 'n'"));
  auto all = finish(x);
  EXPECT_EQ(all.at("").status, 0u);
  EXPECT_EQ(all.at("").attributes.at("error.type"), "NOT_FOUND");
  EXPECT_EQ(all.at("").name, "POST");
}

TEST_F(Spans, ACallThatHasFailedInTheQueueEndsThere) {
  FakeExchange x("POST", "/");
  traced(x);
  msg::Call call;
  run(call, kBegan);
  call.times.started = call.times.computing = call.times.computed = base::kNever;
  call.progress.code = base::Code::kResourceExhausted;
  marshal::record_spans(x.record(), call, call.times.finished);
  auto all = finish(x);
  EXPECT_EQ(all.at("queue").attributes.at("error.type"), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(all.at("queue").status, 2u);
  EXPECT_FALSE(all.contains("compute"));
}

// A step of a pipeline that took 30 microseconds from `at`, of which it waited 10.
msg::StepTimes step_at(std::string name, int at) {
  auto time = [&](int micros) { return Spans::kBegan + microseconds(at + micros); };
  msg::StepTimes step{.name = name, .model = "model of " + name, .version = "2"};
  step.times.queued = time(0), step.times.started = time(10), step.times.computing = time(15);
  step.times.finished = time(30), step.times.batch_rows = 8;
  return step;
}

TEST_F(Spans, OfAPipelineEachStepHasASpanAndItsPartsAreBelowIt) {
  FakeExchange y("POST", "/v2/models/pipe/infer");
  traced(y);
  msg::Call call;
  run(call, kBegan);
  call.model = "pipe", call.sink = &ear;
  call.steps = std::make_unique<msg::PipelineSteps>();
  call.steps->add(step_at("first", 0), {});
  msg::PipelineSteps parts;
  parts.add(step_at("inside", 40), {});
  call.steps->add(step_at("nested", 40), std::move(parts));
  msg::StepTimes refused = step_at("refused", 80);
  refused.times.started = refused.times.computing = base::kNever, refused.code = base::Code::kResourceExhausted;
  call.steps->add(refused, {});
  marshal::record_call(y.record(), call);

  spans.finished(y);
  spans.flush();
  exporter.stop(std::chrono::seconds(20), [] {});
  std::map<std::string, Read> by_id;
  std::map<std::string, std::string> paths;  // by id: the names from the request down
  std::multiset<std::string> found;
  std::vector<Read> all;
  for (PbReader r(posted); r.next();) all.push_back(read_span(r.bytes()));
  for (const Read& span : all) by_id[span.id] = span;
  for (const Read& span : all) {
    std::string path = span.name;
    for (const Read* at = &span; by_id.contains(at->parent);) {
      const Read& above = by_id.at(at->parent);
      EXPECT_TRUE(above.start <= at->start && at->end <= above.end) << path;
      at = &above;
      path = above.name + "/" + path;
    }
    found.insert(path);
  }
  const std::string all_of = "POST/pipeline/";
  EXPECT_EQ(found, (std::multiset<std::string>{
                       "POST", "POST/receive", "POST/pipeline", "POST/send", all_of + "first", all_of + "first/queue",
                       all_of + "first/stage", all_of + "first/compute", all_of + "nested", all_of + "nested/inside",
                       all_of + "nested/inside/queue", all_of + "nested/inside/stage", all_of + "nested/inside/compute",
                       all_of + "refused", all_of + "refused/queue"}));
  auto named = [&](std::string_view name) {
    return *std::find_if(all.begin(), all.end(), [&](const Read& span) { return span.name == name; });
  };
  EXPECT_EQ(named("pipeline").attributes.at("weir.model.name"), "pipe");
  EXPECT_EQ(named("first").attributes.at("weir.model.name"), "model of first");
  EXPECT_EQ(named("first").attributes.at("weir.step.name"), "first");
  EXPECT_EQ(named("first").attributes.at("weir.batch.rows"), "8");
  EXPECT_EQ(named("refused").attributes.at("error.type"), "RESOURCE_EXHAUSTED");
}

TEST_F(Spans, AStrangersTraceIsALink) {
  FakeExchange x("POST", "/");
  traced(x).linked_trace.fill(0x11);
  EXPECT_EQ(finish(x).at("").linked, std::string(32, '1'));
}

// A collector refuses a whole request for one string that is not UTF-8.
TEST_F(Spans, WhatAClientSendsStaysShortAndUtf8) {
  FakeExchange x("BR\xffW", "/\xff\xfe" + std::string(5000, 'x'));
  traced(x);
  x.mutable_request().fields.add("user-agent", std::string(255, 'a') + "\xc3\xa4" + std::string(1000, 'b'));
  x.mutable_request().fields.add("baggage", "user.id=%ff%00%fe");
  x.mutable_request().authority = "h\x80:99999";
  x.record().model = "\xed\xa0\x80";
  auto all = finish(x);  // which checks each text
  for (const auto& [key, value] : all.at("").attributes) EXPECT_LE(value.size(), 300u) << key;
  EXPECT_EQ(all.at("").name, "HTTP");
  EXPECT_EQ(all.at("").attributes.at("http.request.method"), "_OTHER");
  EXPECT_EQ(all.at("").attributes.at("user_agent.original"), std::string(255, 'a'));
  EXPECT_FALSE(all.at("").attributes.contains("server.port"));
}

TEST_F(Spans, ARequestThatIsNotTracedLeavesNothing) {
  FakeExchange x("GET", "/livez");
  EXPECT_TRUE(finish(x).empty());
}

TEST(Otlp, ARequestHoldsTheResourceTheScopeAndTheSpans) {
  std::string spans;
  SpanWriter writer(spans);
  writer.head("n", SpanKind::kServer, 1, 2);
  writer.finish();
  std::string request = export_request({{"service.name", "s"}}, "1.2", spans);
  PbReader r(request);
  ASSERT_TRUE(r.next());
  ASSERT_TRUE(r.is(1, PbType::kBytes));
  EXPECT_EQ(r.encoded_size(), request.size());
  PbReader resource_spans(r.bytes());
  ASSERT_TRUE(resource_spans.next());
  PbReader resource(resource_spans.bytes());
  ASSERT_TRUE(resource.next());
  EXPECT_EQ(key_value(resource.bytes()), (std::pair<std::string, std::string>("service.name", "s")));
  ASSERT_TRUE(resource_spans.next());
  PbReader scope_spans(resource_spans.bytes());
  ASSERT_TRUE(scope_spans.next());
  PbReader scope(scope_spans.bytes());
  ASSERT_TRUE(scope.next());
  EXPECT_EQ(scope.bytes(), "weir");
  ASSERT_TRUE(scope.next());
  EXPECT_EQ(scope.bytes(), "1.2");
  ASSERT_TRUE(scope_spans.next());
  EXPECT_EQ(read_span(scope_spans.bytes()).name, "n");
  EXPECT_FALSE(scope_spans.next() || resource_spans.next() || r.next());
}

TEST(Otlp, APartialSuccessIsReadAndRubbishSaysNothing) {
  std::string partial, response;
  marshal::put_tag(partial, 1, PbType::kVarint);
  marshal::put_varint(partial, 3);
  marshal::put_bytes(partial, 2, "quota\xff");
  marshal::put_bytes(response, 1, partial);
  EXPECT_EQ(read_export_response(response).rejected, 3u);
  EXPECT_EQ(read_export_response(response).why, "quota?");
  EXPECT_EQ(read_export_response({}).rejected, 0u);
  for (size_t n = 1; n < response.size(); ++n) EXPECT_EQ(read_export_response(response.substr(0, n)).rejected, 0u) << n;
  EXPECT_EQ(read_export_response("<html>").rejected, 0u);
}

}  // namespace
}  // namespace weir::ops
