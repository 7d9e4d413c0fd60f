// Products of matrices, readouts, sums of rows.
#include "both.h"
#include "coded.h"
#include "engines/llm/cuda/matmul.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

// As far from the host's as sums of so many terms may be: sums of n products of numbers around one are around sqrt(n).
// Tensor cores cut off what their accumulators cannot hold: an H100's sums of 8,192 were 1.6e-5 of that away.
double allowed(Matmul::Into into, uint32_t inputs) {
  return into == Matmul::Into::kBf16 ? kOneStep : 4e-5 * std::sqrt(double(inputs));
}

void check_matmul(Lab& lab, Matmuls* matmuls, uint32_t rows, uint32_t outputs, uint32_t inputs) {
  Both x(lab, some_bf16(lab, size_t(rows) * inputs)), weight(lab, some_bf16(lab, size_t(outputs) * inputs));
  Both bias(lab, some_floats(lab, outputs));
  std::string shape = " " + std::to_string(rows) + "x" + std::to_string(outputs) + "x" + std::to_string(inputs);
  auto multiply = [&](auto& out, Matmul::Into into, bool with_bias) {
    auto make = [&](Side s) {
      Matmul a{x.at(s), weight.at(s), with_bias ? bias.at(s) : nullptr, out.at(s), rows, outputs, inputs, into};
      a.scale = into == Matmul::Into::kAddF32 ? 0.22f : 1;
      return a;
    };
    lab.ran(lab.kernels->matmul(lab.launch, matmuls, make(Side::kDevice)), "matmul");
    reference::matmul(make(Side::kHost));
    lab.check("matmul" + shape, out.error(lab), allowed(into, inputs));
  };
  Both<Bf16> narrow_out(lab, size_t(rows) * outputs);
  multiply(narrow_out, Matmul::Into::kBf16, false);
  Both<float> out(lab, size_t(rows) * outputs);
  multiply(out, Matmul::Into::kF32, false);
  multiply(out, Matmul::Into::kAddF32, true);
  multiply(out, Matmul::Into::kF32, true);
}

void check_norm_matmul(Lab& lab, uint32_t rows, uint32_t outputs, uint32_t inputs) {
  Both stream(lab, some_floats(lab, size_t(rows) * inputs)), bias(lab, some_floats(lab, 2 * outputs));
  // Products of around one: the curve of the gates is then neither flat nor straight.
  Both weight(lab, some_bf16(lab, size_t(2) * outputs * inputs, 1 / std::sqrt(float(inputs))));
  Both norm(lab, some_bf16(lab, inputs));
  Both<Bf16> out(lab, size_t(rows) * outputs);
  for (auto into : {NormMatmul::kPlain, NormMatmul::kSwiGlu})
    for (auto kind : {Gate::kSilu, Gate::kGeluTanh, Gate::kClamped}) {
      run(lab, &Kernels::norm_matmul, [&](Side s) {
        NormMatmul a{stream.at(s), norm.at(s), weight.at(s), out.at(s), rows, outputs, inputs, 1e-5f, into};
        a.kind = kind;
        if (kind != Gate::kSilu) a.bias = into == NormMatmul::kSwiGlu ? bias.at(s) : nullptr;
        if (kind == Gate::kGeluTanh) a.offset = 1;
        return a;
      });
      // The host's norm is rounded before the product.
      lab.check("norm_matmul " + std::to_string(rows) + "x" + std::to_string(outputs) + "x" + std::to_string(inputs) +
                    (into == NormMatmul::kSwiGlu ? " gate " + std::to_string(uint32_t(kind)) : ""),
                out.error(lab), (into == NormMatmul::kSwiGlu ? 8 : 4) * kOneStep);
    }
}

std::string words_of(const CodedCase& of, uint32_t rows, uint32_t outputs, uint32_t inputs) {
  return std::string(" ") + of.name + ' ' + std::to_string(rows) + 'x' + std::to_string(outputs) + 'x' +
         std::to_string(inputs);
}

void check_coded_matmul(Lab& lab, Matmuls* matmuls, const CodedCase& of, uint32_t rows, uint32_t outputs,
                        uint32_t inputs) {
  Both x(lab, some_bf16(lab, size_t(rows) * inputs));
  CodedWeight weight(lab, of, outputs, inputs, 1);
  Both bias(lab, some_floats(lab, outputs));
  auto multiply = [&](auto& out, Matmul::Into into, bool with_bias) {
    auto make = [&](Side s) {
      Matmul a{x.at(s), weight.at(s), with_bias ? bias.at(s) : nullptr, out.at(s), rows, outputs, inputs, into};
      a.scale = into == Matmul::Into::kAddF32 ? 0.22f : 1;
      return a;
    };
    lab.ran(lab.kernels->matmul(lab.launch, matmuls, make(Side::kDevice)), "matmul");
    reference::matmul(make(Side::kHost));
    lab.check("matmul" + words_of(of, rows, outputs, inputs), out.error(lab), allowed(into, inputs));
  };
  Both<Bf16> narrow_out(lab, size_t(rows) * outputs);
  multiply(narrow_out, Matmul::Into::kBf16, false);
  Both<float> out(lab, size_t(rows) * outputs);
  multiply(out, Matmul::Into::kF32, true);
  multiply(out, Matmul::Into::kAddF32, true);
}

void check_coded_norm(Lab& lab, const CodedCase& of, uint32_t rows, uint32_t outputs, uint32_t inputs) {
  Both stream(lab, some_floats(lab, size_t(rows) * inputs)), bias(lab, some_floats(lab, 2 * outputs));
  CodedWeight weight(lab, of, 2 * outputs, inputs, 1 / std::sqrt(float(inputs)));
  Both norm(lab, some_bf16(lab, inputs));
  Both<Bf16> out(lab, size_t(rows) * outputs);
  for (auto into : {NormMatmul::kPlain, NormMatmul::kSwiGlu}) {
    run(lab, &Kernels::norm_matmul, [&](Side s) {
      NormMatmul a{stream.at(s), norm.at(s), weight.at(s), out.at(s), rows, outputs, inputs, 1e-5f, into};
      a.bias = into == NormMatmul::kSwiGlu ? bias.at(s) : nullptr;
      return a;
    });
    lab.check("norm_matmul" + words_of(of, rows, outputs, inputs) + (into == NormMatmul::kSwiGlu ? " gate" : ""),
              out.error(lab), (into == NormMatmul::kSwiGlu ? 8 : 4) * kOneStep);
  }
}

// More inputs than the pieces that are on their way at once, and what is left over of every kind of tile.
void check_coded(Lab& lab, Matmuls* matmuls) {
  for (const CodedCase& of : kCoded) {
    for (uint32_t rows : {1u, 2u, 3u, 17u, 70u}) check_coded_matmul(lab, matmuls, of, rows, 70, 160);
    check_coded_matmul(lab, matmuls, of, 2, 5, 4128);
    check_coded_matmul(lab, matmuls, of, 9, 37, 1312);
    check_coded_matmul(lab, matmuls, of, 33, 37, 672);
    check_coded_matmul(lab, matmuls, of, 130, 67, 352);
    for (uint32_t rows : {1u, 2u}) check_coded_norm(lab, of, rows, 51, 544);
    if (lab.scale != Lab::Scale::kFull) continue;
    check_coded_norm(lab, of, 1, 6144, 2048);
    for (uint32_t rows : {1u, 2u, 5u, 16u, 64u, 333u}) {
      check_coded_matmul(lab, matmuls, of, rows, 768, 2048);
      check_coded_matmul(lab, matmuls, of, rows, 512, 8192);
    }
  }
}

// A kernel would read past these, or read them as something else.
void check_coded_refusals(Lab& lab, Matmuls* matmuls) {
  constexpr uint32_t kOutputs = 8, kInputs = 64;
  Both x(lab, some_bf16(lab, 3 * kInputs));
  CodedWeight weight(lab, kCoded[0], kOutputs, kInputs, 1);
  Both<float> out(lab, 3 * kOutputs);
  auto refused = [&](const char* what, auto change) {
    for (uint32_t rows : {1u, 3u}) {
      Matmul a{x.at(Side::kDevice), weight.at(Side::kDevice), nullptr, out.at(Side::kDevice), rows, kOutputs, kInputs,
               Matmul::Into::kF32};
      change(a);
      lab.check(std::string("matmul refuses ") + what,
                lab.kernels->matmul(lab.launch, matmuls, a) == Code(kBadShape) ? 0 : 1, 0);
    }
  };
  refused("a row that is no whole steps", [](Matmul& a) { a.inputs = 40; });
  refused("a group that is no whole steps", [](Matmul& a) { a.weight.group = 16; });
  refused("no group", [](Matmul& a) { a.weight.group = 0; });
  refused("a row without its scales", [](Matmul& a) { a.weight.pitch = 64; });
}

// The kernel for few rows promises the same sums for a row alone and in company.
void check_rows_alike(Lab& lab, Matmuls* matmuls) {
  constexpr uint32_t kRows = kThinRows, kOutputs = 37, kInputs = 1096;
  Both x(lab, some_bf16(lab, kRows * kInputs)), weight(lab, some_bf16(lab, kOutputs * kInputs));
  Both<float> all(lab, kRows * kOutputs), one(lab, kOutputs);
  auto multiply = [&](uint32_t first, uint32_t rows, float* out) {
    Matmul a{x.at(Side::kDevice) + first * kInputs,
             weight.at(Side::kDevice),
             nullptr,
             out,
             rows,
             kOutputs,
             kInputs,
             Matmul::Into::kF32};
    lab.ran(lab.kernels->matmul(lab.launch, matmuls, a), "matmul");
  };
  multiply(0, kRows, all.at(Side::kDevice));
  auto together = all.get(lab);
  double different = 0;
  for (uint32_t row = 0; row < kRows; ++row) {
    multiply(row, 1, one.at(Side::kDevice));
    auto alone = one.get(lab);
    different += !std::equal(alone.begin(), alone.end(), together.begin() + row * kOutputs);
  }
  lab.check("matmul, a row alone", different, 0);
}

void check_states(Lab& lab, uint32_t hidden) {
  constexpr uint32_t kTokens = 30, kConcepts = 11, kStride = 13;
  std::string shape = " " + std::to_string(hidden);
  Both stream(lab, some_floats(lab, kTokens * hidden)), vectors(lab, some_floats(lab, kConcepts * hidden));
  Both tokens(lab, std::vector<uint32_t>{29, 0, 7});
  Both told(lab, std::vector<float>(3 * kStride));
  run(lab, &Kernels::read_out, [&](Side s) {
    return ReadOut{stream.at(s), tokens.at(s), vectors.at(s), told.at(s), 3, kConcepts, hidden, kStride};
  });
  lab.check("read_out" + shape, told.error(lab), 1e-5 * std::sqrt(double(hidden)));
  Both states(lab, some_bf16(lab, kTokens * hidden));
  Both ranges(lab, std::vector<PoolRange>{{0, 1}, {3, 27}, {5, 0}, {2, 9, 1}});
  std::vector<double> sums_before(size_t(2) * hidden);
  for (auto& sum : sums_before) sum = double(lab.random()) / 1e9;
  Both before(lab, sums_before);
  Both<double> sums(lab, size_t(4) * hidden);
  run(lab, &Kernels::pool,
      [&](Side s) { return Pool{states.at(s), ranges.at(s), sums.at(s), 4, hidden, nullptr, before.at(s)}; });
  lab.check("pool" + shape, sums.error(lab), 0);  // the same additions in the same order
}

}  // namespace

void check_products(Lab& lab) {
  auto workspace = lab.room(kWorkspace);
  Matmuls* matmuls = nullptr;
  lab.ran(lab.kernels->matmul_open(0, workspace.data(), &matmuls), "matmul_open");
  for (uint32_t rows : {1u, 2u, 3u, 7u, 8u, 9u}) {
    check_matmul(lab, matmuls, rows, 50, 136);
    check_matmul(lab, matmuls, rows, 64, 520);
    check_matmul(lab, matmuls, rows, 61, 136);  // the stand-in of the library refuses it
  }
  for (uint32_t rows : {1u, 2u}) {
    check_norm_matmul(lab, rows, 50, 136);
    check_norm_matmul(lab, rows, 61, 520);
    check_norm_matmul(lab, rows, lab.scale == Lab::Scale::kFull ? 6144 : 13, 2048);
  }
  check_coded(lab, matmuls);
  check_coded_refusals(lab, matmuls);
  check_rows_alike(lab, matmuls);
  if (lab.scale == Lab::Scale::kFull)
    for (uint32_t rows : {1u, 5u, 16u, 64u, 100u, 333u}) {
      check_matmul(lab, matmuls, rows, 768, 2048);
      check_matmul(lab, matmuls, rows, 512, 8192);
    }
  lab.ran(lab.kernels->matmul_close(matmuls), "matmul_close");
  check_states(lab, 130);
  check_states(lab, 576);
}

}  // namespace weir::gpu
