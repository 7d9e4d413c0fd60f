#include "engines/llm/vision/vision_encoder.h"

#include <cmath>
#include <cstring>

#include "engines/llm/cpu/kv_cache.h"
#include "engines/llm/cpu/parameter_reader.h"
#include "images/image.h"

namespace weir::llm {
namespace {

constexpr float kEpsilon = 1e-6f;

struct Norm {
  std::vector<float> weight, bias;
};
struct TowerBlock {
  Norm norm1, norm2;
  Matrix qkv, proj, fc1, fc2;
};

}  // namespace

struct VisionEncoder::Parts {
  VisionShape shape;
  WeightFormat form;
  Matrix embed, project;
  std::vector<float> positions;
  std::vector<TowerBlock> blocks;
  Norm norm;
  // Arrays of one picture.
  Memory x, normed, mixed, wide, inner, qkv, queries, tiles, scratch;

  uint32_t dim() const { return shape.hidden / shape.heads; }
  uint32_t padded() const { return (dim() + 15) / 16 * 16; }
  uint32_t patch_floats() const { return 3 * shape.patch_size * shape.patch_size; }
  size_t stride(uint32_t n) const { return activation_stride(form, n); }
  bool make_room(uint32_t threads);
  void cut(const images::Picture& picture, const Kernels& kernels);
  void normalize(const Norm& norm, const Kernels& kernels, ThreadTeam& team);
  void attend(const Kernels& kernels, ThreadTeam& team);
  void run_block(const TowerBlock& block, Multiplier& multiply, const Kernels& kernels, ThreadTeam& team);
};

namespace {

Norm read_norm(const std::string& name, uint32_t n, ParameterReader& load) {
  return {load.floats(name + ".weight", {n}), load.floats(name + ".bias", {n})};
}

TowerBlock read_block(const VisionShape& v, const std::string& prefix, ParameterReader& load) {
  constexpr auto kBias = ParameterReader::Bias::kYes;
  TowerBlock b;
  b.norm1 = read_norm(prefix + "norm1", v.hidden, load);
  b.norm2 = read_norm(prefix + "norm2", v.hidden, load);
  b.qkv = load.matrix(3 * v.hidden, v.hidden, {{prefix + "attn.qkv", 3 * v.hidden}}, kBias);
  b.proj = load.matrix(v.hidden, v.hidden, {{prefix + "attn.proj", v.hidden}}, kBias);
  b.fc1 = load.matrix(v.intermediate, v.hidden, {{prefix + "mlp.fc1", v.intermediate}}, kBias);
  b.fc2 = load.matrix(v.hidden, v.intermediate, {{prefix + "mlp.fc2", v.hidden}}, kBias);
  return b;
}

}  // namespace

VisionEncoder::VisionEncoder(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
VisionEncoder::~VisionEncoder() = default;

uint64_t VisionEncoder::bytes() const {
  uint64_t out = parts_->embed.bytes() + parts_->project.bytes();
  for (const auto& block : parts_->blocks)
    for (const auto* matrix : {&block.qkv, &block.proj, &block.fc1, &block.fc2}) out += matrix->bytes();
  return out;
}

std::function<base::Result<uint32_t>(std::string_view, std::string_view)> VisionEncoder::counter(
    const VisionShape& shape) {
  return [n = shape.patches()](std::string_view data, std::string_view) -> base::Result<uint32_t> {
    auto header = images::read_picture_header(data);
    if (!header) return header.error();
    return n;
  };
}

base::Result<std::unique_ptr<VisionEncoder>> VisionEncoder::load(const Shape& shape, const Store& store,
                                                                 WeightFormat form, ThreadTeam& team) {
  constexpr auto kBias = ParameterReader::Bias::kYes;
  const VisionShape& v = *shape.vision;
  ParameterReader load(store, form, team);
  auto parts = std::make_unique<Parts>();
  parts->shape = v, parts->form = form;
  parts->embed = load.matrix(v.hidden, parts->patch_floats(), {{"visual.patch_embed", v.hidden}}, kBias);
  parts->positions = load.floats("visual.pos_embed", {v.patches(), v.hidden});
  for (uint32_t i = 0; i < v.depth && load.status().ok(); ++i)
    parts->blocks.push_back(read_block(v, "visual.blocks." + std::to_string(i) + ".", load));
  parts->norm = read_norm("visual.norm", v.hidden, load);
  parts->project = load.matrix(shape.hidden, v.hidden, {{"visual.proj", shape.hidden}}, kBias);
  if (!load.status().ok()) return load.status();
  if (auto s = store.intact(); !s.ok()) return s;
  if (!parts->make_room(team.size())) return base::failure(base::Code::kResourceExhausted, "no memory for images");
  return std::unique_ptr<VisionEncoder>(new VisionEncoder(std::move(parts)));
}

bool VisionEncoder::Parts::make_room(uint32_t threads) {
  const size_t n = shape.patches(), tiles_of_head = (n + kTile - 1) / kTile;
  x = Memory(n * shape.hidden * 4);
  normed = Memory(n * stride(std::max(shape.hidden, patch_floats())));
  mixed = Memory(n * stride(shape.hidden));
  wide = Memory(n * shape.intermediate * 4);
  inner = Memory(n * stride(shape.intermediate));
  qkv = Memory(n * 3 * shape.hidden * 4);
  queries = Memory(n * shape.heads * padded() * size_of(form));
  tiles = Memory(shape.heads * tiles_of_head * tile_bytes(form, padded()));
  scratch = Memory(threads * attention_scratch(padded()) * 4);
  return x && normed && mixed && wide && inner && qkv && queries && tiles && scratch;
}

// Patches as rows: channel, then y, then x.
void VisionEncoder::Parts::cut(const images::Picture& picture, const Kernels& kernels) {
  const uint32_t size = shape.image_size, patch = shape.patch_size, across = size / patch;
  auto pixels = images::stretch(picture, size);
  std::vector<float> row(patch_floats());
  for (uint32_t n = 0; n < shape.patches(); ++n) {
    float* to = row.data();
    for (uint32_t c = 0; c < 3; ++c)
      for (uint32_t y = 0; y < patch; ++y)
        for (uint32_t x0 = 0; x0 < patch; ++x0) {
          size_t at = (size_t(n / across * patch + y) * size + n % across * patch + x0) * 3 + c;
          *to++ = pixels[at] / 127.5f - 1;
        }
    kernels.convert[size_t(form)](row.data(), patch_floats(), normed.data() + n * stride(patch_floats()));
  }
}

void VisionEncoder::Parts::normalize(const Norm& norm, const Kernels& kernels, ThreadTeam& team) {
  team.run(shape.patches(), 8, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t n = from; n < to; ++n)
      kernels.layer_norm[size_t(form)](x.as<float>() + size_t(n) * shape.hidden, norm.weight.data(), norm.bias.data(),
                                       kEpsilon, shape.hidden, normed.data() + n * stride(shape.hidden));
  });
}

// Everything sees everything: scores, softmax and sums by the kernels' products, a head at a time. A picture has few
// patches, so each is taken as a query at the last position.
void VisionEncoder::Parts::attend(const Kernels& kernels, ThreadTeam& team) {
  const uint32_t n = shape.patches(), d = dim(), p = padded();
  const size_t size = size_of(form), tiles_of_head = (n + kTile - 1) / kTile;
  team.run(shape.heads, 1, [&](uint32_t from, uint32_t to, uint32_t thread) {
    std::vector<float> key(p, 0), value(p, 0), query(p, 0);
    for (uint32_t h = from; h < to; ++h) {
      std::byte* head = tiles.data() + h * tiles_of_head * tile_bytes(form, p);
      for (uint32_t i = 0; i < n; ++i) {
        const float* row = qkv.as<float>() + size_t(i) * 3 * shape.hidden + h * d;
        std::memcpy(query.data(), row, d * 4), std::memcpy(key.data(), row + shape.hidden, d * 4);
        std::memcpy(value.data(), row + 2 * shape.hidden, d * 4);
        kernels.convert[size_t(form)](query.data(), p, queries.data() + (size_t(h) * n + i) * p * size);
        write_tile(form, p, i, key.data(), value.data(), head + i / kTile * tile_bytes(form, p));
      }
      for (uint32_t i = 0; i < n; ++i) {
        Attention a{};
        a.q = queries.data() + (size_t(h) * n + i) * p * size;
        a.queries = 1, a.group = 1, a.head_dim = p, a.position = n - 1, a.scale = 1 / std::sqrt(float(d));
        uint32_t table = 0;
        a.kv = head, a.table = &table, a.tiles_per_block = uint32_t(tiles_of_head);
        a.out = mixed.data() + i * stride(shape.hidden) + size_t(h) * d * size;
        a.out_stride = stride(shape.hidden), a.out_dim = d;
        a.scratch = scratch.as<float>() + thread * attention_scratch(p);
        kernels.attend[size_t(form)](a);
      }
    }
  });
}

void VisionEncoder::Parts::run_block(const TowerBlock& b, Multiplier& multiply, const Kernels& kernels,
                                     ThreadTeam& team) {
  using Into = Multiplier::Into;
  const uint32_t n = shape.patches();
  normalize(b.norm1, kernels, team);
  multiply.run({normed.data(), stride(shape.hidden)}, n, b.qkv, Into::kStore, qkv.as<float>(), 3 * shape.hidden);
  attend(kernels, team);
  multiply.run({mixed.data(), stride(shape.hidden)}, n, b.proj, Into::kAdd, x.as<float>(), shape.hidden);
  normalize(b.norm2, kernels, team);
  multiply.run({normed.data(), stride(shape.hidden)}, n, b.fc1, Into::kStore, wide.as<float>(), shape.intermediate);
  team.run(n, 8, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t i = from; i < to; ++i)
      kernels.gelu[size_t(form)](wide.as<float>() + size_t(i) * shape.intermediate, shape.intermediate,
                                 inner.data() + i * stride(shape.intermediate));
  });
  multiply.run({inner.data(), stride(shape.intermediate)}, n, b.fc2, Into::kAdd, x.as<float>(), shape.hidden);
}

base::Result<generation::ImageFeatures> VisionEncoder::encode_image(const msg::Image& image, Multiplier& multiply,
                                                                    const Kernels& kernels, ThreadTeam& team) {
  using Into = Multiplier::Into;
  auto picture = images::decode(image.data.view());
  if (!picture) return picture.error();
  Parts& t = *parts_;
  const uint32_t n = t.shape.patches();
  t.cut(*picture, kernels);
  std::memcpy(t.x.as<float>(), t.positions.data(), t.positions.size() * 4);
  multiply.run({t.normed.data(), t.stride(t.patch_floats())}, n, t.embed, Into::kAdd, t.x.as<float>(), t.shape.hidden);
  for (const auto& block : t.blocks) t.run_block(block, multiply, kernels, team);
  t.normalize(t.norm, kernels, team);
  generation::ImageFeatures out;
  out.count = n;
  out.rows.resize(size_t(n) * t.project.outputs);
  multiply.run({t.normed.data(), t.stride(t.shape.hidden)}, n, t.project, Into::kStore, out.rows.data(),
               t.project.outputs);
  return out;
}

}  // namespace weir::llm
