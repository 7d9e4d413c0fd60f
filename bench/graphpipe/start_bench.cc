// From the last byte of a GraphPipe request to an engine that may start: the message is verified, its tensors are found
// in it and laid into a Call. 128 x 224 x 224 x 3 floats, 77 MB, as GraphPipe's own headline work has them.
//
//   start_bench [rounds]
//
// Wall time, median and worst of the rounds; the body has just been written, as one that has just arrived.
#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dialects/graphpipe/infer_request.h"
#include "dialects/graphpipe/verify.h"
#include "marshal/check.h"

namespace {

using namespace weir;
namespace fb = graphpipe::fb;

std::string request(const std::vector<int64_t>& shape) {
  size_t bytes = 4;
  for (int64_t d : shape) bytes *= size_t(d);
  flatbuffers::FlatBufferBuilder builder(bytes + 1024);
  uint8_t* data;
  auto content = builder.CreateUninitializedVector(bytes, &data);
  std::memset(data, 0, bytes);
  auto tensor = fb::CreateTensor(builder, fb::Type_Float32, builder.CreateVector(shape), content);
  auto tensors = builder.CreateVector(std::vector{tensor});
  auto infer = fb::CreateInferRequest(builder, 0, 0, tensors);
  builder.Finish(fb::CreateRequest(builder, fb::Req_InferRequest, infer.Union()));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

bool start(const base::Bytes& body, const msg::ModelSpec& spec, msg::Call& call) {
  call.clear();
  auto message = graphpipe::verify(body, uint64_t(1) << 30);
  if (!message) return false;
  return graphpipe::read_tensors(*(*message)->req_as_InferRequest(), body, spec, base::heap(), call).ok() &&
         marshal::check_call(spec, call).ok();
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  msg::ModelSpec spec;
  spec.inputs = {{"images", msg::DType::kFp32, {-1, 224, 224, 3}, false, {}}};
  std::string bytes = request({128, 224, 224, 3});
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    base::Bytes body = base::Bytes::copy_of(bytes);
    msg::Call call;
    auto from = std::chrono::steady_clock::now();
    if (!start(body, spec, call)) return std::fprintf(stderr, "the request was refused\n"), 1;
    took.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count());
  }
  std::sort(took.begin(), took.end());
  std::printf("%zu bytes: %.1f us to a Call (worst of %d: %.1f us)\n", bytes.size(), took[took.size() / 2], rounds,
              took.back());
}
