#include "app/secrets.h"

#include <algorithm>
#include <fstream>

namespace weir::app {
namespace {

// RFC 6750, "b64token", and whatever else is visible.
bool sendable(const std::string& secret) {
  return std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

base::Result<std::vector<std::string>> bearer_tokens(const SalienceConfig& config) {
  std::vector<std::string> out;
  if (!config.bearer_token.empty()) out.push_back(config.bearer_token);
  if (const std::string& path = config.bearer_token_file; !path.empty()) {
    std::ifstream file(path);
    if (!file) return base::invalid("salience.bearer_token_file: cannot read '" + path + "'");
    for (std::string line; std::getline(file, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) out.push_back(line);
    }
    if (out.empty()) return base::invalid("salience.bearer_token_file: '" + path + "' holds no token");
  }
  if (!std::all_of(out.begin(), out.end(), sendable))
    return base::invalid("salience.bearer_token: a token must be visible ASCII without blanks");
  return out;
}

}  // namespace weir::app
