// Measures what the dialect adds to an infer request: reading it into a Call, checking it, writing the answer;
// beside libprotobuf and simdjson's DOM doing as much of the same.
//
//   infer_bench [rounds]
//
// CPU time of this thread, the least of five runs.
#include <google/protobuf/util/json_util.h>
#include <simdjson.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "dialects/oip/json_infer.h"
#include "dialects/oip/pb_infer.h"
#include "inference.pb.h"
#include "marshal/check.h"
#include "marshal/json_tensor.h"
#include "marshal/message_reader.h"

namespace {

using namespace weir;

double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

template <class Work>
double least(int rounds, Work work) {
  double best = 1e18;
  for (int run = 0; run < 5; ++run) {
    double from = cpu_ns();
    for (int i = 0; i < rounds; ++i) work();
    best = std::min(best, (cpu_ns() - from) / rounds);
  }
  return best;
}

void report(const char* what, double ns, size_t bytes) {
  std::printf("%-44s %12.0f ns  %6.2f GB/s\n", what, ns, double(bytes) / ns);
}

std::vector<float> random_floats(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& f : out) f = normal(random);
  return out;
}

msg::Tensor tensor_of(const std::vector<float>& values) {
  std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  return {"x", msg::DType::kFp32, {int64_t(values.size())}, base::Bytes::copy_of(bytes)};
}

void grpc(const msg::Tensor& tensor, int rounds) {
  inference::ModelInferRequest request;
  request.set_model_name("identity");
  auto& in = *request.add_inputs();
  in.set_name("x");
  in.set_datatype("FP32");
  in.add_shape(tensor.shape[0]);
  request.add_raw_input_contents(std::string(tensor.data.view()));
  auto message = base::Bytes::adopt(request.SerializeAsString());
  msg::ModelSpec any;
  any.any_tensors = true;
  msg::Call call;
  double ours = least(rounds, [&] {
    call.clear();
    oip::InferOptions options;
    if (!oip::read_infer(message, base::heap(), call, options).ok() || !marshal::check_call(any, call).ok())
      std::abort();
  });
  report("gRPC read + check", ours, message.size());
  inference::ModelInferRequest parsed;
  double theirs = least(rounds, [&] {
    if (!parsed.ParseFromArray(message.data(), int(message.size()))) std::abort();
  });
  report("  libprotobuf parse, message reused", theirs, message.size());
  oip::InferReply reply{"identity", "1", "", call.parameters, call.inputs};
  report("gRPC write", least(rounds, [&] { (void)oip::write_infer(reply, oip::Envelope::kBare); }), message.size());
}

// The JSON form of ModelInfer.
void rpc_json(const msg::Tensor& tensor, int rounds) {
  std::string text = R"({"model_name":"identity","inputs":[{"name":"x","datatype":"FP32","shape":)" +
                     tensor.shape.text() + R"(,"contents":{"fp32_contents":)";
  marshal::write_data(text, tensor, marshal::BytesText::kUtf8);
  text += "}}]}";
  const auto& type = *inference::ModelInferRequest::descriptor();
  double ours = least(rounds, [&] {
    auto read = marshal::read_message(type, text, size_t(64) << 20);
    if (!read || !*read) std::abort();
  });
  report("JSON form of gRPC, to a message", ours, text.size());
  inference::ModelInferRequest parsed;
  double theirs = least(std::max(1, rounds / 20), [&] {
    parsed.Clear();
    if (!google::protobuf::util::JsonStringToMessage(text, &parsed).ok()) std::abort();
  });
  report("  libprotobuf's", theirs, text.size());
}

void rest(const msg::Tensor& tensor, int rounds) {
  std::string text = R"({"inputs":[{"name":"x","shape":)" + tensor.shape.text() + R"(,"datatype":"FP32","data":)";
  marshal::write_data(text, tensor, marshal::BytesText::kUtf8);
  auto body = base::Bytes::adopt(text + "}]}");
  msg::ModelSpec any;
  any.any_tensors = true;
  msg::Call call;
  double ours = least(rounds, [&] {
    call.clear();
    oip::InferOptions options;
    if (!oip::read_infer(body, body.size(), base::heap(), call, options).ok() || !marshal::check_call(any, call).ok())
      std::abort();
  });
  report("REST read + check", ours, body.size());
  simdjson::dom::parser parser;
  simdjson::padded_string padded(body.view());
  report("  simdjson DOM, numbers to doubles", least(rounds, [&] { (void)parser.parse(padded); }), body.size());
  oip::InferReply reply{"identity", "1", "", call.parameters, call.inputs};
  const oip::OutputForms forms(1, oip::OutputForm::kJson);
  report("REST write", least(rounds, [&] { (void)oip::write_infer(reply, forms); }), body.size());
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 20000;
  for (size_t n : {16u, 1000u, 250000u}) {
    auto tensor = tensor_of(random_floats(n));
    int some = std::max(10, int(size_t(rounds) * 16 / n));
    std::printf("%zu floats\n", n);
    grpc(tensor, some);
    rest(tensor, some);
    rpc_json(tensor, some);
  }
}
