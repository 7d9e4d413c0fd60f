#include "marshal/secrets.h"

#include <algorithm>
#include <sstream>

namespace weir::marshal {
namespace {

constexpr size_t kMostBytes = size_t(64) << 20;  // of a file

// RFC 6750, "b64token", and whatever else is visible.
bool sendable(const std::string& secret) {
  return std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

base::Result<std::vector<std::string>> read_secrets(const std::string& key, std::vector<std::string> secrets,
                                                    const std::string& path, base::Pipes pipes) {
  if (!path.empty()) {
    auto text = base::read_text_file(path, pipes, kMostBytes);
    if (!text) return base::failure(text.error().code, key + "_file: " + text.error().text);
    std::istringstream file(std::move(*text));
    size_t before = secrets.size();
    for (std::string line; std::getline(file, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) secrets.push_back(line);
    }
    if (secrets.size() == before) return base::invalid(key + "_file: '" + path + "' holds none");
  }
  if (!std::all_of(secrets.begin(), secrets.end(), sendable))
    return base::invalid(key + ": a secret must be visible ASCII without blanks");
  return secrets;
}

}  // namespace weir::marshal
