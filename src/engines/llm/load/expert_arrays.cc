#include "engines/llm/load/expert_arrays.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/encoding.h"

namespace weir::llm {
namespace {

constexpr size_t kMostPacked = 1024, kMostPartArrays = 1 << 19;
constexpr size_t kLongestPackedName = 256;  // each expert's arrays have it

enum class HowPacked : uint8_t { kRows, kHalves, kSwapped };  // how an expert's array lies
struct Packed {
  std::string_view end, name, kind;
  size_t rank;  // with the experts
  HowPacked as = HowPacked::kRows;
};
constexpr Packed kPacked[] = {{".block_sparse_moe.input_linear.weight", "", "weight", 3, HowPacked::kHalves},
                              {".block_sparse_moe.output_linear.weight", "down_proj", "weight", 3},
                              {".mlp.experts.gate_up_proj", "gate_up_proj", "weight", 3, HowPacked::kSwapped},
                              {".mlp.experts.gate_up_proj_bias", "gate_up_proj", "bias", 2},
                              {".mlp.experts.gate_up_proj_blocks", "gate_up_proj", "blocks", 4},
                              {".mlp.experts.gate_up_proj_scales", "gate_up_proj", "scales", 3},
                              {".mlp.experts.down_proj", "down_proj", "weight", 3, HowPacked::kSwapped},
                              {".mlp.experts.down_proj_bias", "down_proj", "bias", 2},
                              {".mlp.experts.down_proj_blocks", "down_proj", "blocks", 4},
                              {".mlp.experts.down_proj_scales", "down_proj", "scales", 3}};
constexpr std::pair<std::string_view, std::string_view> kRouters[] = {
    {".block_sparse_moe.router.layer.weight", ".mlp.gate.weight"},
    {".mlp.router.weight", ".mlp.gate.weight"},
    {".mlp.router.bias", ".mlp.gate.bias"}};

base::Status part_packed(const std::string& name, const Array& all, const Packed& packed, Arrays& out) {
  if (name.size() > kLongestPackedName || all.shape.size() != packed.rank || all.shape[0] == 0 ||
      all.shape[0] > kMostPacked || out.size() + 2 * all.shape[0] > kMostPartArrays ||
      (packed.as == HowPacked::kHalves && all.shape[1] % 2 != 0))
    return base::invalid("'" + base::presentable(name, 100) + "' is not the experts of a layer");
  const std::string before = name.substr(0, name.size() - packed.end.size()) + ".mlp.experts.";
  const size_t bytes = all.data.size() / all.shape[0];
  for (uint64_t e = 0; e < all.shape[0]; ++e) {
    Array one{all.dtype, {all.shape.begin() + 1, all.shape.end()}, all.data.subspan(e * bytes, bytes)};
    const std::string expert = before + std::to_string(e) + ".";
    if (packed.as == HowPacked::kSwapped) std::swap(one.shape[0], one.shape[1]), one.swapped = true;
    if (packed.as != HowPacked::kHalves) {
      out.emplace(expert + std::string(packed.name) + "." + std::string(packed.kind), std::move(one));
      continue;
    }
    one.shape[0] /= 2;
    const auto both = one.data;
    one.data = both.first(bytes / 2);
    out.emplace(expert + "gate_proj.weight", one);
    one.data = both.subspan(bytes / 2);
    out.emplace(expert + "up_proj.weight", std::move(one));
  }
  return {};
}

}  // namespace

base::Status part_packed_experts(Arrays& arrays) {
  Arrays parts;
  for (auto at = arrays.begin(); at != arrays.end();) {
    const std::string& name = at->first;
    const Array& array = at->second;
    const size_t before = parts.size();
    const auto* packed =
        std::find_if(std::begin(kPacked), std::end(kPacked), [&](const Packed& p) { return name.ends_with(p.end); });
    if (packed != std::end(kPacked))
      if (auto s = part_packed(name, array, *packed, parts); !s.ok()) return s;
    for (const auto& [theirs, ours] : kRouters)
      if (name.ends_with(theirs)) parts.emplace(name.substr(0, name.size() - theirs.size()) + std::string(ours), array);
    at = parts.size() > before ? arrays.erase(at) : std::next(at);
  }
  arrays.merge(parts);
  return {};
}

}  // namespace weir::llm
