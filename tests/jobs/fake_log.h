// A Log in memory that several replicas share, with what can go wrong.
#pragma once

#include <map>

#include "jobs/log.h"

namespace weir::jobs {

class FakeLog final : public Log {
 public:
  base::Result<uint64_t> append(std::string_view id, std::string_view bytes) override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    uint64_t at = 0;
    for (const auto& [sequence, known] : ids)
      if (known == id) at = sequence;
    if (at == 0) ids[at = ++last] = id, entries[at] = bytes;
    if (lose_acks > 0) return --lose_acks, base::failure(base::Code::kUnavailable, "no acknowledgement");
    return at;
  }
  base::Result<std::optional<Entry>> next(uint64_t after) override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    auto at = entries.upper_bound(after);
    if (at == entries.end()) return std::optional<Entry>();
    return std::optional<Entry>({at->first, at->second});
  }
  base::Result<Extent> extent() override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    return Extent{identity, last};
  }
  // As somebody else does it.
  void write(std::string bytes) { entries[++last] = std::move(bytes); }

  std::map<uint64_t, std::string> entries, ids;
  std::string identity = "1";
  uint64_t last = 0;
  int lose_acks = 0;
  bool away = false;
};

}  // namespace weir::jobs
