#include "engines/llm/load/rope.h"

#include <algorithm>
#include <numbers>

#include "base/encoding.h"
#include "engines/llm/load/families.h"

namespace weir::llm {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr uint32_t kLongestRope = 1 << 24;  // positions

// The fields of config.json itself, for what the object of the scaling leaves out.
struct Usual {
  double theta;
  double part;        // of a head's dimensions that turn
  bool partly;        // the family may turn a part of them
  uint32_t original;  // positions that were trained on
  uint32_t context;   // as parse_shape() has it
};

void llama3(ConfigFields& f, uint32_t max_length, std::vector<double>& frequencies) {
  double factor = f.real_or("factor", 1, kMaxFactor, 8);
  double low = f.real_or("low_freq_factor", 1e-3, kMaxFactor, 1),
         high = f.real_or("high_freq_factor", 1e-3, kMaxFactor, 4);
  double original = f.count_or("original_max_position_embeddings", 1, 1u << 30, max_length);
  if (high <= low) return f.fail("high_freq_factor", "is not above low_freq_factor");
  for (double& w : frequencies) {
    double length = 2 * std::numbers::pi / w;
    if (length > original / low) {
      w /= factor;
    } else if (length >= original / high) {
      double smooth = (original / length - low) / (high - low);
      w = (1 - smooth) * w / factor + smooth * w;
    }
  }
}

void divide(ConfigFields& f, std::vector<double>& frequencies) {
  if (!f.has("factors") || !f["factors"].is_array() || f["factors"].size() != frequencies.size())
    return f.fail("factors", "is not one for each pair of dimensions");
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const auto& factor = f["factors"][i];
    if (!factor.is_number() || !(factor.get<double>() >= 1 / kMaxFactor && factor.get<double>() <= kMaxFactor))
      return f.fail("factors", "holds one that is out of range");
    frequencies[i] /= factor.get<double>();
  }
}

double magnitude(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

// As long as positions are with `factor`: kLongestRope at most.
uint32_t longer(double factor, double original) { return uint32_t(std::min(factor * original, double(kLongestRope))); }

double yarn(ConfigFields& f, uint32_t& max_length, double theta, std::vector<double>& frequencies) {
  const double dims = double(frequencies.size()) * 2;
  double factor = f.real_or("factor", 1, kMaxFactor, 1);
  double fast = f.real_or("beta_fast", 1e-3, kMaxFactor, 32), slow = f.real_or("beta_slow", 1e-3, kMaxFactor, 1);
  double original = f.count_or("original_max_position_embeddings", 1, 1u << 30, max_length);
  max_length = std::max(max_length, longer(factor, original));
  auto dimension = [&](double turns) {
    return dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = dimension(fast), high = dimension(slow);
  if (f.flag_or("truncate", true)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double ramp = std::clamp((double(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / factor * ramp + frequencies[i] * (1 - ramp);
  }
  double all = f.real_or("mscale_all_dim", 0, 100, 0), some = f.real_or("mscale", 0, 100, 0);
  double usual = all > 0 && some > 0 ? magnitude(factor, some) / magnitude(factor, all) : magnitude(factor, 1);
  return f.real_or("attention_factor", 1e-3, 1e3, usual);
}

// The frequencies' factors, and the scale of sines and cosines.
double longrope(ConfigFields& f, const Usual& usual, uint32_t max_length, std::vector<double>& frequencies) {
  const double original = f.count_or("original_max_position_embeddings", 2, 1u << 30, usual.original);
  const uint32_t context = usual.context > 0 ? std::min(usual.context, max_length) : max_length;
  const char* name = context > original ? "long_factor" : "short_factor";
  if (!f.has(name) || !f[name].is_array() || f[name].size() != frequencies.size())
    return f.fail(name, "is not a list of " + std::to_string(frequencies.size()) + " numbers"), 1;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const auto& factor = f[name][i];
    if (!factor.is_number() || !(factor.get<double>() >= 1e-3 && factor.get<double>() <= kMaxFactor))
      return f.fail(name, "holds what is no factor"), 1;
    frequencies[i] /= factor.get<double>();
  }
  const double longer = max_length / original;
  return f.real_or("attention_factor", 1e-3, 1e3,
                   longer <= 1 ? 1 : std::sqrt(1 + std::log(longer) / std::log(original)));
}

// The frequencies that `f` describes.
Rope make_rope(ConfigFields& f, const Usual& usual, uint32_t head_dim, uint32_t& max_length) {
  const auto dims = uint32_t(head_dim * f.real_or("partial_rotary_factor", 0, 1, usual.part));
  if (dims % 2 != 0) f.fail("partial_rotary_factor", "makes an odd number of dimensions");
  if (dims != head_dim && !usual.partly)
    f.fail("partial_rotary_factor", "is not supported", base::Code::kUnimplemented);
  double theta = f.real_or("rope_theta", 1.0001, 1e12, usual.theta);
  std::vector<double> frequencies;
  for (uint32_t i = 0; i < dims / 2; ++i) frequencies.push_back(std::pow(theta, -2.0 * i / dims));
  Rope rope;
  std::string type = f.text_or("rope_type", f.text_or("type", "default"));
  if (type == "longrope" || f.has("long_factor")) {  // which early files of Phi-3 call su, or yarn
    rope.scale = float(longrope(f, usual, max_length, frequencies));
  } else if (type == "linear") {
    double factor = f.real_or("factor", 1, kMaxFactor, 1);
    for (double& w : frequencies) w /= factor;
    max_length = longer(factor, max_length);
  } else if (type == "llama3") {
    llama3(f, max_length, frequencies);
  } else if (type == "yarn") {
    rope.scale = float(yarn(f, max_length, theta, frequencies));
  } else if (type == "factors") {
    divide(f, frequencies);
  } else if (type != "default") {
    f.fail("rope_type",
           "\"" + type.substr(0, 40) + "\" is not supported; default, linear, llama3, yarn and longrope are",
           base::Code::kUnimplemented);
  }
  rope.frequencies.assign(frequencies.begin(), frequencies.end());
  return rope;
}

constexpr const char *kGlobal = "full_attention", *kLocal = "sliding_attention";

// rope_parameters that say each kind of layer by its name; null where they speak of all.
const nlohmann::json* of_kind(const nlohmann::json& inner, const char* kind) {
  return inner.contains(kind) && inner[kind].is_object() ? &inner[kind] : nullptr;
}

void refuse_other_kinds(ConfigFields& f, const nlohmann::json& inner) {
  for (const auto& [key, value] : inner.items())
    if (value.is_object() && key != kGlobal && key != kLocal)
      f.fail(base::presentable(key, 40), "is no kind of layer that is known here", base::Code::kUnimplemented);
}

}  // namespace

void read_ropes(const nlohmann::json& config, uint32_t context, Shape& s, base::Status& status) {
  static const nlohmann::json kNone = nlohmann::json::object();
  ConfigFields outer(config, status);
  const std::string name = outer.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const nlohmann::json& inner = outer.has(name.c_str()) ? config[name] : kNone;
  if (!inner.is_object()) return outer.fail(name, "is not an object");
  ConfigFields f(inner, status, name + ".");
  refuse_other_kinds(f, inner);
  const nlohmann::json *global = of_kind(inner, kGlobal), *local = of_kind(inner, kLocal);
  const bool gemma = s.architecture == kGemma3;
  Usual usual{outer.real_or("rope_theta", 1.0001, 1e12, gemma ? 1e6 : 10000),
              outer.real_or("partial_rotary_factor", 0, 1, 1), s.architecture == kPhi3,
              outer.count_or("original_max_position_embeddings", 2, 1u << 30, s.max_length), context};
  const bool sliding = std::any_of(s.windows.begin(), s.windows.end(), [](uint32_t w) { return w > 0; });
  if (global && !local && sliding) f.fail(kLocal, "is missing");
  uint32_t length = s.max_length;
  ConfigFields all(global ? *global : inner, status, global ? name + "." + kGlobal + "." : name + ".");
  s.rope = make_rope(all, usual, s.head_dim, length);
  const bool olmo = s.architecture == kOlmo3 && sliding;
  if (local || gemma || olmo) {
    ConfigFields some(local ? *local : kNone, status, name + "." + kLocal + ".");
    uint32_t ignored = s.max_length;
    usual.theta = olmo ? all.real_or("rope_theta", 1.0001, 1e12, usual.theta)
                       : outer.real_or("rope_local_base_freq", 1.0001, 1e12, 10000);
    s.local_rope = make_rope(some, usual, s.head_dim, ignored);
  }
  if (!gemma) s.max_length = length;
}

}  // namespace weir::llm
