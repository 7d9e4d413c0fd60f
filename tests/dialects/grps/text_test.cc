// Models of text by way of GRPS: what their inputs are filled with, and what becomes of an answer that comes in pieces.
#include <gtest/gtest.h>

#include "bench.h"
#include "grps.pb.h"

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

TEST(GrpsText, StrDataIsThePromptAndTheAnswerStrData) {
  TextBench bench;
  bench.chat().script = {piece("a tool", true)};
  auto a = bench.predict(R"({"str_data":"What is curl?"})", "?model=chat");
  EXPECT_EQ(a.status, 200) << a.body;
  EXPECT_NE(a.body.find(R"("str_data": "a tool")"), a.body.npos) << a.body;
  EXPECT_EQ(bench.chat().seen.back(), R"(chat/1 rows=1 | text_input BYTES [1] ["What is curl?"])");
  a = bench.predict("What is wget?", "?model=chat", {{"content-type", "application/octet-stream"}});
  EXPECT_EQ(a.body, "a tool");
  EXPECT_EQ(bench.chat().seen.back(), R"(chat/1 rows=1 | text_input BYTES [1] ["What is wget?"])");
  bench.predict(R"({"gtensors":{"tensors":[{"dtype":9,"shape":[1],"flat_string":["hm"]}]}})", "?model=chat");
  EXPECT_EQ(bench.chat().seen.back(), R"(chat/1 rows=1 | text_input BYTES [1] ["hm"])") << "a lone tensor, too";
}

TEST(GrpsText, InputsThatAreOptionalDoNotStandInTheWayOfOneThatIsNot) {
  TextBench bench;
  msg::ModelSpec spec;
  spec.name = "embed", spec.version = "1", spec.max_batch = 4;
  spec.inputs = {{"input_ids", DType::kInt64, {-1}, false, {}}, {"attention_mask", DType::kInt64, {-1}, true, {}}};
  spec.outputs = {{"embedding", DType::kFp32, {2}, false, {}}};
  bench.models.add(spec);
  auto& embed = bench.models["embed"];
  embed.script = {{msg::Outputs{parse_tensors("embedding FP32 [1,2] [1,2]"), {}, true}}};
  EXPECT_EQ(bench.predict(R"({"ndarray":[5,6,7]})", "?model=embed").status, 200);
  EXPECT_EQ(embed.seen.back(), "embed/1 rows=1 | input_ids INT64 [1,3] [5,6,7]");
  EXPECT_EQ(
      bench.predict(std::string("\1\0\0\0\0\0\0\0", 8), "?model=embed", {{"content-type", "application/octet-stream"}})
          .status,
      200);
  EXPECT_EQ(embed.seen.back(), "embed/1 rows=1 | input_ids INT64 [1,1] [1]");
  auto a = bench.predict(
      R"({"gtensors":{"tensors":[{"name":"attention_mash","dtype":5,"shape":[1],"flat_int64":[1]}]}})", "?model=embed");
  EXPECT_NE(a.body.find("has no input 'attention_mash'; did you mean 'attention_mask'?"), a.body.npos) << a.body;
  a = bench.predict(R"({"str_data":"x"})", "?model=embed");
  EXPECT_NE(a.body.find("model 'embed' has input_ids INT64 [-1,-1], attention_mask INT64 [-1,-1] (optional)"),
            a.body.npos)
      << a.body;
}

TEST(GrpsText, AStreamBringsThePiecesAsTheyAreMade) {
  TextBench bench;
  auto x = bench.open_rest("POST", "/grps/v1/infer/predict?model=chat&streaming=true", R"({"str_data":"hi"})");
  ASSERT_EQ(bench.chat().held.size(), 1u);
  msg::Call* call = bench.chat().held[0];
  auto* stream = msg::find(call->parameters, "stream");
  ASSERT_TRUE(stream && std::get<bool>(*stream));
  bench.chat().post(call, piece("one"));
  bench.bus.turn();
  EXPECT_NE(x->sent.find(R"("str_data": "one")"), std::string::npos) << x->sent;
  bench.chat().finish(call, piece("", true));
  bench.bus.turn();
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->sent.find("str_data"), x->sent.rfind("str_data")) << "the end has no text of its own";

  pb::GrpsMessage question;
  question.set_model("chat");
  question.set_str_data("hi");
  auto rpc = bench.open_grpc("PredictStreaming", question.SerializeAsString());
  ASSERT_EQ(bench.chat().held.size(), 1u);
  EXPECT_TRUE(msg::find(bench.chat().held[0]->parameters, "stream"));
  bench.chat().finish(bench.chat().held[0], piece("all", true));
  bench.bus.turn();
  bench.open_rest("POST", "/grps/v1/infer/predict?streaming=true", kStreamed);
  ASSERT_EQ(bench.chat().held.size(), 1u);
  EXPECT_FALSE(msg::find(bench.chat().held[0]->parameters, "stream")) << "the request says so itself";
  bench.predict(R"({"str_data":"hi"})", "?model=chat");
  EXPECT_FALSE(msg::find(bench.chat().held.back()->parameters, "stream")) << "nor for one answer";
  bench.predict(R"({"str_data":"hi"})", "?model=my-text&streaming=true");
  EXPECT_FALSE(msg::find(bench.models["my-text"].held.back()->parameters, "stream")) << "nor of models of tensors";
}

TEST(GrpsText, ARoutesBodyMayBeThePrompt) {
  RouteSpec route;
  route.path = "/say";
  route.model = "chat";
  route.inputs = {{"text_input", "body"}};
  route.raw_output = "text_output";
  route.streaming = "query_param:live";
  Options options;
  options.routes.push_back(route);
  TextBench bench(std::move(options));
  bench.chat().script = {piece("one two", true)};
  EXPECT_EQ(bench.rest("POST", "/say", "What is curl?", {}).body, "one two");
  bench.chat().script = {piece("one"), piece(" two"), piece("", true)};
  EXPECT_EQ(bench.rest("POST", "/say?live=true", "What is curl?", {}).body, "one two");
}

}  // namespace
}  // namespace weir::grps
