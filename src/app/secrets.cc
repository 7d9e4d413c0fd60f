#include "app/secrets.h"

#include <algorithm>
#include <fstream>

namespace weir::app {
namespace {

// RFC 6750, "b64token", and whatever else is visible.
bool sendable(const std::string& secret) {
  return std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// `out`, the secrets of `key`, and those of the file that `key`_file names.
base::Result<std::vector<std::string>> collect(const std::string& key, std::vector<std::string> out,
                                               const std::string& path) {
  if (!path.empty()) {
    std::ifstream file(path);
    if (!file) return base::invalid(key + "_file: cannot read '" + path + "'");
    size_t before = out.size();
    for (std::string line; std::getline(file, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) out.push_back(line);
    }
    if (out.size() == before) return base::invalid(key + "_file: '" + path + "' holds none");
  }
  if (!std::all_of(out.begin(), out.end(), sendable))
    return base::invalid(key + ": a secret must be visible ASCII without blanks");
  return out;
}

}  // namespace

base::Result<std::vector<std::string>> bearer_tokens(const SalienceConfig& config) {
  std::vector<std::string> out;
  if (!config.bearer_token.empty()) out.push_back(config.bearer_token);
  return collect("salience.bearer_token", std::move(out), config.bearer_token_file);
}

base::Result<std::vector<std::string>> api_keys(const OpenaiConfig& config) {
  return collect("openai.api_keys", config.api_keys, config.api_keys_file);
}

}  // namespace weir::app
