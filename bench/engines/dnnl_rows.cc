// oneDNN's bfloat16 matmul beside ours: speed at several numbers of rows, and whether a row's result is the same to the
// last bit alone and among others (ours is; see src/engines/llm/README.md).
//
//   OMP_NUM_THREADS=1 build/bench/engines/dnnl_rows
#include <cstdio>
#include <cstring>
#include <ctime>
#include <unordered_map>
#include <vector>

#include "engines/llm/cpu/matrix.h"
#include "msg/half.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace {

using namespace weir::llm;
constexpr uint32_t kInputs = 2048, kOutputs = 2048;

// CPU time is what a busy machine does not disturb.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

template <class F>
double best(F&& f) {
  double least = 1e9;
  for (int i = 0; i < 30; ++i) {
    double start = seconds();
    f();
    least = std::min(least, seconds() - start);
  }
  return least;
}

// [rows][outputs] floats, with weights in the order that the library likes best.
struct Dnnl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  using tag = dnnl::memory::format_tag;
  using type = dnnl::memory::data_type;

  std::vector<float> run(uint32_t rows, std::vector<uint16_t>& x, std::vector<uint16_t>& w, double& time) {
    dnnl::memory::desc xd({rows, kInputs}, type::bf16, tag::ab), wd({kInputs, kOutputs}, type::bf16, tag::ba),
        any({kInputs, kOutputs}, type::bf16, tag::any), yd({rows, kOutputs}, type::f32, tag::ab);
    std::vector<float> out(size_t(rows) * kOutputs);
    dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(xd, any, yd), engine);
    dnnl::memory xm(xd, engine, x.data()), wm(wd, engine, w.data()), ym(yd, engine, out.data());
    dnnl::memory packed(pd.weights_desc(), engine);
    dnnl::reorder(wm, packed).execute(stream, wm, packed);
    dnnl::matmul matmul(pd);
    time = best([&] {
      matmul.execute(stream, {{DNNL_ARG_SRC, xm}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, ym}});
      stream.wait();
    });
    return out;
  }
};

}  // namespace

int main() {
  std::vector<float> weights(size_t(kInputs) * kOutputs), row(kInputs);
  uint32_t state = 1;
  auto next = [&] { return float(int32_t(state = state * 1664525 + 1013904223)) * 0x1p-31f; };
  for (float& w : weights) w = next() * 0.05f;
  ThreadTeam team(1);
  Array array{Stored::kF32, {kOutputs, kInputs}, std::as_bytes(std::span(weights))};
  const Weight weight(array);
  const Source source{&weight};
  Matrix m =
      pack(plan_matrix(WeightFormat::kBf16, Keep::kWhole, kOutputs, kInputs, {&source, 1}), {&source, 1}, team).value();
  Multiplier multiply(kernels(), team, 512);
  std::vector<uint16_t> x(size_t(512) * kInputs), w(weights.size());
  for (auto& v : x) v = weir::msg::bf16_from(next());
  for (size_t i = 0; i < w.size(); ++i) w[i] = weir::msg::bf16_from(weights[i]);
  const size_t stride = activation_stride(WeightFormat::kBf16, kInputs);
  Memory acts(512 * stride);
  for (uint32_t r = 0; r < 512; ++r) std::memcpy(acts.data() + r * stride, x.data() + size_t(r) * kInputs, kInputs * 2);
  Dnnl library;
  std::vector<float> first_ours, first_theirs;
  for (uint32_t rows : {1u, 4u, 8u, 32u, 128u, 512u}) {
    double theirs = 0;
    auto y = library.run(rows, x, w, theirs);
    std::vector<float> out(size_t(rows) * kOutputs);
    double ours = best([&] {
      multiply.run({acts.data(), stride}, rows, m, Multiplier::Into::kStore, out.data(), kOutputs);
    });
    y.resize(kOutputs), out.resize(kOutputs);
    if (first_ours.empty()) first_ours = out, first_theirs = y;
    double flops = 2.0 * rows * kInputs * kOutputs / 1e9;
    std::printf("%4u rows: ours %6.0f GFLOP/s, first row %s; oneDNN %6.0f GFLOP/s, first row %s\n", rows, flops / ours,
                out == first_ours ? "as alone" : "DIFFERS", flops / theirs, y == first_theirs ? "as alone" : "DIFFERS");
  }
}
