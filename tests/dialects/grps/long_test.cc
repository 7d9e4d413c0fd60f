// Long JSON of routes and of streams: workers read and write it, in the order in which it came.
#include <gtest/gtest.h>

#include "bench.h"
#include "support/fake_offload.h"

namespace weir::grps {
namespace {

constexpr size_t kMany = 150'000;  // elements: longer than what a shard reads or writes

std::string repeated(std::string_view element, size_t count = kMany) {
  std::string out(element);
  for (size_t i = 1; i < count; ++i) (out += ',') += element;
  return out;
}
msg::Event answer(size_t count) {
  msg::Tensor t{"o", msg::DType::kInt32, {int64_t(count)}, base::Bytes::copy_of(std::string(4 * count, '\0'))};
  return {msg::Outputs{{std::move(t)}, {}, false}};
}
std::vector<size_t> line_lengths(std::string_view text) {
  std::vector<size_t> out;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) out.push_back(end);
  return out;
}
Options offloading(support::FakeOffload& offload, Options options = {}) {
  options.offload = &offload;
  return options;
}

TEST(GrpsLong, ARoutesBodyIsReadAndItsAnswerIsWrittenByWorkers) {
  support::FakeOffload offload;
  Bench bench(offloading(offload, with(route("/long", "any", {{"x", "body:/a/x"}}))));
  auto x = bench.open_rest("POST", "/long", R"({"a":{"x":[)" + repeated("1") + "]}}");
  EXPECT_EQ(bench.models["any"].seen.size(), 0u);
  offload.work_one();
  bench.bus.turn();
  EXPECT_EQ(bench.models["any"].seen.size(), 1u);
  EXPECT_EQ(x->sent, "");
  EXPECT_EQ(offload.waiting(), 1u);
  offload.work();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->sent, R"({"x":[)" + repeated("1.0") + "]}");
  EXPECT_TRUE(x->ended);
}

TEST(GrpsLong, ARoutesBodyThatIsWrongRefusedOrNotNeededIsAnsweredAsItIs) {
  support::FakeOffload offload;
  Options options = with(route("/long", "any", {{"x", "body:/x"}}));
  options.routes.push_back(route("/nobody", "nobody", {{"x", "body:/x"}}));
  options.routes.push_back(route("/raw", "any", {{"x", "body"}}));
  Bench bench(offloading(offload, options));
  auto cut = bench.open_rest("POST", "/long", R"({"x":[)" + repeated("1"));
  offload.work();
  EXPECT_EQ(cut->response.status, 400);
  auto nobody = bench.open_rest("POST", "/nobody", R"({"x":[)" + repeated("1") + "]}");
  EXPECT_EQ(nobody->response.status, 404);
  EXPECT_EQ(offload.sent, 1u);
  auto raw = bench.open_rest("POST", "/raw", std::string(1 << 20, 'x'));
  EXPECT_EQ(bench.models["any"].seen.size(), 0u) << "an element of BYTES is a copy";
  offload.work();
  bench.bus.turn();
  EXPECT_EQ(bench.models["any"].seen.size(), 1u);
  offload.refusal = base::try_again(base::Code::kResourceExhausted, "full");
  auto full = bench.open_rest("POST", "/long", R"({"x":[)" + repeated("1") + "]}");
  EXPECT_EQ(full->response.status, 429);
  offload.refusal = {};
  bench.open_rest("POST", "/long", R"({"x":[)" + repeated("1") + "]}").reset();
  EXPECT_EQ(offload.cancelled, 1u);
}

TEST(GrpsLong, ALongBodyMayAskForAStream) {
  support::FakeOffload offload;
  auto flow = route("/flow", "flow", {{"n", "body:/n"}});
  flow.streaming = "body_param:/s";
  Options options = with(flow);
  options.streaming = "body_param:s";
  Bench bench(offloading(offload, options));
  const std::string pad = R"("pad":[)" + repeated("1") + "]";
  auto custom = bench.open_rest("POST", "/flow", R"({"n":1,"s":true,)" + pad + "}");
  auto predict = bench.open_rest("POST", "/grps/v1/infer/predict?model=flow",
                                 R"({"gmap":{"s_i32":{"n":1}},"s":true,)" + pad + "}");
  offload.work();
  for (msg::Call* call : std::vector(bench.models["flow"].held)) {
    bench.models["flow"].post(call, answer(1));
    bench.models["flow"].finish(call, {msg::Done{}});
  }
  bench.bus.turn();
  EXPECT_EQ(custom->sent, R"({"o":0})");
  EXPECT_EQ(predict->response.fields.find("content-type"), "application/octet-stream");
  EXPECT_TRUE(predict->ended);
}

struct Stream {
  support::FakeOffload offload;
  Bench bench{offloading(offload)};
  Bench::Opened x =
      bench.open_rest("POST", "/grps/v1/infer/predict?model=flow&streaming=true", R"({"gmap":{"s_i32":{"n":1}}})",
                      {{"content-type", "application/json"}, {"accept", "application/x-ndjson"}});
  support::ScriptedInbox& inbox = bench.models["flow"];
  msg::Call* call = inbox.held.at(0);

  // An answer of one element, a long one, and a second short one.
  void answers() {
    for (size_t count : {size_t(1), kMany, size_t(1)}) inbox.post(call, answer(count));
    bench.bus.turn();
  }
};

TEST(GrpsLong, PartsBehindALongOneWaitForItAndTheEndIsTheLast) {
  Stream s;
  s.answers();
  s.inbox.finish(s.call, {msg::Done{}});
  s.bench.bus.turn();
  EXPECT_EQ(line_lengths(s.x->sent).size(), 1u);
  EXPECT_EQ(s.offload.waiting(), 1u);
  EXPECT_FALSE(s.x->ended);
  s.offload.work();
  auto lines = line_lengths(s.x->sent);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_GT(lines[1], 2 * kMany);
  EXPECT_EQ(lines[2], lines[0]);
  EXPECT_TRUE(s.x->ended);
}

TEST(GrpsLong, TheModelIsGivenNoCreditWhileAPartIsWritten) {
  Stream s;
  s.answers();
  const int before = s.call->credit;
  for (int i = 0; i < 32; ++i) s.inbox.post(s.call, answer(1));
  s.bench.bus.turn();
  EXPECT_EQ(s.call->credit, before);
  s.x->listener()->on_drain(*s.x);
  EXPECT_EQ(s.call->credit, before);
  s.offload.work();
  EXPECT_GT(s.call->credit, before);
  s.inbox.finish(s.call, {msg::Done{}});
}

TEST(GrpsLong, APartThatCannotBeWrittenIsTheEnd) {
  Stream s;
  s.answers();
  s.offload.fail(base::failure(base::Code::kUnavailable, "the workers have gone"));
  EXPECT_TRUE(s.call->cancelled);
  EXPECT_TRUE(s.x->ended);
  EXPECT_EQ(line_lengths(s.x->sent).size(), 2u);
  EXPECT_NE(s.x->sent.find("the workers have gone"), std::string::npos);
  s.inbox.finish(s.call, {msg::Done{}});
}

TEST(GrpsLong, AClientThatLeavesTakesItsPartsBack) {
  Stream s;
  s.answers();
  s.x.reset();
  EXPECT_EQ(s.offload.cancelled, 1u);
  EXPECT_TRUE(s.call->cancelled);
  s.inbox.finish(s.call, {msg::Done{}});
}

}  // namespace
}  // namespace weir::grps
