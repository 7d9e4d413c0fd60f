#include "dialects/graphpipe/graphpipe.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "bench.h"
#include "dialects/graphpipe/reply.h"
#include "dialects/graphpipe/types.h"
#include "dialects/graphpipe/verify.h"
#include "support/cpu_time.h"
#include "support/fake_offload.h"
#include "support/transcript.h"
#include "wire/offload.h"

namespace weir::graphpipe {
namespace {

using base::Code;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using msg::DType;
using support::Case;

// ---- tests/data/graphpipe/infer.txt. Beside the lines of support/transcript.h:
//   path: <path>        default: /graphpipe/<model>
//   request: <JSON>     graphpipe_fb.Request as flatc reads it
//   call: <text>        the Call that it makes, as describe() writes it; none = none must be made
//   reply: <status> <JSON of the response>
void run(const Case& c) {
  Bench bench;
  support::script(bench.models, c);
  std::string path = c.count("path") ? c.at("path") : "/graphpipe/" + c.at("model");
  auto x = bench.open("POST", path, bench.schema.request(c.at("request")));
  std::vector<std::string> expected;
  if (c.count("call")) expected.push_back(c.at("call"));
  EXPECT_EQ(bench.models.seen(c.at("model")), expected);
  EXPECT_EQ(bench.bus.in_flight(), 0u);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/octet-stream");
  EXPECT_EQ(x->response.fields.find("content-length"), std::to_string(x->sent.size()));
  std::string root = c.at("reply").find("\"server\"") == std::string::npos ? "InferResponse" : "MetadataResponse";
  EXPECT_EQ(std::to_string(x->response.status) + " " + bench.schema.text(root, x->sent), c.at("reply"));
  EXPECT_EQ(x->record().code == Code::kOk, x->response.status == 200);
}

TEST(GraphPipe, EveryCaseOfTheTranscript) {
  auto cases = support::read_cases(GRAPHPIPE_DATA "/infer.txt");
  EXPECT_GE(cases.size(), 25u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.at("title"));
    run(c);
  }
}

// ---- Requests made by hand

std::string finished(FlatBufferBuilder& b, Offset<fb::InferRequest> request) {
  b.Finish(fb::CreateRequest(b, fb::Req_InferRequest, request.Union()));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

// `tensors` references to one tensor of `strings` references to one string of `length` bytes.
std::string bomb(size_t tensors, size_t strings, size_t length) {
  FlatBufferBuilder b;
  auto string = b.CreateString(std::string(length, 'x'));
  auto all = b.CreateVector(std::vector(strings, string));
  auto tensor = fb::CreateTensor(b, fb::Type_String, b.CreateVector(std::vector<int64_t>{int64_t(strings)}), 0, all);
  auto list = b.CreateVector(std::vector(tensors, tensor));
  return finished(b, fb::CreateInferRequest(b, 0, 0, list));
}

Code code_of(const std::string& body, uint64_t budget) {
  auto verified = verify(base::Bytes::copy_of(body), budget);
  return verified ? Code::kOk : verified.error().code;
}

TEST(GraphPipeVerify, WhatIsSharedIsChargedAsOftenAsItIsReferredTo) {
  constexpr uint64_t kBudget = 64 << 20;
  EXPECT_EQ(code_of(bomb(1, 100, 100), kBudget), Code::kOk);
  EXPECT_EQ(code_of(bomb(1000, 100'000, 100'000), kBudget), Code::kResourceExhausted);
  EXPECT_EQ(code_of(bomb(9000, 100'000, 0), kBudget), Code::kResourceExhausted);  // the walk itself is what costs
  EXPECT_EQ(code_of(bomb(kMaxTables - 2, 0, 0), kBudget), Code::kOk);             // tables, with the two of the request
  EXPECT_EQ(code_of(bomb(kMaxTables - 1, 0, 0), kBudget), Code::kInvalidArgument);
  EXPECT_EQ(code_of(bomb(10, 10, 10), 1399), Code::kResourceExhausted);
  EXPECT_EQ(code_of(bomb(10, 10, 10), 1400), Code::kOk);
}

TEST(GraphPipeVerify, AShortBodyThatDenotesMuchIsAWorkersWork) {
  support::FakeOffload offload;
  GraphPipeOptions options;
  options.offload = &offload;
  Bench bench(options);
  const std::string little = bomb(1, 100, 100), much = bomb(100, 5000, 0);
  EXPECT_LT(much.size(), wire::kLongBody);
  bench.open("POST", "/graphpipe/add", little);
  EXPECT_EQ(offload.waiting(), 0u);
  auto x = bench.open("POST", "/graphpipe/add", much);
  EXPECT_EQ(offload.waiting(), 1u);
  EXPECT_FALSE(x->ended);
  offload.work();
  EXPECT_EQ(x->record().code, Code::kInvalidArgument) << "the model has other inputs";
}

TEST(GraphPipeVerify, AConfigIsShort) {
  Bench bench;
  auto code = [&](size_t bytes) {
    FlatBufferBuilder b;
    auto config = b.CreateString(std::string(bytes, ' '));
    return bench.open("POST", "/graphpipe/add", finished(b, fb::CreateInferRequest(b, config)))->sent;
  };
  EXPECT_EQ(code(wire::kLongBody).find("config has at most"), std::string::npos);
  EXPECT_NE(code(wire::kLongBody + 1).find("config has at most"), std::string::npos);
}

TEST(GraphPipeVerify, ANameIsShort) {
  Bench bench;
  auto said = [&](size_t bytes) {
    FlatBufferBuilder b;
    std::vector<Offset<flatbuffers::String>> names{b.CreateString(std::string(bytes, 'n'))};
    return bench.open("POST", "/graphpipe/add", finished(b, fb::CreateInferRequest(b, 0, 0, 0, b.CreateVector(names))))
        ->sent;
  };
  EXPECT_EQ(said(1024).find("has more than 1024 bytes"), std::string::npos);
  EXPECT_NE(said(1025).find("has more than 1024 bytes"), std::string::npos);
}

std::string named(size_t names) {
  FlatBufferBuilder b;
  std::vector<Offset<flatbuffers::String>> all;
  for (size_t i = 0; i < names; ++i) all.push_back(b.CreateString("name"));
  return finished(b, fb::CreateInferRequest(b, 0, b.CreateVector(all)));
}

TEST(GraphPipeVerify, WhatIsReadTakesTimeInProportion) {
  using Bodies = std::vector<base::Bytes>;
  for (const Bodies& bodies : {Bodies{base::Bytes::adopt(bomb(1, 100'000, 0)), base::Bytes::adopt(bomb(1, 200'000, 0))},
                               Bodies{base::Bytes::adopt(named(50'000)), base::Bytes::adopt(named(100'000))}}) {
    auto read = [&](size_t n) {
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(verify(bodies[n - 1], 64 << 20).has_value());
    };
    EXPECT_LE(support::growth(1, read), 2.5);
  }
}

TEST(GraphPipeVerify, SharedDataIsChargedToo) {
  FlatBufferBuilder b;
  auto data = b.CreateVector(std::vector<uint8_t>(1000));
  auto shape = b.CreateVector(std::vector<int64_t>{1000});
  std::vector<Offset<fb::Tensor>> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back(fb::CreateTensor(b, fb::Type_Uint8, shape, data));
  auto body = finished(b, fb::CreateInferRequest(b, 0, 0, b.CreateVector(tensors)));
  EXPECT_EQ(code_of(body, 99'999), Code::kResourceExhausted);
  EXPECT_EQ(code_of(body, 100'000), Code::kOk);
}

TEST(GraphPipeVerify, EveryPrefixAndEveryBentByteIsTakenOrRefused) {
  Bench bench;
  base::log::enable(base::log::Level::kWarning, false);
  std::string good =
      bench.schema.request(R"({"req_type":"InferRequest","req":{"config":"{}","input_names":["a"],"input_tensors":[)"
                           R"({"type":"Int32","shape":[1,2],"data":[1,0,0,0,2,0,0,0]}],"output_names":["sum"]}})");
  bench.inbox("add").script.push_back(outputs("sum INT32 [1,2] [1,2]"));
  for (size_t n = 0; n < good.size(); ++n) {
    auto x = bench.open("POST", "/graphpipe/add", good.substr(0, n));
    EXPECT_TRUE(x->response.status == 400 || x->response.status == 200) << n;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (char bend : {'\x01', '\x80', '\xff'}) {
      std::string bent = good;
      bent[i] = char(bent[i] ^ bend);
      auto x = bench.open("POST", "/graphpipe/add", bent);
      EXPECT_TRUE(x->ended) << i;
    }
  }
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

// As graphpipe-go writes them: vectors of bytes, with no zero behind them.
TEST(GraphPipe, StringsNeedNoZeroBehindThem) {
  for (size_t length = 0; length < 17; ++length) {
    Bench bench;
    FlatBufferBuilder b;
    std::string word(length, 'w');
    // Written back to front: the two are neighbours, so what follows the second is the first one's length.
    auto bytes = [&] { return b.CreateVector(reinterpret_cast<const uint8_t*>(word.data()), length).o; };
    std::vector<Offset<flatbuffers::String>> strings{bytes(), bytes()};
    auto all = b.CreateVector(strings);
    auto name = Offset<flatbuffers::String>(b.CreateVector(std::vector<uint8_t>{'n', 'a', 'm', 'e'}).o);
    auto tensor = fb::CreateTensor(b, fb::Type_String, b.CreateVector(std::vector<int64_t>{2}), 0, all);
    auto body = finished(b, fb::CreateInferRequest(b, 0, b.CreateVector(&name, 1), b.CreateVector(&tensor, 1)));
    auto x = bench.open("POST", "/graphpipe/any", body);
    EXPECT_EQ(bench.models.seen("any"),
              std::vector<std::string>{"any/1 rows=1 | name BYTES [2] [\"" + word + "\",\"" + word + "\"]"});
  }
}

TEST(GraphPipe, AStringThatEndsBehindTheBodyIsRefused) {
  auto body = bomb(1, 1, 4);
  size_t at = body.find("xxxx");
  ASSERT_NE(at, std::string::npos);
  for (int length : {4, 5, 8, 1000, -1}) {
    auto bent = body;
    std::memcpy(bent.data() + at - 4, &length, 4);
    bool inside = length >= 0 && at + size_t(length) <= bent.size();
    EXPECT_EQ(code_of(bent, 64 << 20), inside ? Code::kOk : Code::kInvalidArgument) << length;
  }
}

TEST(GraphPipe, AnOutputThatIsAskedForTwiceIsWrittenOnce) {
  Bench bench;
  std::vector<msg::Tensor> tensors;
  for (auto name : {"a", "b"})
    tensors.push_back({name, DType::kUint8, {8192}, base::Bytes::copy_of(std::string(8192, *name))});
  std::vector<size_t> order(256, 1);
  auto pieces = write_tensors(tensors, order);
  ASSERT_TRUE(pieces);
  std::string body;
  for (const auto& piece : *pieces) body += piece.view();
  EXPECT_LT(body.size(), 8192u + 4 * 256 + 256) << "and the other not at all";
  auto* response = flatbuffers::GetRoot<fb::InferResponse>(body.data());
  ASSERT_EQ(response->output_tensors()->size(), 256u);
  EXPECT_EQ(response->output_tensors()->Get(255)->data()->Get(8191), 'b');
}

TEST(GraphPipe, AFlatbufferIsTakenUnderAnyContentType) {
  Bench bench;
  bench.inbox("add").script.push_back(outputs("sum INT32 [1,2] [1,2]"));
  auto body = bench.schema.request(
      R"({"req_type":"InferRequest","req":{"input_tensors":[{"type":"Int32","shape":[1,2],"data":[1,0,0,0,2,0,0,0]}]}})");
  auto post = [&](std::string_view content) {
    Bench::Opened x(new support::FakeExchange("POST", "/graphpipe/add", content), {&bench.router});
    x->mutable_request().fields.add("content-type", "application/json");
    if (bench.router.begin(*x).body == wire::BodyPlan::kWhole) bench.router.whole(*x);
    bench.turn();
    return x;
  };
  auto x = post(body);
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/octet-stream");
  x = post(R"({"inputs": []})");
  EXPECT_EQ(x->response.status, 400);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/json");
}

// ---- Copies

TEST(GraphPipe, NumbersAliasTheBodyAllTheWayDown) {
  Bench bench;
  FlatBufferBuilder b;
  auto data = b.CreateVector(std::vector<uint8_t>(8000, 7));
  auto tensor = fb::CreateTensor(b, fb::Type_Float32, b.CreateVector(std::vector<int64_t>{2000}), data);
  auto body = finished(b, fb::CreateInferRequest(b, 0, 0, b.CreateVector(&tensor, 1)));
  auto x = bench.open("POST", "/graphpipe/any", body);
  ASSERT_EQ(bench.inbox("any").held.size(), 1u);
  const auto& input = bench.inbox("any").held[0]->inputs[0].data;
  EXPECT_EQ(input.slab(), x->content().slab());
  EXPECT_EQ(input.size(), 8000u);
}

TEST(GraphPipe, LargeOutputsAreThePiecesOfTheAnswerAndAligned) {
  std::vector<msg::Tensor> tensors;
  for (size_t size : {5000u, 1u, 70001u, 0u, 4096u})
    tensors.push_back({"t", DType::kUint8, {int64_t(size)}, base::Bytes::adopt(std::string(size, char(size)))});
  tensors.push_back({"s", DType::kBytes, {2}, base::Bytes::adopt(std::string("\1\0\0\0a\0\0\0\0", 9))});
  auto pieces = write_tensors(tensors);
  ASSERT_TRUE(pieces);
  std::string whole;
  std::vector<const void*> given;
  for (const auto& piece : *pieces) {
    if (piece.slab() == tensors[0].data.slab() || piece.slab() == tensors[2].data.slab() ||
        piece.slab() == tensors[4].data.slab()) {
      given.push_back(piece.data());
      EXPECT_EQ(whole.size() % kDataAlign, 0u);
    }
    whole += piece.view();
  }
  EXPECT_EQ(given, (std::vector<const void*>{tensors[0].data.data(), tensors[2].data.data(), tensors[4].data.data()}));
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(whole.data()), whole.size());
  ASSERT_TRUE(verifier.VerifyBuffer<fb::InferResponse>(nullptr));
  auto& read = *flatbuffers::GetRoot<fb::InferResponse>(whole.data())->output_tensors();
  ASSERT_EQ(read.size(), tensors.size());
  for (unsigned i = 0; i < 5; ++i) {
    std::string_view data(reinterpret_cast<const char*>(read[i]->data()->data()), read[i]->data()->size());
    EXPECT_EQ(data, tensors[i].data.view()) << i;
    EXPECT_EQ(read[i]->shape()->Get(0), tensors[i].shape[0]);
  }
  EXPECT_EQ(read[5]->string_val()->Get(0)->str(), "a");
  EXPECT_EQ(read[5]->string_val()->Get(1)->str(), "");
}

TEST(GraphPipe, NoOutputsAreAnAnswerToo) {
  auto pieces = write_tensors({});
  ASSERT_TRUE(pieces);
  std::string whole;
  for (const auto& piece : *pieces) whole += piece.view();
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(whole.data()), whole.size());
  EXPECT_TRUE(verifier.VerifyBuffer<fb::InferResponse>(nullptr));
}

// ---- The life of a Call

TEST(GraphPipe, AClientThatLeavesCancelsItsCall) {
  Bench bench;
  auto body = bench.schema.request(R"({"req_type":"InferRequest","req":{"input_tensors":[]}})");
  auto x = bench.open("POST", "/graphpipe/any", body);
  auto& inbox = bench.inbox("any");
  ASSERT_EQ(inbox.held.size(), 1u);
  msg::Call* call = inbox.held[0];
  x.reset();
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(inbox.pokes, 1);
  inbox.finish(call, {msg::Outputs{}});
  bench.turn();
  EXPECT_EQ(bench.bus.in_flight(), 0u);
}

TEST(GraphPipe, TheLedgerKnowsModelVersionAndTimes) {
  Bench bench;
  bench.inbox("add").script = {outputs("sum INT32 [1,2] [1,2]; text BYTES [1,1] [\"t\"]")};
  auto x = bench.open(
      "POST", "/graphpipe/add",
      bench.schema.request(
          R"({"req_type":"InferRequest","req":{"input_tensors":[{"type":"Int32","shape":[1,2],"data":[1,0,0,0,2,0,0,0]}]}})"));
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->record().model, "add");
  EXPECT_EQ(x->record().version, "1");
  EXPECT_EQ(x->record().queue, std::chrono::microseconds(10));
  EXPECT_EQ(x->record().compute, std::chrono::microseconds(30));
}

TEST(GraphPipe, AnEngineThatBreaksItsWordIsAnInternalError) {
  Bench bench;
  auto body = bench.schema.request(
      R"({"req_type":"InferRequest","req":{"input_tensors":[{"type":"Int32","shape":[1,2],"data":[1,0,0,0,2,0,0,0]}]}})");
  msg::Outputs lie;
  lie.tensors.push_back({"sum", DType::kInt32, {1, 2}, base::Bytes::copy_of("123")});
  bench.inbox("add").script = {{lie}};
  EXPECT_EQ(bench.open("POST", "/graphpipe/add", body)->record().code, Code::kInternal);
  bench.inbox("add").script = {{msg::Done{}}};
  EXPECT_EQ(bench.open("POST", "/graphpipe/add", body)->record().code, Code::kInternal);
}

// ---- Pages and settings

TEST(GraphPipePages, GetIsJsonAndForBrowsersAPage) {
  Bench bench;
  auto json = bench.open("GET", "/graphpipe/add");
  EXPECT_EQ(json->response.fields.find("content-type"), "application/json");
  EXPECT_NE(json->sent.find(R"({"name": "a", "description": "", "shape": [-1,2], "type": "Int32"})"), std::string::npos)
      << json->sent;
  auto page = bench.open("GET", "/graphpipe/add", {}, "text/html,*/*;q=0.8");
  EXPECT_TRUE(page->response.fields.find("content-type").starts_with("text/html"));
  EXPECT_EQ(bench.open("GET", "/graphpipe/nothing")->response.status, 404);
  EXPECT_NE(bench.open("GET", "/graphpipe")->sent.find(R"("uri": "/graphpipe/mind")"), std::string::npos);
}

TEST(GraphPipePages, ReadinessFollowsTheServer) {
  Bench bench;
  EXPECT_EQ(bench.open("GET", "/control/is_ready")->sent, "ok\n");
  bench.ready = false;
  EXPECT_EQ(bench.open("GET", "/control/is_ready")->response.status, 503);
  EXPECT_EQ(bench.open("GET", "/control/is_alive")->sent, "ok\n");
}

TEST(GraphPipePages, ReadinessIsBelowEveryAddressThatAClientMayHave) {
  Bench bench;
  for (std::string uri : {"", "/graphpipe", "/graphpipe/add", "/graphpipe/add/versions/1"}) {
    bench.ready = true;
    EXPECT_EQ(bench.open("GET", uri + "/control/is_ready")->sent, "ok\n") << uri;
    EXPECT_EQ(bench.open("GET", uri + "/control/is_alive")->sent, "ok\n") << uri;
    bench.ready = false;
    EXPECT_EQ(bench.open("GET", uri + "/control/is_ready")->response.status, 503) << uri;
  }
  bench.ready = true;
  for (std::string uri : {"/graphpipe/nothing", "/graphpipe/add/versions/2"})
    EXPECT_EQ(bench.open("GET", uri + "/control/is_ready")->response.status, 503) << "not this model: " << uri;
}

TEST(GraphPipePages, TheRootCanBeLeftToOthersAndTheDefaultModelSet) {
  GraphPipeOptions options;
  options.root_post = GraphPipeOptions::RootPost::kOff;
  options.prefix = "/gp";
  Bench bench(options);
  bench.models.catalog->default_model = "any";
  auto body = bench.schema.request(R"({"req_type":"InferRequest","req":{"input_tensors":[]}})");
  EXPECT_EQ(bench.open("POST", "/", body)->response.status, 404);
  auto x = bench.open("POST", "/gp", body);
  EXPECT_EQ(bench.inbox("any").seen.size(), 1u);
  auto lost = bench.open("POST", "/gp/a/b/c", body);
  EXPECT_EQ(bench.schema.text("InferResponse", lost->sent).substr(0, 22), R"({"errors": [{"code": 5)");
}

}  // namespace
}  // namespace weir::graphpipe
