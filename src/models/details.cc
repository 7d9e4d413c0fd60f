#include "models/details.h"

#include <algorithm>

#include "base/fnv.h"

namespace weir::models {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

// As long as SHA-256's, which clients expect.
std::string digest_of(const Stamps& files, std::string_view model) {
  std::string out;
  for (char word = '0'; word < '4'; ++word) {
    base::Fnv hash;
    hash.add_bytes(word + std::string(model));
    for (const auto& file : files) {
      hash.add_bytes({file.path.data(), file.path.size() + 1});
      hash.add(uint64_t(file.mtime_ns)), hash.add(file.size);
    }
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[hash.value() >> shift & 15];
  }
  return out;
}

}  // namespace

std::shared_ptr<const msg::ModelDetails> with_files(const std::shared_ptr<const msg::ModelDetails>& known,
                                                    const ModelFolder& folder, uint64_t version) {
  auto out = known ? std::make_shared<msg::ModelDetails>(*known) : std::make_shared<msg::ModelDetails>();
  static const Stamps kNone;
  const auto at = folder.versions.find(version);
  const Stamps& files = at == folder.versions.end() ? kNone : at->second;
  for (const auto& file : files) {
    out->bytes += file.size;
    out->modified_ms = std::max(out->modified_ms, file.mtime_ns / kNsPerMs);
  }
  out->digest = digest_of(files, folder.name + '/' + std::to_string(version));
  return out;
}

}  // namespace weir::models
