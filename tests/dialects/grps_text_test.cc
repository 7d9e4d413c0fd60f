// Models of text by way of GRPS: what their inputs are filled with, and what becomes of an answer that comes in pieces.
#include <gtest/gtest.h>

#include "grps.pb.h"
#include "grps_bench.h"

namespace weir::grps {
namespace {

namespace pb = ::grps::protos::v1;
using msg::DType;
using support::parse_tensors;

msg::Event piece(std::string_view text, bool final = false) {
  msg::Outputs out{parse_tensors("text_output BYTES [1] [\"" + std::string(text) + "\"]"), {}, final};
  return {std::move(out)};
}

// The front of a model of text, as engines/llm declares it.
struct TextBench : Bench {
  explicit TextBench(Options options = {}) : Bench(std::move(options)) {
    msg::ModelSpec spec;
    spec.name = "chat", spec.version = "1", spec.platform = "weir_llm";
    spec.inputs = {{"text_input", DType::kBytes, {1}, false, {}},
                   {"stream", DType::kBool, {1}, true, {}},
                   {"sampling_parameters", DType::kBytes, {1}, true, {}}};
    spec.outputs = {{"text_output", DType::kBytes, {1}, false, {}}};
    spec.text = std::make_shared<msg::TextSpec>();
    models.add(spec);
  }
  support::ScriptedInbox& chat() { return models["chat"]; }
};

constexpr std::string_view kStreamed = R"({"model":"chat","gmap":{"s_s":{"text_input":"hi"},"s_i32":{"stream":1}}})";
constexpr std::string_view kPieces =
    "model 'chat' answers in more than one piece: use streaming=true, or PredictStreaming over gRPC";

TEST(GrpsText, AnAnswerInPiecesIsNoUnaryAnswer) {
  TextBench bench;
  bench.chat().script = {piece("Ja"), piece(" nein"), piece("", true)};
  auto a = bench.predict(kStreamed);
  EXPECT_EQ(a.status, 501);
  EXPECT_NE(a.body.find(kPieces), a.body.npos) << a.body;
  EXPECT_EQ(a.body.find("Ja"), a.body.npos);
  pb::GrpsMessage question, reply;
  question.set_model("chat");
  (*question.mutable_gmap()->mutable_s_s())["text_input"] = "hi";
  (*question.mutable_gmap()->mutable_s_i32())["stream"] = 1;
  auto x = bench.grpc("Predict", question.SerializeAsString());
  ASSERT_EQ(x.messages.size(), 1u);
  ASSERT_TRUE(reply.ParseFromString(x.messages[0]));
  EXPECT_EQ(reply.status().code(), 501);
  EXPECT_EQ(reply.status().msg(), kPieces);
  EXPECT_FALSE(reply.has_gmap());
}

TEST(GrpsText, TheModelIsToldAtTheFirstPiece) {
  TextBench bench;
  auto x = bench.open_rest("POST", "/grps/v1/infer/predict", kStreamed);
  ASSERT_EQ(bench.chat().held.size(), 1u);
  msg::Call* call = bench.chat().held[0];
  bench.chat().post(call, piece("one"));
  bench.bus.turn();
  EXPECT_EQ(x->response.status, 501);
  EXPECT_TRUE(call->cancelled);
  bench.chat().finish(call, {msg::Failed{base::failure(base::Code::kCancelled, "the client has left")}});
  bench.bus.turn();
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST(GrpsText, NorIsItTheAnswerOfARoute) {
  RouteSpec route;
  route.path = "/say";
  route.model = "chat";
  route.inputs = {{"text_input", "query:q"}, {"stream", "query:stream"}};
  Options options;
  options.routes.push_back(route);
  TextBench bench(std::move(options));
  bench.chat().script = {piece("one"), piece("", true)};
  EXPECT_EQ(bench.rest("POST", "/say?q=hi&stream=true").status, 501);
  bench.chat().script = {piece("one two", true)};
  EXPECT_EQ(bench.rest("POST", "/say?q=hi").body, R"({"text_output":"one two"})");
}

}  // namespace
}  // namespace weir::grps
