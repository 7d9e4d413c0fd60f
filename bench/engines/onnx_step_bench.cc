// Measures what Engine::step costs over the same run of ONNX Runtime in a bare loop, on the demo model `digits`.
//
//   WEIR_ONNXRUNTIME=… build/bench/engines/onnx_step_bench [conf/models/digits/1/model.onnx [ROWS [STEPS [ROUNDS]]]]
//
// With ROWS only batches of so many; a round has STEPS steps. The model's input is called `image`, of FP32, and its
// output `probabilities`, ten a row.
//
// "bare" binds its values once and does nothing but run; "step" binds inputs, places outputs and gives them away, as a
// lane has it done. The two take turns in short rounds, so that a busy machine hits both; the median ratio is told.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/log.h"
#include "engines/onnx/engine.h"
#include "engines/onnx/error.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/runtime.h"
#include "engines/onnx/signature.h"
#include "engines/onnx/tensors.h"

namespace {

using namespace weir;

// CPU time is what a busy machine does not disturb.
double thread_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

struct Bench {
  std::shared_ptr<const onnx::Session> session;
  std::unique_ptr<sched::Engine> engine;
  msg::Tensor image;
  uint32_t rows;

  double bare(int runs) {
    const onnx::Library& library = session->library();
    base::Bytes copy;
    auto in = onnx::to_ort(library, image, copy);
    std::vector<float> probabilities(rows * 10);
    auto out = onnx::wrap(library, msg::DType::kFp32, {rows, 10}, reinterpret_cast<std::byte*>(probabilities.data()),
                          probabilities.size() * sizeof(float));
    const char *in_name = "image", *out_name = "probabilities";
    const onnx::OrtValue* input = in->get();
    onnx::OrtValue* output = out->get();
    double start = thread_ns();
    for (int i = 0; i < runs; ++i)
      onnx::to_status(library.api, library.api.run(session->raw(), session->run_options(), &in_name, &input, 1,
                                                   &out_name, 1, &output));
    return (thread_ns() - start) / runs;
  }

  double step(int runs) {
    sched::Batch batch;
    batch.rows = rows;
    batch.inputs = {image};
    double start = thread_ns();
    for (int i = 0; i < runs; ++i) {
      engine->step(batch);
      batch.outputs.clear();
    }
    return (thread_ns() - start) / runs;
  }
};

msg::Tensor picture(uint32_t rows, uint32_t pixels) {
  base::Block block(base::heap_slab(rows * pixels * sizeof(float)));
  block.resize(rows * pixels * sizeof(float));
  for (uint32_t i = 0; i < rows * pixels; ++i) reinterpret_cast<float*>(block.data())[i] = float(i % 17);
  return {"image", msg::DType::kFp32, {rows, pixels}, block.freeze()};
}

double median(std::vector<double>& v) {
  std::nth_element(v.begin(), v.begin() + long(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::string path = argc > 1 ? argv[1] : "conf/models/digits/1/model.onnx";
  base::log::enable(base::log::Level::kInfo, false);
  auto library = onnx::open_library(onnx::library_places(""));
  auto file = onnx::ModelFile::open(path);
  if (!library || !file) {
    std::fprintf(stderr, "%s\n", (!library ? library.error() : file.error()).text.c_str());
    return 1;
  }
  const std::string model = file->read().value();
  const auto summary = onnx::inspect(model).value();
  auto session = onnx::Session::make(*library, {}, model, summary, {}, "bench").value();
  msg::ModelSpec wanted;
  wanted.max_batch = 64;
  std::printf("%6s %12s %12s %12s %10s\n", "rows", "bare us", "step us", "us per row", "bare/step");
  const std::vector<uint32_t> sizes =
      argc > 2 ? std::vector{uint32_t(std::max(std::atoi(argv[2]), 1))} : std::vector<uint32_t>{1, 4, 8, 16, 32, 64};
  const int steps = argc > 3 ? std::max(std::atoi(argv[3]), 1) : 50;
  const int rounds = argc > 4 ? std::max(std::atoi(argv[4]), 1) : 40;
  for (uint32_t rows : sizes) {
    auto spec = onnx::derive(session->signature(), wanted).value();
    Bench bench{session, onnx::make_engine(session, spec, base::heap()),
                picture(rows, uint32_t(spec.inputs.front().shape[0])), rows};
    std::vector<double> bare, step, ratio;
    for (int round = 0; round < rounds; ++round) {
      bare.push_back(bench.bare(steps));
      step.push_back(bench.step(steps));
      ratio.push_back(bare.back() / step.back());
    }
    double us = median(step) / 1000;
    std::printf("%6u %12.2f %12.2f %12.2f %10.3f\n", rows, median(bare) / 1000, us, us / rows, median(ratio));
  }
  return 0;
}
