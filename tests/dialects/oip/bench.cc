#include "bench.h"

#include "support/model_spec.h"

namespace weir::oip {
namespace {

using msg::DType;
using support::model_spec;

}  // namespace

void FakeControl::load(const std::string& model, LoadParameters parameters, Done done) {
  std::string text = "load " + model;
  for (const auto& [key, value] : parameters) text += " " + key + "=" + value;
  asked.push_back(text);
  waiting.push_back(std::move(done));
}
void FakeControl::unload(const std::string& model, Dependents dependents, Done done) {
  asked.push_back("unload " + model + (dependents == Dependents::kUnload ? " and dependents" : ""));
  waiting.push_back(std::move(done));
}

OipBench::OipBench(base::SlabSource& slabs) {
  if (&slabs != &base::heap()) wire.other_slabs = &slabs;
  auto add_model = model_spec("add", {{"a", DType::kInt32, {2}, false, {}}, {"b", DType::kInt32, {2}, true, {}}},
                              {{"sum", DType::kInt32, {2}, false, {}}, {"text", DType::kBytes, {1}, false, {}}});
  add_model.max_batch = 4;
  models.add(add_model);
  auto digits = model_spec("digits", {{"image", DType::kFp32, {2}, false, {}}},
                           {{"p", DType::kFp32, {3}, false, {"zero", "one", "two"}}});
  digits.max_batch = 4;
  models.add(digits);
  auto any = model_spec("any", {}, {});
  any.any_tensors = true;
  models.add(any);
  auto flow = model_spec("flow", {{"n", DType::kInt32, {1}, false, {}}}, {{"o", DType::kInt32, {1}, false, {}}});
  flow.decoupled = true;
  models.add(flow);
  models.add(model_spec("blob", {{"x", DType::kFp32, {2, -1}, false, {}}}, {{"y", DType::kFp32, {-1}, false, {}}}));
  models.add(model_spec("text", {{"s", DType::kBytes, {1}, false, {}}}, {{"t", DType::kBytes, {1}, false, {}}}));
  models.catalog->index.push_back({"broken", "1", bus::ModelState::kUnavailable, "the file is cut"});
  bus.publish(models.catalog);
  OipOptions options;
  options.server_version = "1.2.3";
  options.conn_calls = 600;
  options.offload = &offload;
  options.env = &wire.env;
  options.post = [](const std::function<void()>& work) { work(); };
  oip = std::make_unique<Oip>(bus, wire.router, wire.server(), slabs, control, traces, regions, options);
}

OipBench::~OipBench() {
  models.finish_all();
  turn();
}

support::RpcBench::Opened OipBench::open_rest(std::string method, std::string target, std::string_view body,
                                              const Headers& headers) {
  support::RpcBench::Opened x(new support::FakeExchange(std::move(method), std::move(target), body), {&wire.router});
  for (const auto& [name, value] : headers) x->mutable_request().fields.add(name, value);
  x->time = wire.env.now();
  auto plan = wire.router.begin(*x);
  if (plan.body == wire::BodyPlan::kWhole) wire.router.whole(*x);
  turn();
  return x;
}

support::RpcBench::Opened OipBench::open_grpc(std::string method, const Headers& headers) {
  return wire.open("/inference.GRPCInferenceService/" + method, "application/grpc", headers);
}

OipBench::Answer OipBench::answer(support::FakeExchange& x) {
  return {x.response.status,
          x.sent,
          {},
          std::string(x.response.fields.find("content-type")),
          std::string(x.response.fields.find("inference-header-content-length"))};
}

OipBench::Answer OipBench::grpc_answer(support::FakeExchange& x) {
  Answer a;
  a.status = support::grpc_status(x);
  a.body = support::grpc_message(x);
  for (const auto& frame : support::grpc_frames(x.sent)) a.messages.push_back(frame.payload);
  return a;
}

OipBench::Answer OipBench::rest(std::string method, std::string target, std::string_view body, const Headers& headers) {
  auto x = open_rest(std::move(method), std::move(target), body, headers);
  return answer(*x);
}

OipBench::Answer OipBench::grpc(std::string method, std::string_view message, const Headers& headers) {
  auto x = open_grpc(std::move(method), headers);
  wire.data(*x, support::grpc_frame(message));
  wire.end(*x);
  turn();
  return grpc_answer(*x);
}

}  // namespace weir::oip
