#include "engines/llm/load/rope.h"

#include <algorithm>
#include <numbers>

#include "base/encoding.h"

namespace weir::llm {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr uint32_t kLongestRope = 1 << 24;  // positions

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

}  // namespace

Rope make_rope(const nlohmann::json& config, uint32_t head_dim, uint32_t& max_length, base::Status& status) {
  static const nlohmann::json kNone = nlohmann::json::object();
  ConfigFields outer(config, status);
  const bool newer = outer.has("rope_parameters");
  const char* name = newer ? "rope_parameters" : "rope_scaling";
  const nlohmann::json& inner = outer.has(name) ? config[name] : kNone;
  ConfigFields f(inner, status, std::string(name) + ".");
  if (!inner.is_object()) outer.fail(name, "is not an object");
  if (f.real_or("partial_rotary_factor", 0, 1, 1) != 1)
    f.fail("partial_rotary_factor", "is not supported", base::Code::kUnimplemented);
  if (inner.is_object())
    for (const auto& [key, value] : inner.items())
      if (value.is_object())
        f.fail(base::presentable(key, 40), "is not supported: frequencies per kind of layer",
               base::Code::kUnimplemented);
  double theta = f.real_or("rope_theta", 1.0001, 1e12, outer.real_or("rope_theta", 1.0001, 1e12, 10000));
  std::vector<double> frequencies;
  for (uint32_t i = 0; i < head_dim / 2; ++i) frequencies.push_back(std::pow(theta, -2.0 * i / head_dim));

  Rope rope;
  std::string type = f.text_or("rope_type", f.text_or("type", "default"));
  if (type == "linear") {
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
    f.fail("rope_type", "\"" + type.substr(0, 40) + "\" is not supported; default, linear, llama3 and yarn are",
           base::Code::kUnimplemented);
  }
  rope.frequencies.assign(frequencies.begin(), frequencies.end());
  return rope;
}

}  // namespace weir::llm
