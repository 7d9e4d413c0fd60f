#include "graphpipe_bench.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "graphpipe_generated.h"
#include "marshal/json_tensor.h"

namespace weir::graphpipe {
namespace {

using msg::DType;

std::string text(const msg::ParamValue& value) {
  if (auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (auto* s = std::get_if<std::string>(&value)) return "'" + *s + "'";
  std::string out;
  if (auto* i = std::get_if<int64_t>(&value)) marshal::write_number(out, *i);
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

template <class T>
bool verifies(const std::string& body) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(body.data()), body.size());
  return verifier.VerifyBuffer<T>(nullptr);
}

msg::ModelSpec spec(std::string name, std::vector<msg::TensorSpec> inputs, std::vector<msg::TensorSpec> outputs,
                    uint32_t max_batch = 0) {
  msg::ModelSpec s;
  s.name = std::move(name);
  s.version = "1";
  s.engine = "onnx";
  s.platform = "onnxruntime_onnx";
  s.inputs = std::move(inputs);
  s.outputs = std::move(outputs);
  s.max_batch = max_batch;
  return s;
}

}  // namespace

void ScriptedInbox::put(msg::Call* call) {
  seen.push_back(describe(*call));
  if (script.empty()) return held.push_back(call);
  for (const auto& event : script) call->home->post_here({call, msg::Event(event)});
}

std::string describe(const msg::Call& call) {
  std::string out = call.model + "/" + call.version + " rows=" + std::to_string(call.rows);
  if (!call.id.empty()) out += " id=" + call.id;
  if (call.priority) out += " priority=" + std::to_string(call.priority);
  if (call.queue_timeout.count()) out += " timeout=" + std::to_string(call.queue_timeout.count() / 1000);
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

Schema::Schema() {
  std::ifstream in(GRAPHPIPE_FBS);
  std::string schema{std::istreambuf_iterator<char>(in), {}};
  parser_.opts.strict_json = true;
  parser_.opts.indent_step = -1;
  if (!parser_.Parse(schema.c_str())) throw std::runtime_error(parser_.error_);
}

std::string Schema::request(const std::string& json) {
  parser_.SetRootType("graphpipe_fb.Request");
  if (!parser_.Parse(json.c_str())) throw std::runtime_error(parser_.error_ + ": " + json);
  return {reinterpret_cast<const char*>(parser_.builder_.GetBufferPointer()), parser_.builder_.GetSize()};
}

std::string Schema::text(const std::string& root, const std::string& body) {
  bool good = root == "InferResponse" ? verifies<graphpipe_fb::InferResponse>(body)
                                      : verifies<graphpipe_fb::MetadataResponse>(body);
  if (!good) return "does not verify";
  parser_.SetRootType(("graphpipe_fb." + root).c_str());
  std::string out;
  if (!flatbuffers::GenerateText(parser_, body.data(), &out)) return "has no text";
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

Bench::Bench(GraphPipeOptions options) {
  add(spec("add", {{"a", DType::kInt32, {2}, false, {}}, {"b", DType::kInt32, {2}, true, {}}},
           {{"sum", DType::kInt32, {2}, false, {}}, {"text", DType::kBytes, {1}, false, {}}}, 4));
  add(spec("flags", {{"f", DType::kBool, {-1}, false, {}}}, {{"not", DType::kBool, {-1}, false, {}}}));
  add(spec("brain", {{"x", DType::kBf16, {1}, false, {}}}, {{"y", DType::kFp32, {1}, false, {}}}));
  add(spec("mind", {{"x", DType::kFp32, {1}, false, {}}},
           {{"y", DType::kBf16, {1}, false, {}}, {"z", DType::kFp32, {1}, false, {}}}));
  auto any = spec("any", {}, {});
  any.any_tensors = true;
  add(any);
  auto flow = spec("flow", {{"n", DType::kInt32, {1}, false, {}}}, {{"o", DType::kInt32, {1}, false, {}}});
  flow.decoupled = true;
  add(flow);
  bus.publish(catalog_);
  options.server_version = "1.2.3";
  options.ready = [this] { return ready; };
  graphpipe = std::make_unique<GraphPipe>(bus, router, base::heap(), std::move(options));
}

Bench::~Bench() {
  for (auto& [name, inbox] : inboxes_)
    while (!inbox->held.empty()) inbox->finish(inbox->held.back(), {msg::Done{}});
  turn();
}

void Bench::add(msg::ModelSpec s) {
  auto served = std::make_shared<bus::Served>();
  auto inbox = std::make_unique<ScriptedInbox>();
  inboxes_[s.name] = inbox.get();
  served->inbox = std::move(inbox);
  auto& model = catalog_->models[s.name];
  model.preferred = served.get();
  model.versions[s.version] = served;
  served->spec = std::move(s);
}

void Bench::Closer::operator()(support::FakeExchange* x) const {
  x->close(x->ended);
  router->closed(*x);
  delete x;
}

Bench::Opened Bench::open(std::string method, std::string target, std::string_view body, std::string_view accept) {
  Opened x(new support::FakeExchange(std::move(method), std::move(target), body), {&router});
  if (!accept.empty()) x->mutable_request().fields.add("accept", accept);
  x->time = env.now();
  if (router.begin(*x).body == wire::BodyPlan::kWhole) router.whole(*x);
  turn();
  return x;
}

}  // namespace weir::graphpipe
