// weir bench and weir trace: what they compute.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "app/tools/bench_answer.h"
#include "app/tools/bench_loop.h"
#include "app/tools/bench_report.h"
#include "app/tools/bench_request.h"
#include "app/tools/bench_session.h"
#include "app/tools/bench_tensor.h"
#include "app/tools/follow.h"
#include "marshal/pb_wire.h"

namespace weir::app {
namespace {

using msg::DType;
using msg::Tensor;
using nlohmann::json;

// --- the report ------------------------------------------------------------------------------------------------------

TEST(Percentile, IsTheNearestRank) {
  const std::vector<double> sorted{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(percentile(sorted, 0.5), 5);
  EXPECT_EQ(percentile(sorted, 0.9), 9);
  EXPECT_EQ(percentile(sorted, 0.91), 10);
  EXPECT_EQ(percentile(sorted, 0), 1);
  EXPECT_EQ(percentile(sorted, 1), 10);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

// A server that answers in 1 ms, but stalls for one second: of an open loop of 10 requests a second ten were due
// meanwhile, and each of them has waited.
TEST(BenchReport, AStallIsChargedToAllThatWasDueMeanwhile) {
  BenchRun run;
  run.loop = BenchRun::Loop::kOpen;
  run.seconds = 2;
  for (int i = 0; i < 20; ++i) {
    const double due = i * 0.1, started = std::max(due, i < 10 ? 1.0 : 0.0);
    run.samples.push_back({due, started, started, started + 0.001, 0, 0});
  }
  const json out = json::parse(bench_json(run));
  EXPECT_NEAR(out["latency"]["max"].get<double>(), 1.001, 1e-9);
  EXPECT_NEAR(out["latency"]["p50"].get<double>(), 0.001, 1e-9);
  EXPECT_NEAR(out["latency"]["p90"].get<double>(), 0.801, 1e-9);
  EXPECT_EQ(out["late"], 10);
  EXPECT_NE(bench_table(run).find("10 were sent more than 1 ms late; their wait counts\n"), std::string::npos);
}

TEST(BenchReport, FailuresAreCountedByTheirTextAndHaveNoLatency) {
  BenchRun run;
  run.seconds = 2;
  const uint32_t full = run.number_of("full");
  run.samples = {{0, 0, 0.5, 1, 3, 0}, {0, 0, 0, 1, 0, full}, {0, 0, 0, 2, 0, full}};
  const std::string table = bench_table(run);
  EXPECT_TRUE(table.starts_with("3 requests in 2.0 s: 0.5/s answered, 2 failed\n  2 x full\n3 tokens: 1.5/s\n"))
      << table;
  EXPECT_NE(table.find("latency                1000.000   1000.000"), table.npos) << table;
  EXPECT_NE(table.find("time to first token     500.000"), table.npos) << table;
  EXPECT_EQ(json::parse(bench_json(run))["errors"]["full"], 2);
}

TEST(BenchReport, ErrorsWithoutNumberAreCountedTogether) {
  BenchRun run;
  for (size_t i = 0; i < 1000; ++i) run.number_of(std::to_string(i));
  EXPECT_EQ(run.errors.size(), BenchRun::kMostErrors + 1);
  EXPECT_EQ(run.errors.back(), "others");
  EXPECT_EQ(run.number_of("5"), 6u);
}

TEST(BenchReport, ThreadsBecomeOneRun) {
  BenchRun all, other;
  all.number_of("a");
  other.samples = {{0, 0, 0, 1, 0, other.number_of("b")}, {0, 0, 0, 1, 0, other.number_of("a")}, {}};
  other.seconds = 3, other.busy = 0.5;
  all.merge(std::move(other));
  EXPECT_EQ(all.errors, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(all.samples[0].error, 2u);
  EXPECT_EQ(all.samples[1].error, 1u);
  EXPECT_EQ(all.samples[2].error, 0u);
  EXPECT_EQ(all.seconds, 3);
}

TEST(BenchReport, TheCsvHasALinePerRequestInTheOrderOfTheirEnds) {
  BenchRun run;
  run.samples = {{0, 0, 2, 2, 0, run.number_of("a \"b\"")}, {0.5, 0.5, 1, 1, 4, 0}};
  EXPECT_EQ(bench_csv(run),
            "due,started,first,ended,tokens,error\n"
            "0.500000,0.500000,1.000000,1.000000,4,\n"
            "0.000000,0.000000,2.000000,2.000000,0,\"a \"\"b\"\"\"\n");
}

TEST(BenchSchedule, ThreadsShareItWithoutGapsOrDoubles) {
  for (uint32_t parts : {1u, 3u}) {
    std::vector<double> all;
    for (uint32_t part = 0; part < parts; ++part)
      for (uint64_t n = 0; n < 12 / parts; ++n) all.push_back(due_at(n, 4, part, parts));
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_DOUBLE_EQ(all[i], double(i) / 4);
    uint64_t sum = 0;
    for (uint32_t part = 0; part < parts; ++part) sum += share_of_part(10, part, parts);
    EXPECT_EQ(sum, 10u);
  }
}

// --- requests --------------------------------------------------------------------------------------------------------

TEST(BenchTensor, AnOptionalInputIsThereWhereItHasAValue) {
  const BenchSignature encoder{
      {{"input_ids", DType::kInt64, {-1, -1}}, {"attention_mask", DType::kInt64, {-1, -1}, true}}};
  auto plain = bench_tensors(encoder, {}, 1);
  ASSERT_TRUE(plain);
  ASSERT_EQ(plain->size(), 1u);
  EXPECT_EQ(plain->front().name, "input_ids");
  auto given = bench_tensors(encoder, {"attention_mask=[1]"}, 1);
  ASSERT_TRUE(given);
  ASSERT_EQ(given->size(), 2u);
  EXPECT_EQ(given->back().name, "attention_mask");
}

Tensor floats() { return *random_tensor("x", DType::kFp32, {2, 3}, 7); }

TEST(BenchTensor, IsTheSameForTheSameSeedAndWithinItsBounds) {
  EXPECT_EQ(floats().data.view(), floats().data.view());
  EXPECT_NE(floats().data.view(), random_tensor("x", DType::kFp32, {2, 3}, 8)->data.view());
  for (size_t i = 0; i < 6; ++i) {
    float value;
    std::memcpy(&value, floats().data.data() + 4 * i, 4);
    EXPECT_TRUE(value >= 0 && value <= 1);
  }
  auto bytes = *random_tensor("s", DType::kBytes, {5}, 1);
  int texts = 0;
  EXPECT_TRUE(msg::for_each_string(bytes.data.view(), [&](std::string_view text) {
    EXPECT_EQ(text.size(), 8u);
    return ++texts, true;
  }));
  EXPECT_EQ(texts, 5);
  auto bools = *random_tensor("b", DType::kBool, {100}, 1);
  for (char c : bools.data.view()) EXPECT_TRUE(c == 0 || c == 1);
  EXPECT_FALSE(random_tensor("x", DType::kFp32, {1 << 20, 1 << 20}, 1)) << "a bound for what a server says";
  EXPECT_FALSE(random_tensor("x", DType::kInvalid, {1}, 1));
}

TEST(BenchRequest, RestIsBinaryOrJson) {
  const Tensor x = floats();
  auto binary = *tensor_request(BenchProtocol::kOipRest, "a/b", {&x, 1}, TensorForm::kBinary);
  EXPECT_EQ(binary.target, "/v2/models/a%2Fb/infer");
  const size_t head = size_t(std::stoul(std::string(binary.fields.find("inference-header-content-length"))));
  const json described = json::parse(binary.body.view().substr(0, head));
  EXPECT_EQ(described["inputs"][0]["shape"], json({2, 3}));
  EXPECT_EQ(described["inputs"][0]["parameters"]["binary_data_size"], 24);
  EXPECT_EQ(binary.body.view().substr(head), x.data.view());
  auto text = *tensor_request(BenchProtocol::kOipRest, "m", {&x, 1}, TensorForm::kJson);
  EXPECT_EQ(json::parse(text.body.view())["inputs"][0]["data"].size(), 6u);
}

TEST(BenchRequest, GrpcIsAMessageBehindItsLength) {
  const Tensor x = floats();
  auto request = *tensor_request(BenchProtocol::kOipGrpc, "m", {&x, 1}, TensorForm::kBinary);
  EXPECT_EQ(request.target, "/inference.GRPCInferenceService/ModelInfer");
  const std::string_view body = request.body.view();
  EXPECT_EQ(size_t(uint8_t(body[4])), body.size() - 5);
  std::vector<uint32_t> fields;
  marshal::PbReader message(body.substr(5));
  while (message.next()) {
    fields.push_back(message.field());
    if (message.field() == 7) {
      EXPECT_EQ(message.bytes(), x.data.view());
    }
  }
  EXPECT_TRUE(message.ok());
  EXPECT_EQ(fields, (std::vector<uint32_t>{1, 5, 7}));
}

TEST(BenchRequest, ATypeThatAProtocolLacksIsNamed) {
  Tensor x = *random_tensor("x", DType::kBf16, {2}, 1);
  for (auto protocol : {BenchProtocol::kGrps, BenchProtocol::kGraphPipe}) {
    auto request = tensor_request(protocol, "m", {&x, 1}, TensorForm::kBinary);
    ASSERT_FALSE(request);
    EXPECT_NE(request.error().text.find("BF16: input 'x'"), std::string::npos);
  }
}

// --- answers ---------------------------------------------------------------------------------------------------------

wire::Fields fields_of(std::initializer_list<std::pair<const char*, const char*>> list) {
  wire::Fields out;
  for (const auto& [name, value] : list) out.add(name, value);
  return out;
}

struct Answered {
  std::string wrong, session;
  uint32_t tokens = 0;
};
Answered answer(BenchProtocol protocol, int status, const std::string& body, const wire::Fields& trailers = {},
                size_t call = 0) {
  auto reader = make_bench_answer(protocol);
  Answered whole;
  bool at_once = true;
  for (size_t step : {body.size() + 1, size_t(1)}) {
    reader->begin(call);
    reader->head(status, {});
    Answered out;
    for (size_t at = 0; at < body.size(); at += step)
      out.tokens += reader->body(std::string_view(body).substr(at, step));
    out.wrong = reader->end(trailers);
    out.session = reader->session();
    if (std::exchange(at_once, false)) whole = out;
    EXPECT_EQ(out.wrong, whole.wrong) << "however it is cut";
    EXPECT_EQ(out.tokens, whole.tokens);
  }
  return whole;
}

TEST(BenchAnswer, AnHttpErrorIsItsStatusAndItsWords) {
  EXPECT_EQ(answer(BenchProtocol::kOipRest, 200, "{}").wrong, "");
  EXPECT_EQ(answer(BenchProtocol::kOipRest, 429, "{\"error\":\"full\"}").wrong, "429 full");
  EXPECT_EQ(answer(BenchProtocol::kGraphPipe, 500, "\xff\x1b[2J").wrong, "500 the server answered 500");
  EXPECT_EQ(answer(BenchProtocol::kGraphPipe, 400, "\x01 a\x02no such model\x03\xff").wrong, "400 no such model");
}

TEST(BenchAnswer, TokensAreEventsWithText) {
  const std::string role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
  const std::string text = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", done = "data: [DONE]\n\n";
  auto whole = answer(BenchProtocol::kOpenAi, 200, role + text + text + done);
  EXPECT_EQ(whole.tokens, 2u);
  EXPECT_EQ(whole.wrong, "");
  EXPECT_EQ(answer(BenchProtocol::kOpenAi, 200, role + text).wrong, "the stream ended without [DONE]");
  EXPECT_EQ(answer(BenchProtocol::kOpenAi, 404, "{\"error\":{\"message\":\"no such model\"}}").wrong,
            "404 no such model");
  EXPECT_TRUE(answer(BenchProtocol::kOpenAi, 200, "data: {\"error\":{}}\n\n").wrong.starts_with("{\"error\""));
}

TEST(BenchAnswer, GrpcsStatusIsInTheTrailers) {
  const std::string message("\0\0\0\0\0", 5);
  EXPECT_EQ(answer(BenchProtocol::kOipGrpc, 200, message, fields_of({{"grpc-status", "0"}})).wrong, "");
  EXPECT_EQ(
      answer(BenchProtocol::kOipGrpc, 200, "", fields_of({{"grpc-status", "5"}, {"grpc-message", "no%20%1bm%"}})).wrong,
      "NOT_FOUND: no ?m%");
  EXPECT_EQ(answer(BenchProtocol::kOipGrpc, 502, "").wrong, "no grpc-status; HTTP status 502");
  EXPECT_EQ(answer(BenchProtocol::kOipGrpc, 200, "", fields_of({{"grpc-status", "0"}})).wrong,
            "no message came with the status OK");
}

TEST(BenchAnswer, GrpsSaysInItsMessageWhatFailed) {
  std::string status, message;
  marshal::put_text(status, 2, "no model");
  marshal::put_tag(status, 3, marshal::PbType::kVarint);
  marshal::put_varint(status, 2);
  marshal::put_bytes(message, 1, status);
  const std::string body = std::string("\0\0\0\0", 4) + char(message.size()) + message;
  EXPECT_EQ(answer(BenchProtocol::kGrps, 200, body, fields_of({{"grpc-status", "0"}})).wrong, "FAILURE: no model");
}

// The bytes of the field at that path of nested messages; of several the last one.
std::string at(std::string_view message, std::initializer_list<uint32_t> path) {
  std::string found(message);
  for (uint32_t field : path) {
    std::string inner;
    for (marshal::PbReader r(found); r.next();)
      if (r.is(field, marshal::PbType::kBytes)) inner = r.bytes();
    found = inner;
  }
  return found;
}
std::string message_of(const wire::ClientRequest& call) { return std::string(call.body.view().substr(5)); }
std::string nested(std::initializer_list<uint32_t> path, std::string value) {
  for (auto field = std::rbegin(path); field != std::rend(path); ++field) {
    std::string outer;
    marshal::put_bytes(outer, *field, value);
    value = outer;
  }
  return value;
}
std::string framed(const std::string& message) { return std::string("\0\0\0\0", 4) + char(message.size()) + message; }
const wire::Fields kFine = fields_of({{"grpc-status", "0"}});

TEST(BenchSession, ASessionOfSalienceIsOpenedUsedAndClosed) {
  const uint32_t tokens[] = {48, 300};
  const BenchRequest request = salience_session("chat", tokens, 9);
  ASSERT_EQ(request.calls.size(), 3u);
  EXPECT_EQ(at(message_of(request.calls[0]), {1}), "chat");
  const std::string id(32, 'f');
  for (size_t i : {1, 2}) {
    const auto call = in_session(request.calls[i], id);
    EXPECT_EQ(at(message_of(call), {1}), id);
    EXPECT_EQ(call.body.size(), request.calls[i].body.size());
  }
  EXPECT_EQ(at(message_of(in_session(request.calls[1], id)), {2}), "\x30\xac\x02");
  EXPECT_EQ(request.calls[1].target, "/salience.v1.Salience/Generate");
}

TEST(BenchSession, TheIdGoesWhereTheFirstZerosAreAlsoAmongTokensThatLookAlike) {
  const std::vector<uint32_t> zeros(64, '0');
  const auto call = in_session(salience_session("chat", zeros, 1).calls[1], std::string(32, 'a'));
  EXPECT_EQ(at(message_of(call), {2}), std::string(64, '0'));
}

TEST(BenchSession, EvergreenHasItAllInOneMessage) {
  const std::string text = message_of(evergreen_generate("chat", "why?", 3).calls.at(0));
  EXPECT_EQ(at(text, {1, 5, 10}), "why?");
  EXPECT_EQ(at(text, {1, 5, 1, 1}), "text/plain");
  EXPECT_EQ(at(text, {2, 2}), "GENERATE");
  EXPECT_EQ(at(text, {2, 6, 1}), "chat");
  EXPECT_EQ(at(text, {2, 5, 2}), std::string("\x08\x03\x58\x01"));
  const Tensor x = floats();
  const std::string tensors = message_of(evergreen_infer("m", {&x, 1}).calls.at(0));
  EXPECT_EQ(at(tensors, {1, 5, 1, 1}), "application/x-weir-tensor; dtype=FP32; shape=2,3");
  EXPECT_EQ(at(tensors, {1, 5, 10}), x.data.view());
  EXPECT_EQ(at(tensors, {2, 3, 1}), "x");
}

TEST(BenchSession, SalienceTellsTheSessionTheTokensAndItsEnd) {
  const std::string id(32, 'e');
  EXPECT_EQ(answer(BenchProtocol::kSalience, 200, framed(nested({1}, id)), kFine).session, id);
  EXPECT_EQ(answer(BenchProtocol::kSalience, 200, framed(""), kFine).wrong, "the session has no id");
  const std::string token = framed(nested({1}, "\x08\x07\x10\x03")), prompt = framed(nested({1}, "\x08\x07\x18\x01"));
  const auto whole = answer(BenchProtocol::kSalience, 200, prompt + token + token + framed(nested({2}, "")), kFine, 1);
  EXPECT_EQ(whole.tokens, 2u);
  EXPECT_EQ(whole.wrong, "");
  EXPECT_EQ(whole.session, "");
  EXPECT_EQ(answer(BenchProtocol::kSalience, 200, token, kFine, 1).wrong, "the stream ended without its end");
  EXPECT_EQ(answer(BenchProtocol::kSalience, 200, framed(""), kFine, 2).wrong, "");
}

TEST(BenchSession, StreamsCountThePiecesThatHaveText) {
  std::string response;
  marshal::put_bytes(response, 5, nested({1}, "text_output"));
  marshal::put_bytes(response, 6, std::string("\x02\0\0\0hi", 6));
  std::string last;
  marshal::put_bytes(last, 5, nested({1}, "text_output"));
  marshal::put_bytes(last, 6, std::string("\0\0\0\0", 4));
  const auto piece = framed(nested({2}, response));
  EXPECT_EQ(answer(BenchProtocol::kOipStream, 200, piece + piece + framed(nested({2}, last)), kFine).tokens, 2u);
  EXPECT_EQ(answer(BenchProtocol::kOipStream, 200, framed(nested({1}, "full")), kFine).wrong, "full");
  std::string ours = nested({1}, std::string(kEvergreenAnswer)), other = nested({1}, "usage");
  ours += nested({5, 10}, "hi"), other += nested({5, 10}, "{}");
  const auto both = framed(nested({1}, ours) + nested({1}, other));
  EXPECT_EQ(answer(BenchProtocol::kEvergreen, 200, both, kFine).tokens, 1u);
}

TEST(BenchSession, AMessageThatIsTooLargeIsPassedOver) {
  auto reader = make_bench_answer(BenchProtocol::kEvergreen);
  reader->begin(0);
  reader->head(200, {});
  const std::string piece(1 << 20, '\x0a');
  uint32_t tokens = reader->body(std::string("\0\xff\xff\xff\xff", 5));
  for (int i = 0; i < 64; ++i) tokens += reader->body(piece);
  EXPECT_EQ(tokens, 0u);
  EXPECT_EQ(reader->end(kFine), "");
}

// --- weir tail and weir trace ----------------------------------------------------------------------------------------

TEST(Follow, AFilterBecomesAQuery) {
  EXPECT_EQ((RequestFilterOptions{"", "a b&c", "4xx", "1s"}.query()), "model=a%20b%26c&status=4xx&slow=1s");
  EXPECT_EQ(RequestFilterOptions{}.query(), "");
}

TEST(Follow, ALineHasWhatAPersonLooksFor) {
  const std::string line = tail_line(json::parse(
      R"({"time":"2026-01-02T03:04:05.678901Z","request_id":"r1","protocol":"oip-rest","method":"POST","route":"/v2/x",
          "model":"m\u001b[2J","status":200,"code":"OK","seconds":0.0015})"));
  EXPECT_EQ(line, "03:04:05.678 200 OK                    1.500 ms oip-rest      POST /v2/x model=m?[2J id=r1");
  EXPECT_EQ(tail_line(json::parse(R"({"time":"x","peer":"p","reason":"preface"})")),
            "x rejected before it was a request: preface from p");
  for (const char* odd : {"{}", "[]", "3", R"({"seconds":"x","status":[1]})"})
    EXPECT_FALSE(tail_line(json::parse(odd)).empty());
}

TEST(Follow, AWaterfallShowsEachPartWhereItWas) {
  const std::string text = waterfall(json::parse(
      R"({"time":"t","method":"POST","route":"/r","status":200,"code":"OK","seconds":0.004,"request_id":"r",
          "parts":[{"name":"receive","start":0,"seconds":0.001},{"name":"compute","start":0.001,"seconds":0.003}]})"));
  EXPECT_NE(text.find("receive      0.000 ms     1.000 ms  |" + std::string(12, '#') + std::string(36, ' ') + "|\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("compute      1.000 ms     3.000 ms  |" + std::string(12, ' ') + std::string(36, '#') + "|\n"),
            text.npos)
      << text;
}

TEST(Follow, AWaterfallOfNonsenseIsOneAllTheSame) {
  for (const char* odd :
       {"{}", R"({"parts":[{}]})", R"({"seconds":-1,"parts":[{"name":3,"start":1e300,"seconds":-5}]})",
        R"({"seconds":1e-300,"parts":[{"start":0,"seconds":1e300},{"start":-1,"seconds":0}]})", R"({"parts":[7]})"})
    EXPECT_FALSE(waterfall(json::parse(odd)).empty());
}

}  // namespace
}  // namespace weir::app
