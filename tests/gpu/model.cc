// The whole transformer on the GPU: against the kernels' host versions with the same random weights, and against the
// CPU engine on the demo model.
#include "model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "device/host_device.h"
#include "engines/llm/cpu/transformer.h"
#include "engines/llm/cuda/reference.h"
#include "model_steps.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;
using llm::Shape;

constexpr const char* kChat = "conf/models/chat/1";  // from the repository's root
constexpr double kLogits = 3e-2;                     // of the largest logit: some steps of bfloat16
constexpr double kOtherExperts = 0.2;                // of the rows

// Logits of a prefill (two prompts each of 1, 1 + longer, 1 + 2 * longer) and of some decode steps, greedy; the ids
// that `ids` has are fed, or noted. More rows than kPairRows, also in the last layer and in a graph.
template <class Engine>
std::vector<float> logits_of(Engine& engine, uint32_t longer, std::vector<uint32_t>& ids, std::string& error) {
  const uint32_t vocabulary = engine.text().vocabulary;
  std::vector<float> logits;
  engine.logits_for_tests = &logits;
  constexpr uint32_t kCount = kPairRows + 2;
  Sequences sequences(kCount, 10);
  const bool notes = ids.empty();
  for (uint32_t n = 0; n < 5; ++n) {
    Step step;
    for (uint32_t i = 0; i < kCount; ++i)
      sequences.add(step, i,
                    n == 0 ? prompt(1 + longer * (i % 3), vocabulary, i) : std::vector{ids[(n - 1) * kCount + i]});
    if (auto s = engine.step(step); !s.ok()) return error = s.text, logits;
    if (notes)
      for (const auto& request : step.logits_requests) ids.push_back(request.id);
  }
  engine.logits_for_tests = nullptr;
  return logits;
}

// The share of rows that are further off than rounding makes them: its router has chosen another expert, whose score
// was the same but for rounding. Only where the last layer alone is a mixture is that a row's own affair.
double share_off(const std::vector<float>& ours, const std::vector<float>& theirs, size_t row) {
  double off = 0, rows = double(theirs.size()) / double(row);
  if (ours.size() != theirs.size()) return INFINITY;
  for (size_t at = 0; at < ours.size(); at += row)
    off += worst_of({ours.begin() + ptrdiff_t(at), ours.begin() + ptrdiff_t(at + row)},
                    {theirs.begin() + ptrdiff_t(at), theirs.begin() + ptrdiff_t(at + row)}) > kLogits;
  return off / rows;
}

void check_random(Lab& lab, const char* name, Shape shape, llm::Keep keep = llm::Keep::kWhole,
                  KvCodes codes = KvCodes::kNone) {
  const uint64_t seed = lab.random();
  const DeviceOptions options{.kv_codes = codes};
  device::HostDevice host;
  auto here = make(lab.device, *lab.kernels, shape, random_device_weights(shape, seed, lab.device, keep), 64, options);
  auto there = make(host, reference::table(), shape, random_device_weights(shape, seed, host, keep), 64, options);
  std::string what = std::string("whole model, ") + name;
  if (!here.engine || !there.engine) return lab.check(what + ": " + here.error + there.error, 1, 0);
  std::vector<uint32_t> ids;
  std::string error;
  const uint32_t longer = lab.scale == Lab::Scale::kFull ? 70 : 35;
  auto theirs = logits_of(*there.engine, longer, ids, error);
  auto ours = logits_of(*here.engine, longer, ids, error);
  if (!error.empty()) what += ": " + error;
  if (!shape.experts || shape.experts->used == shape.experts->count)
    return lab.check(what, worst_of(ours, theirs), kLogits);
  lab.check(what, share_off(ours, theirs, shape.vocabulary), kOtherExperts);
}

void check_coded(Lab& lab, const Shape& shape) {
  check_random(lab, "keys and values as int8", shape, llm::Keep::kWhole, KvCodes::kInt8);
  check_random(lab, "keys and values as fp8", shape, llm::Keep::kWhole, KvCodes::kFp8);
}

// Greedy text of the demo model: the CPU engine's in bfloat16, token by token.
void check_demo(Lab& lab) {
  if (!std::filesystem::exists(std::string(kChat) + "/config.json")) return;
  auto folder = llm::Folder::open(kChat);
  auto shape = llm::parse_shape(folder->read("config.json", 1 << 20).value());
  auto store = llm::Store::open(*folder);
  if (!shape || !store) return lab.check("the demo model", 1, 0);
  auto here = make(lab.device, *lab.kernels, *shape, load_device_weights(*shape, {}, *store, lab.device), 64, {});
  if (!here.engine) return lab.check("the demo model: " + here.error, 1, 0);
  auto team = std::make_unique<llm::ThreadTeam>(4);
  llm::Model model;
  model.shape = *shape, model.form = llm::WeightFormat::kBf16;
  model.weights = llm::load_weights(*shape, *store, model.form, *team).value();
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape->vocabulary;
  model.text = text;
  llm::Transformer cpu(std::move(model), llm::kernels(), std::move(team), 512);
  (void)cpu.reserve(64, 16);
  auto talk = [&](generation::TokenEngine& engine) {
    std::vector<uint32_t> said;
    Sequences sequences(1, 16);
    auto next = prompt(24, 3000, 1);
    for (int n = 0; n < 48; ++n) {
      Step step;
      sequences.add(step, 0, next);
      if (!engine.step(step).ok()) break;
      said.push_back(step.logits_requests[0].id), next = {said.back()};
    }
    return said;
  };
  auto ours = talk(*here.engine), theirs = talk(cpu);
  lab.check("greedy text of the demo model is the CPU's", ours.size() == 48 && ours == theirs ? 0 : 1, 0);
}

// As Gemma 2 and, with head norms and another rotary base for windows, Gemma 3 have it.
void check_gemma(Lab& lab, Shape shape) {
  shape.norms = llm::Norms::kBoth, shape.norms_less_one = true, shape.activation = llm::Activation::kGeluTanh;
  shape.embedding_scale = std::sqrt(float(shape.hidden)), shape.embedding_rounded = true;
  shape.windows[0] = 20, shape.attention_scale = 0.1f;
  Shape capped = shape;
  capped.attention_cap = 2, capped.logits_cap = 3;
  check_random(lab, "as Gemma 2", capped);
  shape.qk_norm = true, shape.local_rope = shape.rope;
  for (float& frequency : shape.local_rope->frequencies) frequency = std::sqrt(frequency);
  check_random(lab, "as Gemma 3", shape);
}

// As OLMo 2 and 3 have it.
void check_olmo(Lab& lab, Shape shape) {
  shape.norms = llm::Norms::kOutputs, shape.qk_norm = shape.qk_norm_whole = true, shape.tied = false;
  shape.windows[0] = 20, shape.local_rope = shape.rope, shape.rope.scale = 1.2f;
  check_random(lab, "as OLMo", shape);
}

// The last layer is a mixture.
Shape mixture(Shape shape, uint32_t count, uint32_t used, uint32_t width, uint32_t shared_width) {
  llm::ExpertShape experts{.count = count, .used = used, .width = width, .shared_width = shared_width};
  experts.layers.assign(shape.layers, false), experts.layers.back() = true;
  shape.experts = std::move(experts);
  return shape;
}

// As gpt-oss has it, but that all experts are used: of equal scores rounding chooses.
void check_gpt_oss(Lab& lab, const Shape& shape, uint32_t width) {
  Shape oss = mixture(shape, 4, 4, width, 0);
  oss.experts->layers.assign(oss.layers, true);
  oss.experts->biased = oss.experts->normalised = oss.sinks = oss.qkv_bias = oss.out_bias = true;
  oss.activation = llm::Activation::kClampedSwiglu, oss.windows[0] = 20, oss.rope.scale = 1.2f;
  check_random(lab, "as gpt-oss", oss);
}

void check_mixtures(Lab& lab, const Shape& shape, uint32_t width) {
  Shape all = mixture(shape, 5, 5, width, 2 * width);  // whole prompts go through the layers before the last
  all.experts->layers.assign(all.layers, true);
  check_random(lab, "all experts and a shared one", all);
  all.experts->width = (width + 31) / 32 * 32;  // groups of codes are whole
  all.experts->shared_width = 2 * all.experts->width;
  check_random(lab, "all experts in int8", all, llm::Keep::kInt8);
  check_random(lab, "all experts in int4", all, llm::Keep::kInt4);
  Shape scaled = mixture(shape, 12, 3, width, 0);
  scaled.experts->normalised = true;
  scaled.embedding_scale = 12, scaled.residual_scale = 0.5f, scaled.logits_divisor = 3, scaled.attention_scale = 0.1f;
  check_random(lab, "three of twelve experts, scales", scaled);
}

}  // namespace

Shape random_shape(uint32_t vocabulary, uint32_t hidden, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                   uint32_t dim, uint32_t intermediate) {
  Shape s;
  s.vocabulary = vocabulary, s.hidden = hidden, s.layers = layers, s.heads = heads, s.kv_heads = kv_heads;
  s.head_dim = dim, s.intermediate = intermediate, s.max_length = 8192, s.tied = true;
  s.windows.assign(layers, 0);
  for (uint32_t i = 0; i < dim / 2; ++i)
    s.rope.frequencies.push_back(float(std::pow(500000.0, -2.0 * double(i) / double(dim))));
  return s;
}

double worst_of(const std::vector<float>& ours, const std::vector<float>& theirs) {
  double most = 0, off = ours.size() == theirs.size() && !ours.empty() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    double d = std::abs(double(ours[i]) - double(theirs[i]));
    most = std::max(most, double(std::abs(theirs[i]))), off = d >= 0 ? std::max(off, d) : INFINITY;
  }
  return off / std::max(most, 1e-9);
}

void check_model(Lab& lab) {
  if (lab.scale != Lab::Scale::kFull) {
    check_random(lab, "heads of 64", random_shape(200, 128, 2, 2, 1, 64, 128));
    check_random(lab, "int8", random_shape(200, 160, 2, 2, 1, 64, 192), llm::Keep::kInt8);
    check_random(lab, "int4", random_shape(200, 160, 2, 2, 1, 64, 192), llm::Keep::kInt4);
    Shape qwen = random_shape(200, 192, 2, 3, 1, 64, 128);
    qwen.qk_norm = true, qwen.tied = false, qwen.windows[1] = 20;
    check_random(lab, "three heads in a group, head norms, a window", qwen);
    Shape phi = random_shape(200, 128, 2, 2, 1, 96, 128);
    phi.rope.frequencies.resize(24), phi.rope.scale = 1.2f;
    check_random(lab, "heads of 96 that turn in part", phi);
    phi.rope.frequencies.clear();
    check_random(lab, "heads that do not turn", phi);
    check_random(lab, "twelve heads in a group", random_shape(200, 64, 2, 12, 1, 64, 64));
    check_gemma(lab, random_shape(200, 128, 2, 2, 1, 256, 128));
    check_olmo(lab, random_shape(200, 128, 2, 2, 1, 128, 128));
    check_gpt_oss(lab, random_shape(200, 128, 2, 4, 1, 64, 128), 40);
    check_mixtures(lab, random_shape(200, 128, 2, 2, 1, 64, 128), 40);
    check_coded(lab, random_shape(200, 128, 2, 4, 2, 64, 128));
    return check_encoder_models(lab);
  }
  check_mixtures(lab, random_shape(1000, 512, 2, 8, 2, 64, 1024), 264);
  check_coded(lab, random_shape(1000, 512, 2, 8, 2, 64, 1024));
  check_coded(lab, random_shape(1000, 896, 2, 7, 1, 128, 1024));
  check_random(lab, "heads of 64", random_shape(1000, 512, 2, 8, 2, 64, 1024));
  check_random(lab, "int8", random_shape(1000, 512, 2, 8, 2, 64, 1024), llm::Keep::kInt8);
  check_random(lab, "int4", random_shape(1000, 512, 2, 8, 2, 64, 1024), llm::Keep::kInt4);
  check_random(lab, "heads of 128, groups of 7", random_shape(1000, 896, 2, 7, 1, 128, 1024));
  Shape qwen = random_shape(1000, 512, 2, 8, 2, 64, 1024);
  qwen.qk_norm = true, qwen.tied = false;
  std::fill(qwen.windows.begin(), qwen.windows.end(), 50);
  check_random(lab, "head norms and a window", qwen);
  Shape phi = random_shape(1000, 384, 2, 4, 4, 96, 1024);
  check_random(lab, "heads of 96", phi);
  phi.rope.frequencies.resize(32), phi.rope.scale = 1.2f;
  check_random(lab, "heads of 96 that turn in part", phi);
  check_random(lab, "sixteen heads in a group", random_shape(1000, 512, 2, 32, 2, 128, 1024));
  check_gemma(lab, random_shape(1000, 512, 2, 4, 2, 256, 1024));
  check_olmo(lab, random_shape(1000, 512, 2, 8, 2, 128, 1024));
  check_gpt_oss(lab, random_shape(1000, 512, 2, 16, 2, 64, 1024), 264);
  check_demo(lab);
  check_encoder_models(lab);
}

}  // namespace weir::gpu
