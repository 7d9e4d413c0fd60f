// This part of the room is the same with and without NATS.
#include <algorithm>

#include "cluster/cluster.h"

namespace weir::cluster {
namespace {

constexpr size_t kLongestSetting = 64, kShortestSecret = 16, kLongestSecret = 4096;

bool good_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestSetting && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

}  // namespace

base::Status check(const Settings& settings) {
  if (!settings.on()) return {};
#ifndef WEIR_NATS
  return base::failure(base::Code::kUnimplemented, "cluster.nats: this weir was built without NATS (libnats-dev)");
#endif
  if (!settings.name.empty() && !good_word(settings.name))
    return base::invalid("cluster.name: expected up to 64 letters, digits, '_' and '-'");
  if (!good_word(settings.bucket))
    return base::invalid("cluster.bucket: expected up to 64 letters, digits, '_' and '-'");
  if (!settings.address.empty() && !settings.address.starts_with("http://") &&
      !settings.address.starts_with("https://"))
    return base::invalid("cluster.address: expected an URL, as in http://10.0.0.7:8080");
  if (settings.alone > std::chrono::hours(24)) return base::invalid("cluster.alone: expected at most 24h");
  if (settings.address.size() > kLongestAddress) return base::invalid("cluster.address: it is too long");
  if (!settings.secret.empty() && (settings.secret.size() < kShortestSecret || settings.secret.size() > kLongestSecret))
    return base::invalid("cluster.secret: the file's first line must have 16 to 4096 characters");
  return {};
}

std::vector<NodeModel> own_models(const bus::Catalog& catalog) {
  std::vector<NodeModel> out;
  for (const auto& [name, model] : catalog.models) {
    if (!model.preferred || out.size() >= kMostModels || !good_name(name)) continue;
    const msg::ModelSpec& spec = model.preferred->spec;
    auto kind = spec.parameters.find("kind");
    if (spec.engine == "forward" && kind != spec.parameters.end() && kind->second == "weir") continue;
    out.push_back({name, spec.text ? NodeModel::Makes::kTokens : NodeModel::Makes::kTensors});
  }
  return out;
}

}  // namespace weir::cluster
