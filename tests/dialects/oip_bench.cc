#include "oip_bench.h"

#include <stdexcept>

namespace weir::oip {
namespace {

using msg::DType;

msg::ModelSpec spec(std::string name, std::vector<msg::TensorSpec> inputs, std::vector<msg::TensorSpec> outputs) {
  msg::ModelSpec s;
  s.name = std::move(name);
  s.version = "1";
  s.engine = "onnx";
  s.platform = "onnxruntime_onnx";
  s.inputs = std::move(inputs);
  s.outputs = std::move(outputs);
  return s;
}

std::string text(const msg::ParamValue& value) {
  if (auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (auto* s = std::get_if<std::string>(&value)) return "'" + *s + "'";
  std::string out;
  if (auto* i = std::get_if<int64_t>(&value)) marshal::write_number(out, *i);
  if (auto* u = std::get_if<uint64_t>(&value)) marshal::write_number(out, *u);
  if (auto* d = std::get_if<double>(&value)) marshal::write_number(out, *d);
  return out;
}

std::string text(const msg::Tensor& t) {
  std::string out = t.name + " " + std::string(msg::name(t.dtype)) + " " + t.shape.text() + " ";
  marshal::write_data(out, t, marshal::bytes_text(t));
  return out;
}

std::string_view word(std::string_view& rest) {
  size_t space = rest.find(' ');
  std::string_view w = rest.substr(0, space);
  rest.remove_prefix(space == rest.npos ? rest.size() : space + 1);
  return w;
}

}  // namespace

std::string describe(const msg::Call& call) {
  std::string out = call.model + "/" + call.version + " rows=" + std::to_string(call.rows);
  if (!call.id.empty()) out += " id=" + call.id;
  if (call.priority) out += " priority=" + std::to_string(call.priority);
  if (call.queue_timeout.count()) out += " timeout=" + std::to_string(call.queue_timeout.count() / 1000);
  if (call.session) out += " session=" + std::to_string(call.session.low);
  for (const auto& t : call.inputs) out += " | " + text(t);
  if (!call.outputs.empty()) out += " | wants";
  for (const auto& name : call.outputs) out += " " + name;
  if (!call.parameters.empty()) out += " | with";
  for (const auto& [name, value] : call.parameters) out += " " + name + "=" + text(value);
  return out;
}

std::vector<msg::Tensor> parse_tensors(std::string_view all) {
  std::vector<msg::Tensor> out;
  while (!all.empty()) {
    size_t end = all.find("; ");
    std::string_view one = all.substr(0, end);
    all = end == all.npos ? std::string_view() : all.substr(end + 2);
    msg::Tensor& t = out.emplace_back();
    t.name = word(one);
    t.dtype = msg::dtype_from_name(word(one));
    marshal::JsonCursor shape(word(one)), data(one);
    shape.array([&] {
      marshal::JsonNumber n;
      int64_t dim;
      return shape.number(n) && n.to(dim) && t.shape.push(dim);
    });
    if (auto status = marshal::read_data(data, t, base::heap()); !status.ok()) throw std::runtime_error(status.text);
  }
  return out;
}

void ScriptedInbox::put(msg::Call* call) {
  seen.push_back(describe(*call));
  call->times.started = call->times.queued + std::chrono::microseconds(10);
  call->times.finished = call->times.started + std::chrono::microseconds(30);
  if (script.empty()) return held.push_back(call);
  for (const auto& event : script) post(call, msg::Event(event));
}

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

OipBench::OipBench() {
  auto add_model = spec("add", {{"a", DType::kInt32, {2}, false, {}}, {"b", DType::kInt32, {2}, true, {}}},
                        {{"sum", DType::kInt32, {2}, false, {}}, {"text", DType::kBytes, {1}, false, {}}});
  add_model.max_batch = 4;
  add(add_model);
  auto digits = spec("digits", {{"image", DType::kFp32, {2}, false, {}}},
                     {{"p", DType::kFp32, {3}, false, {"zero", "one", "two"}}});
  digits.max_batch = 4;
  add(digits);
  auto any = spec("any", {}, {});
  any.any_tensors = true;
  add(any);
  auto flow = spec("flow", {{"n", DType::kInt32, {1}, false, {}}}, {{"o", DType::kInt32, {1}, false, {}}});
  flow.decoupled = true;
  add(flow);
  add(spec("blob", {{"x", DType::kFp32, {2, -1}, false, {}}}, {{"y", DType::kFp32, {-1}, false, {}}}));
  add(spec("text", {{"s", DType::kBytes, {1}, false, {}}}, {{"t", DType::kBytes, {1}, false, {}}}));
  catalog_->index.push_back({"broken", "1", bus::ModelState::kUnavailable, "the file is cut"});
  bus.publish(catalog_);
  OipOptions options;
  options.server_version = "1.2.3";
  options.conn_calls = 600;
  oip = std::make_unique<Oip>(bus, wire.router, wire.server(), base::heap(), control, traces, options);
}

OipBench::~OipBench() {
  for (auto& [name, inbox] : inboxes_)
    while (!inbox->held.empty()) inbox->finish(inbox->held.back(), {msg::Done{}});
  turn();
}

void OipBench::add(msg::ModelSpec s) {
  auto served = std::make_shared<bus::Served>();
  auto inbox = std::make_unique<ScriptedInbox>();
  inboxes_[s.name] = inbox.get();
  served->inbox = std::move(inbox);
  auto& model = catalog_->models[s.name];
  catalog_->index.push_back({s.name, s.version, bus::ModelState::kReady, ""});
  model.preferred = served.get();
  model.versions[s.version] = served;
  served->spec = std::move(s);
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
