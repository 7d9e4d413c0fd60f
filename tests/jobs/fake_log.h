// A Log in memory that several replicas share, with what can go wrong.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "base/env.h"
#include "jobs/log.h"

namespace weir::jobs {

class FakeLog final : public Log {
 public:
  Sizes sizes() const override { return most; }
  base::Result<uint64_t> append(std::string_view id, std::string_view bytes) override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    if (auto others = std::exchange(before_append, nullptr)) others();
    if (full || bytes.size() > most.entry) return base::failure(base::Code::kResourceExhausted, "no room");
    uint64_t at = 0;
    for (const auto& [sequence, known] : ids)
      if (known == id) at = sequence;
    if (at == 0) ids[at = ++last] = id, entries[at] = std::exchange(garble, false) ? "" : bytes;
    if (lose_acks > 0) return --lose_acks, base::failure(base::Code::kUnavailable, "no acknowledgement");
    return at;
  }
  base::Result<std::optional<LogEntry>> next(uint64_t after) override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    if (throws > 0 && --throws == 0) throw std::bad_alloc();
    auto at = entries.upper_bound(after);
    if (at == entries.end()) return std::optional<LogEntry>();
    const bool torn = at->second.size() > readable;
    return std::optional<LogEntry>({at->first, torn ? std::string() : at->second, after < dropped});
  }
  base::Result<Extent> extent() override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    return Extent{identity, connection};
  }
  base::Result<Place> at(uint64_t sequence) override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    if (auto there = entries.find(sequence); there != entries.end()) return Place{Place::Has::kEntry, there->second};
    return Place{sequence <= dropped ? Place::Has::kDropped : Place::Has::kOther, {}};
  }
  base::Result<std::optional<Snapshot>> snapshot() override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    return newest;
  }
  base::Result<Part> append_part(std::string_view bytes) override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    if (bytes.size() > most.part) return base::failure(base::Code::kResourceExhausted, "too long");
    parts[++last] = bytes;
    return Part{last, {}};
  }
  base::Result<std::string> read_part(const Part& part) override {
    auto at = parts.find(part.sequence);
    return at == parts.end() ? std::string() : at->second;
  }
  base::Status set_snapshot(const Snapshot& snapshot) override {
    if (newest && newest->sequence >= snapshot.sequence) return base::failure(base::Code::kAborted, "a newer one");
    newest = snapshot;
    dropped = snapshot.sequence;
    entries.erase(entries.begin(), entries.upper_bound(dropped));
    return {};
  }
  base::Status tell_copy(const Copy& copy) override {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    told.push_back(copy);
    return {};
  }
  base::Result<bool> is_behind(const Copy& copy) override {
    return std::any_of(told.begin(), told.end(), [&](const Copy& other) {
      const size_t its = other.identity.size(), own = copy.identity.size();
      return its > own || (its == own && other.sequence > copy.sequence);
    });
  }
  base::Status begin_with(const Snapshot& snapshot) override {
    if (auto others = std::exchange(before_beginning, nullptr)) others();
    if (newest || !entries.empty()) return base::failure(base::Code::kAborted, "it has begun");
    newest = snapshot, ++last;
    return {};
  }
  base::Result<Room> room() override { return bytes; }

  // As somebody else does it.
  void write(std::string bytes) { entries[++last] = std::move(bytes); }
  // As after a power loss of the server: it is the same log, without what it had not written to its disk yet.
  void cut(uint64_t to) {
    for (auto* map : {&entries, &ids, &parts}) map->erase(map->upper_bound(to), map->end());
    last = to, ++connection;
  }

  // The server comes back without it, and it is made anew.
  void make_anew() {
    cut(0);
    newest.reset(), told.clear(), dropped = 0;
    identity += '0';  // a greater number
  }

  std::map<uint64_t, std::string> entries, ids, parts;
  std::optional<Snapshot> newest;
  std::vector<Copy> told;
  base::Time now;        // for those who use it
  uint64_t dropped = 0;  // all up to it
  Room bytes{0, 1 << 30};
  std::string identity = "1";
  uint64_t last = 0, connection = 1;
  int lose_acks = 0;
  int throws = 0;              // memory is short at the call of next() of that number from now on
  size_t readable = SIZE_MAX;  // bytes of an entry; the parts of a longer one are too far apart
  Sizes most;
  std::function<void()> before_beginning, before_append;  // come before the next one
  bool away = false, full = false;
  bool garble = false;  // nobody can read the next one
};

}  // namespace weir::jobs
