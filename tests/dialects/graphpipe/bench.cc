#include "bench.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "graphpipe_generated.h"
#include "support/model_spec.h"

namespace weir::graphpipe {
namespace {

using msg::DType;
using support::model_spec;

template <class T>
bool verifies(const std::string& body) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(body.data()), body.size());
  return verifier.VerifyBuffer<T>(nullptr);
}

}  // namespace

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
  models.add(model_spec("add", {{"a", DType::kInt32, {2}, false, {}}, {"b", DType::kInt32, {2}, true, {}}},
                        {{"sum", DType::kInt32, {2}, false, {}}, {"text", DType::kBytes, {1}, false, {}}}, 4));
  models.add(model_spec("flags", {{"f", DType::kBool, {-1}, false, {}}}, {{"not", DType::kBool, {-1}, false, {}}}));
  models.add(model_spec("brain", {{"x", DType::kBf16, {1}, false, {}}}, {{"y", DType::kFp32, {1}, false, {}}}));
  models.add(model_spec("mind", {{"x", DType::kFp32, {1}, false, {}}},
                        {{"y", DType::kBf16, {1}, false, {}}, {"z", DType::kFp32, {1}, false, {}}}));
  auto any = model_spec("any", {}, {});
  any.any_tensors = true;
  models.add(any);
  auto flow = model_spec("flow", {{"n", DType::kInt32, {1}, false, {}}}, {{"o", DType::kInt32, {1}, false, {}}});
  flow.decoupled = true;
  models.add(flow);
  bus.publish(models.catalog);
  options.server_version = "1.2.3";
  options.ready = [this] { return ready; };
  graphpipe = std::make_unique<GraphPipe>(bus, router, base::heap(), std::move(options));
}

Bench::~Bench() {
  models.finish_all();
  turn();
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
