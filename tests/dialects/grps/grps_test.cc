// Health, metadata, which model is meant, streams.
#include "dialects/grps/grps.h"

#include "messages.h"
#include "support/fake_offload.h"
#include "wire/offload.h"

namespace weir::grps {
namespace {

TEST(GrpsHealth, OfflineMakesItNotReadyButKeepsItAlive) {
  Bench bench;
  auto get = [&](std::string what) { return bench.rest("GET", "/grps/v1/health/" + what).status; };
  EXPECT_EQ(bench.rest("GET", "/grps/v1/health/ready").body, std::string(kOk) + "\n}\n");
  EXPECT_EQ(get("offline"), 200);
  EXPECT_EQ(get("ready"), 503);
  EXPECT_EQ(get("live"), 200);
  EXPECT_EQ(bench.rest("POST", "/grps/v1/health/online", "{}").status, 200);
  EXPECT_EQ(get("ready"), 200);
  bench.ready = false;
  EXPECT_EQ(bench.rest("POST", "/grps/v1/health/ready", "{}").body, failure(503, "the server is not ready"));
}

TEST(GrpsHealth, TheCallsSayTheSame) {
  Bench bench;
  auto call = [&](std::string method) {
    auto a = bench.grpc(std::move(method), "");
    EXPECT_EQ(a.status, 0) << a.body;
    pb::GrpsMessage m;
    EXPECT_TRUE(a.messages.size() == 1 && m.ParseFromString(a.messages[0]));
    return m.status();
  };
  EXPECT_EQ(call("CheckReadiness").ShortDebugString(), "code: 200 msg: \"OK\" status: SUCCESS");
  call("Offline");
  EXPECT_EQ(call("CheckReadiness").ShortDebugString(), "code: 503 msg: \"the server is offline\" status: FAILURE");
  EXPECT_EQ(call("CheckLiveness").code(), 200);
  call("Online");
  EXPECT_EQ(call("CheckReadiness").code(), 200);
}

TEST(GrpsMetadata, IsYamlInStrData) {
  Bench bench;
  auto server = parse(bench.rest("GET", "/grps/v1/metadata/server").body).str_data();
  EXPECT_NE(server.find("version: \"1.2.3\"\n"), server.npos) << server;
  EXPECT_NE(server.find("- name: \"broken\"\n  version: \"1\"\n  state: \"UNAVAILABLE\"\n"), server.npos) << server;
  auto model = parse(bench.rest("POST", "/grps/v1/metadata/model", R"({"str_data":"add-1"})").body).str_data();
  EXPECT_EQ(model,
            "name: \"add\"\nversion: \"1\"\nplatform: \"onnxruntime_onnx\"\nmax_batch_size: 4\n"
            "dynamic_batching: false\ninstances: 1\nstreaming: false\ninputs:\n- name: \"a\"\n  dtype: \"INT32\"\n"
            "  shape: [-1,2]\n- name: \"b\"\n  dtype: \"INT32\"\n  shape: [-1,2]\n  optional: true\noutputs:\n"
            "- name: \"sum\"\n  dtype: \"INT32\"\n  shape: [-1,2]\n");
  EXPECT_EQ(bench.rest("POST", "/grps/v1/metadata/model", R"({"str_data":"nothing"})").status, 404);
  pb::GrpsMessage question;
  question.set_str_data("add");
  pb::GrpsMessage answer;
  ASSERT_TRUE(answer.ParseFromString(bench.grpc("ModelMetadata", question.SerializeAsString()).messages.at(0)));
  EXPECT_NE(answer.str_data().find("version: \"2\""), std::string::npos);
}

TEST(GrpsRest, StrayPathsAreToldInTheProtocolsShape) {
  Bench bench;
  auto a = bench.rest("GET", "/grps/v1/nothing");
  EXPECT_EQ(a.status, 404);
  EXPECT_EQ(parse(a.body).status().status(), pb::Status::FAILURE);
  EXPECT_EQ(parse(a.body).status().code(), 404);
  auto method = bench.rest("GET", "/grps/v1/infer/predict");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(parse(method.body).status().code(), 405);
}

// ---- Which model

TEST(GrpsModel, ThePayloadWinsOverTheQueryAndNamesMayHaveDashes) {
  Bench bench;
  for (auto name : {"add/1", "add/2", "my-text"}) bench.models[name].script.push_back(outputs("o INT32 [1] [1]"));
  std::string two = R"("gtensors":{"tensors":[{"name":"a","dtype":4,"shape":[1,2],"flat_int32":[1,2]}]}})";
  EXPECT_EQ(bench.predict("{" + two, "?model=add-1").status, 200);
  EXPECT_EQ(bench.predict("{" + two, "?model=add-2.0.0").status, 200);
  EXPECT_EQ(bench.predict(R"({"model":"add-2",)" + two, "?model=nothing").status, 200);
  EXPECT_EQ(bench.predict(R"({"str_data":"x"})", "?model=my-text").status, 200);
  EXPECT_EQ(bench.predict(R"({"str_data":"x"})", "?model=my-text-1").status, 200);
  EXPECT_EQ(bench.models["my-text"].seen.size(), 2u);
  EXPECT_EQ(bench.predict("{" + two, "?model=add-7").status, 404);
  EXPECT_EQ(bench.predict(R"({"str_data":"x"})", "?model=ad").body,
            failure(404, "Request for unknown model: 'ad' is not found; did you mean 'add'?"));
  EXPECT_EQ(bench.predict(R"({"str_data":"x"})", "?model=broken").status, 503);
  EXPECT_EQ(bench.predict(R"({"str_data":"x"})").status, 400);
}

TEST(GrpsModel, TheDefaultServesThoseWhoNameNone) {
  Bench bench;
  bench.models.catalog->default_model = "any";
  EXPECT_EQ(bench.predict(R"({"str_data":"hello"})").body, std::string(kOk) + ",\n \"str_data\": \"hello\"\n}\n");
}

TEST(GrpsStream, PartsAreConcatenatedAsTheReferenceServerDoes) {
  Bench bench;
  bench.models["flow"].script = {outputs("o INT32 [1] [1]", false), outputs("o INT32 [1] [2]", false), {msg::Done{}}};
  std::string body = R"({"gtensors":{"tensors":[{"name":"n","dtype":4,"shape":[1],"flat_int32":[7]}]}})";
  auto a = bench.predict(body, "?model=flow&streaming=true");
  EXPECT_EQ(a.status, 200);
  EXPECT_EQ(a.type, "application/octet-stream");
  size_t seam = a.body.find("}\n{");
  ASSERT_NE(seam, std::string::npos);
  EXPECT_EQ(parse(a.body.substr(0, seam + 2)).gtensors().tensors(0).flat_int32(0), 1);
  EXPECT_EQ(parse(a.body.substr(seam + 2)).gtensors().tensors(0).flat_int32(0), 2);
  EXPECT_EQ(bench.predict(body, "?model=flow").status, 501);
}

TEST(GrpsStream, LinesAndEventsWhereTheClientAcceptsThem) {
  for (auto [accept, type, first] :
       {std::tuple{"application/json, application/x-ndjson", "application/x-ndjson", "{\"status\""},
        std::tuple{"text/event-stream", "text/event-stream; charset=utf-8", "data: {\"status\""}}) {
    Bench bench;
    bench.models["my-text"].script.push_back(outputs("t BYTES [1] [\"a\"]"));
    auto a = bench.predict(R"({"str_data":"x"})", "?model=my-text&streaming=true", {{"accept", accept}});
    EXPECT_EQ(a.type, type);
    EXPECT_TRUE(a.body.starts_with(first)) << a.body;
    EXPECT_EQ(std::count(a.body.begin(), a.body.end(), '\n'), a.type.starts_with("text/") ? 2 : 1);
  }
  Bench bench;
  auto a = bench.predict("raw", "?model=any&streaming=true",
                         {{"content-type", "application/octet-stream"}, {"accept", "text/event-stream;q=0, */*"}});
  EXPECT_EQ(a.type, "application/octet-stream");
  EXPECT_EQ(a.body, "raw");
}

TEST(GrpsStream, AFailureIsTheLastPart) {
  Bench bench;
  bench.models["flow"].script = {outputs("o INT32 [1] [1]", false),
                                 {msg::Failed{base::failure(base::Code::kInternal, "it broke")}}};
  pb::GrpsMessage question, reply;
  question.set_model("flow");
  (*question.mutable_gmap()->mutable_s_i32())["n"] = 1;
  auto a = bench.grpc("PredictStreaming", question.SerializeAsString());
  EXPECT_EQ(a.status, 0);
  ASSERT_EQ(a.messages.size(), 2u);
  ASSERT_TRUE(reply.ParseFromString(a.messages[0]));
  EXPECT_EQ(reply.gmap().s_i32().at("o"), 1);
  ASSERT_TRUE(reply.ParseFromString(a.messages[1]));
  EXPECT_EQ(reply.status().msg(), "it broke");
  auto rest = bench.predict(R"({"gmap":{"s_i32":{"n":1}}})", "?model=flow&streaming=true");
  EXPECT_EQ(rest.status, 200);
  EXPECT_TRUE(rest.body.ends_with(failure(500, "it broke"))) << rest.body;
}

TEST(GrpsStream, AClientThatLeavesCancelsItsCall) {
  Bench bench;
  auto x = bench.open_rest("POST", "/grps/v1/infer/predict?model=flow&streaming=true", R"({"gmap":{"s_i32":{"n":1}}})");
  auto& inbox = bench.models["flow"];
  ASSERT_EQ(inbox.held.size(), 1u);
  x.reset();
  EXPECT_TRUE(inbox.held[0]->cancelled);
  inbox.finish(inbox.held[0], {msg::Done{}});
  bench.bus.turn();
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST(GrpsRest, LongJsonIsReadAndWrittenByWorkers) {
  support::FakeOffload offload;
  Options options;
  options.offload = &offload;
  Bench bench(options);
  std::string numbers = "1";
  while (numbers.size() <= wire::kLongBody) numbers += ",1";
  auto x = bench.open_rest("POST", "/grps/v1/infer/predict?model=nobody", R"({"ndarray":[)" + numbers + "]}");
  EXPECT_EQ(offload.waiting(), 1u);
  EXPECT_FALSE(x->ended);
  offload.work_one();
  EXPECT_EQ(x->response.status, 404) << "it has been read";
  auto bad = bench.open_rest("POST", "/grps/v1/infer/predict?model=nobody", R"({"ndarray":[)" + numbers);
  offload.work();
  EXPECT_EQ(bad->response.status, 400);
  offload.refusal = base::try_again(base::Code::kResourceExhausted, "full");
  auto full = bench.open_rest("POST", "/grps/v1/infer/predict?model=nobody", R"({"ndarray":[)" + numbers + "]}");
  EXPECT_EQ(full->response.status, 429);
  offload.refusal = {};
  bench.open_rest("POST", "/grps/v1/infer/predict?model=nobody", R"({"ndarray":[)" + numbers + "]}").reset();
  EXPECT_EQ(offload.cancelled, 1u);
}

TEST(GrpsGrpc, ManyElementsAreWrittenByWorkersInTheirOrder) {
  support::FakeOffload offload;
  Options options;
  options.offload = &offload;
  Bench bench(options);
  std::string numbers = "1";
  for (int i = 1; i < 300'000; ++i) numbers += ",1";
  const msg::Event many = outputs("o INT32 [300000] [" + numbers + "]", false), few = outputs("o INT32 [1] [7]", false);
  pb::GrpsMessage question, reply;
  question.set_model("flow");
  (*question.mutable_gmap()->mutable_s_i32())["n"] = 1;
  for (const msg::Event& end : {msg::Event{msg::Done{}}, msg::Event{msg::Failed{base::invalid("it broke")}}}) {
    bench.models["flow"].script = {few, many, few, many, end};
    auto x = bench.open_grpc("PredictStreaming", question.SerializeAsString());
    EXPECT_EQ(support::grpc_frames(x->sent).size(), 1u) << "others are behind the long one";
    EXPECT_EQ(offload.waiting(), 1u);
    offload.work();
    bench.bus.turn();
    const auto frames = support::grpc_frames(x->sent);
    const bool failed = std::holds_alternative<msg::Failed>(end.what);
    ASSERT_EQ(frames.size(), failed ? 5u : 4u);
    for (size_t i : {0, 1, 2, 3}) {
      ASSERT_TRUE(reply.ParseFromString(frames[i].payload));
      EXPECT_EQ(reply.gtensors().tensors_size() == 1 ? reply.gtensors().tensors(0).flat_int32_size() : 1,
                i % 2 ? 300'000 : 1);
    }
    if (failed) {
      EXPECT_TRUE(reply.ParseFromString(frames[4].payload));
      EXPECT_EQ(reply.status().msg(), "it broke");
    }
    EXPECT_TRUE(x->ended);
  }
  bench.models["flow"].script = {many, {msg::Done{}}};
  bench.open_grpc("PredictStreaming", question.SerializeAsString()).reset();
  EXPECT_EQ(offload.cancelled, 1u);
  bench.models["flow"].script = {many, many, {msg::Done{}}};
  auto x = bench.open_grpc("PredictStreaming", question.SerializeAsString());
  offload.fail(base::try_again(base::Code::kUnavailable, "the server stops"));
  EXPECT_TRUE(x->ended);
  ASSERT_TRUE(reply.ParseFromString(support::grpc_frames(x->sent).at(0).payload));
  EXPECT_EQ(reply.status().code(), 503);
}

TEST(GrpsGrpc, ElementsOfManyAreReadByWorkers) {
  support::FakeOffload offload;
  Options options;
  options.offload = &offload;
  Bench bench(options);
  auto message = [](pb::DataType type, size_t count) {
    pb::GrpsMessage m;
    m.set_model("nobody");
    auto& t = *m.mutable_gtensors()->add_tensors();
    t.set_name("x"), t.set_dtype(type), t.add_shape(uint32_t(count));
    if (type == pb::DT_INT32)
      for (size_t i = 0; i < count; ++i) t.add_flat_int32(1);
    else
      t.mutable_flat_float32()->Resize(int(count), 1.0f);
    return m.SerializeAsString();
  };
  auto code = [](const support::FakeExchange& x) {
    pb::GrpsMessage reply;
    EXPECT_TRUE(reply.ParseFromString(support::grpc_frames(x.sent).at(0).payload));
    return reply.status().code();
  };
  auto few = bench.open_grpc("Predict", message(pb::DT_INT32, 1000)),
       as_they_are = bench.open_grpc("Predict", message(pb::DT_FLOAT32, 2 << 20));
  EXPECT_EQ(offload.waiting(), 0u);
  EXPECT_TRUE(few->ended && as_they_are->ended);
  auto many = bench.open_grpc("Predict", message(pb::DT_INT32, 2 << 20));
  EXPECT_EQ(offload.waiting(), 1u);
  EXPECT_FALSE(many->ended);
  offload.work();
  EXPECT_EQ(code(*many), 404) << "it has been read";
  EXPECT_EQ(code(*few), 404);
  offload.refusal = base::try_again(base::Code::kResourceExhausted, "full");
  auto full = bench.open_grpc("Predict", message(pb::DT_INT32, 2 << 20));
  EXPECT_EQ(code(*full), 429);
  offload.refusal = {};
  bench.open_grpc("Predict", message(pb::DT_INT32, 2 << 20)).reset();
  EXPECT_EQ(offload.cancelled, 1u);
  EXPECT_EQ(code(*bench.open_grpc("Online", message(pb::DT_INT32, 2 << 20))), 400) << "it only names a model";
}

}  // namespace
}  // namespace weir::grps
