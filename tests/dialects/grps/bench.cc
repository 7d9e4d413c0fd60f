#include "bench.h"

#include <gtest/gtest.h>
#include "support/model_spec.h"

namespace weir::grps {

Options with(RouteSpec route) {
  EXPECT_EQ(check(route), "");
  Options options;
  options.routes.push_back(std::move(route));
  return options;
}
namespace {

using msg::DType;
using support::model_spec;

}  // namespace

// add: two inputs, batched; digits: one, batched; text: BYTES; flow: decoupled; rare: types that GRPS has not; wide:
// one of each that it has; any: takes anything and returns it.
Bench::Bench(Options options) {
  auto add = model_spec("add", {{"a", DType::kInt32, {2}, false, {}}, {"b", DType::kInt32, {2}, true, {}}},
                        {{"sum", DType::kInt32, {2}, false, {}}});
  add.max_batch = 4;
  models.add(add);
  add.version = "2";
  models.add(add);
  auto digits = model_spec("digits", {{"image", DType::kFp32, {2}, false, {}}}, {{"p", DType::kFp32, {3}, false, {}}});
  digits.max_batch = 4;
  models.add(digits);
  models.add(model_spec("my-text", {{"s", DType::kBytes, {1}, false, {}}}, {{"t", DType::kBytes, {1}, false, {}}}));
  auto flow = model_spec("flow", {{"n", DType::kInt32, {1}, false, {}}}, {{"o", DType::kInt32, {1}, false, {}}});
  flow.decoupled = true;
  models.add(flow);
  models.add(model_spec("rare",
                        {{"f", DType::kBool, {1}, false, {}},
                         {"u", DType::kUint16, {1}, false, {}},
                         {"w", DType::kUint64, {1}, false, {}},
                         {"h", DType::kBf16, {1}, false, {}}},
                        {{"o", DType::kBool, {1}, false, {}}}));
  auto any = model_spec("any", {}, {});
  any.any_tensors = true;
  models.add(any).echo = true;
  models.catalog->index.push_back({"broken", "1", bus::ModelState::kUnavailable, "the file is cut"});
  bus.publish(models.catalog);
  options.server_version = "1.2.3";
  grps = std::make_unique<Grps>(
      bus, wire.router, wire.server(), base::heap(), presence, monitor, [this] { return ready; }, std::move(options));
}

Bench::~Bench() {
  models.finish_all();
  bus.turn();
}

Bench::Opened Bench::open_rest(std::string method, std::string target, std::string_view body, const Headers& headers) {
  Opened x(new support::FakeExchange(std::move(method), std::move(target), body), {&wire.router});
  for (const auto& [name, value] : headers) x->mutable_request().fields.add(name, value);
  x->time = wire.env.now();
  auto plan = wire.router.begin(*x);
  if (plan.body == wire::BodyPlan::kWhole) wire.router.whole(*x);
  bus.turn();
  return x;
}

Bench::Answer Bench::answer(support::FakeExchange& x) {
  return {x.response.status, x.sent, std::string(x.response.fields.find("content-type")), {}};
}

Bench::Answer Bench::rest(std::string method, std::string target, std::string_view body, const Headers& headers) {
  auto x = open_rest(std::move(method), std::move(target), body, headers);
  return answer(*x);
}

Bench::Opened Bench::open_grpc(std::string method, std::string_view message) {
  auto x = wire.open("/" + std::string(Grps::kService) + "/" + method);
  wire.data(*x, support::grpc_frame(message));
  wire.end(*x);
  bus.turn();
  return x;
}

Bench::Answer Bench::grpc(std::string method, std::string_view message) {
  auto x = open_grpc(std::move(method), message);
  Answer a{support::grpc_status(*x), support::grpc_message(*x), {}, {}};
  for (const auto& frame : support::grpc_frames(x->sent)) a.messages.push_back(frame.payload);
  return a;
}

}  // namespace weir::grps
