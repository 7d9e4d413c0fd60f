// Mixtures of experts: who a row goes to, pairs by expert, their products, and what is made of the answers.
#include "both.h"
#include "coded.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

template <class A, class Make>
void run_expert(Lab& lab, Code (*ExpertKernels::*slot)(const Launch&, const A&), Make make) {
  lab.ran((lab.kernels->experts.*slot)(lab.launch, make(Side::kDevice)), typeid(A).name());
  (reference::table().experts.*slot)(lab.launch, make(Side::kHost));
}

struct Widths {
  uint32_t rows, count, used;
  std::string said() const {
    return " " + std::to_string(rows) + " rows, " + std::to_string(used) + " of " + std::to_string(count);
  }
};

// Equal scores, scores that are no numbers, and rows of nothing else.
void check_route(Lab& lab, const Widths& w) {
  const uint32_t stride = w.count + 3;
  auto some = some_floats(lab, size_t(w.rows) * stride, 3);
  for (size_t i = 0; i < some.size(); i += 7) some[i] = std::round(some[i]);
  for (size_t i = 0; i < some.size(); i += 13) some[i] = i % 2 ? NAN : -INFINITY;
  if (w.rows > 2) std::fill_n(some.begin() + stride, stride, NAN);
  Both scores(lab, some);
  Both<uint32_t> experts(lab, size_t(w.rows) * w.used);
  Both<float> shares(lab, size_t(w.rows) * w.used);
  for (auto of : {Route::kOfAll, Route::kOfUsed}) {
    run_expert(lab, &ExpertKernels::route, [&](Side s) {
      return Route{scores.at(s), experts.at(s), shares.at(s), w.rows, w.count, w.used, stride, 0.75f, of};
    });
    lab.check("route" + w.said(), experts.error(lab), 0);
    auto ours = shares.get(lab);
    for (size_t i = 0; i < ours.size(); ++i)
      if (std::isnan(shares.host[i]) && std::isnan(ours[i])) ours[i] = shares.host[i] = 0;
    lab.check("route, shares" + w.said(), error(ours, shares.host), 1e-5);
  }
}

// A few experts have most of the pairs, some have none.
std::vector<uint32_t> some_experts(Lab& lab, const Widths& w) {
  std::vector<uint32_t> out;
  for (uint32_t r = 0; r < w.rows; ++r) {
    std::vector<uint32_t> chosen;
    while (chosen.size() < w.used) {
      const uint32_t e = uint32_t(lab.random() % w.count), few = e % (w.count / 2 + 1);
      const uint32_t next = lab.random() % 3 && std::find(chosen.begin(), chosen.end(), few) == chosen.end() ? few : e;
      if (std::find(chosen.begin(), chosen.end(), next) == chosen.end()) chosen.push_back(next);
    }
    std::sort(chosen.begin(), chosen.end());
    out.insert(out.end(), chosen.begin(), chosen.end());
  }
  return out;
}

std::vector<uint32_t> flat(const std::vector<ExpertTile>& tiles) {
  std::vector<uint32_t> out;
  for (const auto& tile : tiles) out.insert(out.end(), {tile.expert, tile.first, tile.count});
  return out;
}

struct Placed {
  Placed(Lab& lab, const Widths& w, std::vector<uint32_t> chosen)
      : pairs(w.rows * w.used),
        experts(lab, std::move(chosen)),
        order(lab, pairs),
        tiles(lab, expert_tiles(pairs, w.count)) {
    run_expert(lab, &ExpertKernels::place_pairs, [&](Side s) {
      return PlacePairs{experts.at(s), order.at(s), tiles.at(s), pairs, w.count};
    });
    lab.check("pairs by expert" + w.said(), order.error(lab), 0);
    lab.check("tiles" + w.said(), error(flat(tiles.get(lab)), flat(tiles.host)), 0);
  }
  uint32_t pairs;
  Both<uint32_t> experts, order;
  Both<ExpertTile> tiles;
};

struct Products {
  uint32_t outputs, inputs;
};

// The way that few rows take, and that of many: into memory of their own, so that neither hides what the other leaves
// out.
template <class T>
void check_product(Lab& lab, const std::string& name, size_t size, double allowed, auto make) {
  std::vector<T> host(size);
  reference::table().experts.expert_matmul(lab.launch, make(Side::kHost, host.data(), false));
  for (bool sorted : {false, true}) {
    auto out = lab.room(size * sizeof(T));
    lab.ran(lab.kernels->experts.expert_matmul(lab.launch, make(Side::kDevice, Lab::in<T>(out), sorted)),
            "expert_matmul");
    lab.check((sorted ? "experts' products" : "pairs' products") + name, error(lab.get<T>(out, size), host), allowed);
  }
}

// `weight`: [count][2 * outputs][inputs] on a side.
void check_products_with(Lab& lab, const Widths& w, const Products& size, const std::string& kind, auto weight) {
  Placed placed(lab, w, some_experts(lab, w));
  const auto [outputs, inputs] = std::pair(size.outputs, size.inputs);
  Both x(lab, some_bf16(lab, size_t(placed.pairs) * inputs));
  Both bias(lab, some_floats(lab, size_t(w.count) * 2 * outputs));
  const std::string said = kind + w.said() + ", " + std::to_string(outputs) + "x" + std::to_string(inputs);
  auto make = [&](ExpertMatmul::Into into, Side s, void* out, bool sorted) {
    return ExpertMatmul{x.at(s),
                        weight(s),
                        out,
                        placed.experts.at(s),
                        sorted ? placed.order.at(s) : nullptr,
                        sorted ? placed.tiles.at(s) : nullptr,
                        placed.pairs,
                        w.count,
                        into == ExpertMatmul::kSwiGlu ? w.used : 1,
                        size.outputs,
                        size.inputs,
                        into};
  };
  const size_t results = size_t(placed.pairs) * outputs;
  check_product<Bf16>(lab, said + " swiglu", results, kOneStep,
                      [&](Side s, void* out, bool sorted) { return make(ExpertMatmul::kSwiGlu, s, out, sorted); });
  check_product<Bf16>(lab, said + " clamped, biases", results, kOneStep, [&](Side s, void* out, bool sorted) {
    auto a = make(ExpertMatmul::kSwiGlu, s, out, sorted);
    a.bias = bias.at(s), a.kind = Gate::kClamped;
    return a;
  });
  check_product<float>(lab, said + " biases", results, 4e-5 * std::sqrt(double(inputs)),
                       [&](Side s, void* out, bool sorted) {
                         auto a = make(ExpertMatmul::kF32, s, out, sorted);
                         a.bias = bias.at(s);
                         return a;
                       });
  check_product<float>(lab, said, results, 4e-5 * std::sqrt(double(inputs)),
                       [&](Side s, void* out, bool sorted) { return make(ExpertMatmul::kF32, s, out, sorted); });
}

void check_products_of(Lab& lab, const Widths& w, const Products& size) {
  const float scale = 1 / std::sqrt(float(size.inputs));
  Both weight(lab, some_bf16(lab, size_t(w.count) * 2 * size.outputs * size.inputs, scale));
  check_products_with(lab, w, size, "", [&](Side s) { return DeviceMatrix(weight.at(s)); });
}

void check_coded_products_of(Lab& lab, const Widths& w, const Products& size) {
  for (const CodedCase& of : kCoded) {
    CodedWeight weight(lab, of, w.count * 2 * size.outputs, size.inputs, 1 / std::sqrt(float(size.inputs)));
    check_products_with(lab, w, size, std::string(" ") + of.name, [&](Side s) { return weight.at(s); });
  }
}

// A kernel would read past these.
void check_coded_refusals(Lab& lab) {
  constexpr uint32_t kOutputs = 8, kInputs = 64;
  Both x(lab, some_bf16(lab, kInputs));
  CodedWeight weight(lab, kCoded[0], 2 * kOutputs, kInputs, 1);
  Both<float> out(lab, kOutputs);
  Both<uint32_t> expert(lab, std::vector<uint32_t>{0});
  auto refused = [&](auto change) {
    const Side s = Side::kDevice;
    DeviceMatrix w = weight.at(s);
    ExpertMatmul a{x.at(s), w, out.at(s), expert.at(s), nullptr, nullptr,
                   1,       1, 1,         kOutputs,     kInputs, ExpertMatmul::kF32};
    change(a);
    const Code code = lab.kernels->experts.expert_matmul(lab.launch, a);
    lab.check("experts' codes that lie wrongly are refused", code == kBadShape ? 0 : 1, 0);
  };
  refused([](ExpertMatmul& a) { a.weight.pitch -= kRowAlign; });
  refused([](ExpertMatmul& a) { a.weight.group = 0; });
  refused([](ExpertMatmul& a) { a.weight.group = 40; });
  refused([](ExpertMatmul& a) { a.inputs = 40; });
}

void check_add(Lab& lab, uint32_t hidden) {
  constexpr uint32_t kRows = 3, kUsed = 4, kStride = 8;
  Both<float> stream(lab, some_floats(lab, size_t(kRows) * hidden));
  Both answers(lab, some_floats(lab, size_t(kRows) * kUsed * hidden)), shares(lab, some_floats(lab, kRows * kUsed));
  Both shared(lab, some_floats(lab, size_t(kRows) * hidden)), scores(lab, some_floats(lab, kRows * kStride));
  for (bool with_shared : {false, true}) {
    run_expert(lab, &ExpertKernels::add_experts, [&](Side s) {
      return AddExperts{stream.at(s), answers.at(s),
                        shares.at(s), with_shared ? shared.at(s) : nullptr,
                        scores.at(s), kRows,
                        kUsed,        hidden,
                        kStride,      5,
                        0.5f};
    });
    lab.check("what experts add " + std::to_string(hidden), stream.error(lab), 1e-5);
  }
}

}  // namespace

void check_experts(Lab& lab) {
  const bool full = lab.scale == Lab::Scale::kFull;
  for (const Widths& w : {Widths{1, 1, 1}, {5, 8, 2}, {9, 60, 4}, {3, 128, 8}, {2, 1000, 32}, {6, 33, 32}})
    check_route(lab, w);
  // Tiles of 16, 64 and 128 rows; widths that a block's rows and pieces do not divide.
  check_products_of(lab, {3, 8, 2}, {24, 40});
  check_products_of(lab, {37, 4, 2}, {72, 136});
  check_products_of(lab, {130, 2, 2}, {136, 200});
  check_products_of(lab, {11, 6, 3}, {160, 264});
  check_coded_products_of(lab, {3, 8, 2}, {24, 160});
  check_coded_products_of(lab, {11, 6, 3}, {40, 352});
  check_coded_products_of(lab, {37, 4, 2}, {72, 160});
  check_coded_products_of(lab, {130, 2, 2}, {72, 96});
  check_coded_refusals(lab);
  if (full) {
    for (uint32_t rows : {4u, 32u, 256u}) check_coded_products_of(lab, {rows, 64, 8}, {768, 2048});
    check_products_of(lab, {4, 128, 8}, {768, 2048});
    check_products_of(lab, {256, 128, 8}, {768, 2048});
    check_products_of(lab, {512, 8, 2}, {1024, 512});
    check_products_of(lab, {1000, 64, 8}, {512, 512});
  }
  check_add(lab, 130);
  check_add(lab, 576);
}

}  // namespace weir::gpu
