#include "models/gguf_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace weir::models {
namespace {

// The first part of the model that a file is a later part of; empty: it is none.
std::string first_part(const std::string& name) {
  constexpr std::string_view kFirst = "-00001";
  constexpr size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (name.size() <= kTail) return {};
  const size_t at = name.size() - kTail;
  const bool part = name[at] == '-' && name.compare(at + kFirst.size(), 4, "-of-") == 0;
  return part && name.compare(at, kFirst.size(), kFirst) != 0
             ? name.substr(0, at) + std::string(kFirst) + name.substr(at + kFirst.size())
             : std::string();
}

}  // namespace

bool is_gguf(std::string_view name) { return name.size() > 5 && name.ends_with(".gguf"); }

bool is_gguf_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  if (is_gguf(path)) return true;
  char head[4] = {};
  std::ifstream in(path, std::ios::binary);
  return in.read(head, sizeof head) && std::memcmp(head, "GGUF", sizeof head) == 0;
}

std::vector<std::string> gguf_models(const Stamps& stamps) {
  std::vector<std::string> out;
  for (const auto& s : stamps) {
    if (!is_gguf(s.path) || s.path.find('/') != s.path.npos) continue;
    const std::string first = first_part(s.path);
    if (first.empty() || std::none_of(stamps.begin(), stamps.end(), [&](const auto& o) { return o.path == first; }))
      out.push_back(s.path);
  }
  return out;
}

}  // namespace weir::models
