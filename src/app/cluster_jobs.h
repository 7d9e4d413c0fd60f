// ClusterJobs: the journal's log (src/jobs/log.h) in NATS (src/cluster/nats_log.h), for a node of a cluster.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "app/config.h"
#include "cluster/cluster.h"
#include "cluster/nats_log.h"
#include "jobs/log.h"
#include "jobs/store.h"

namespace weir::app {

class ClusterJobs final : public jobs::Log {
 public:
  // The log has a snapshot of the journal, what it grows to before there is another, and that one (jobs/snapshots.h).
  static constexpr uint64_t kLeastBytes = uint64_t(512) << 20, kTimesDisk = 4;

  // Bytes of a line and of a result, which are in one entry with what belongs to them.
  static constexpr uint64_t kLongest = kLargest - (uint64_t(4) << 20);

  // The store outlives this, and is stopped before stop(). `knows_nodes`: as of jobs::Log.
  ClusterJobs(jobs::Store& store, const cluster::Settings& settings, const std::string& node, uint64_t disk,
              std::function<bool()> knows_nodes)
      : log_({settings.nats, settings.bucket + "-jobs", node, cluster::Secrets::derive(settings.secret).entry_key,
              std::max(kTimesDisk * disk, kLeastBytes)},
             [&store] { store.poke(); }),
        knows_nodes_(std::move(knows_nodes)) {
    store.share(*this, node);
  }
  base::Status start() { return log_.start(); }
  void stop() { log_.stop(); }

  Sizes sizes() const override {
    const cluster::NatsLog::Sizes sizes = log_.sizes();
    return {sizes.part, sizes.entry};
  }
  void abandon() override { log_.abandon(); }
  base::Result<uint64_t> append(std::string_view id, std::string_view bytes) override { return log_.append(id, bytes); }
  base::Result<std::optional<LogEntry>> next(uint64_t after) override {
    auto entry = log_.next(after);
    if (!entry) return entry.error();
    if (!*entry) return std::optional<LogEntry>();
    return std::optional<LogEntry>({(*entry)->sequence, std::move((*entry)->bytes), (*entry)->gap});
  }
  base::Result<Extent> extent() override {
    auto extent = log_.extent();
    if (!extent) return extent.error();
    return Extent{extent->identity, extent->connection};
  }
  base::Result<Place> at(uint64_t sequence) override {
    auto place = log_.at(sequence);
    if (!place) return place.error();
    if (place->dropped) return Place{Place::Has::kDropped, {}};
    return Place{place->entry ? Place::Has::kEntry : Place::Has::kOther, std::move(place->bytes)};
  }
  base::Result<std::optional<Snapshot>> snapshot() override {
    auto there = log_.snapshot();
    if (!there) return there.error();
    if (!*there) return std::optional<Snapshot>();
    Snapshot out{(*there)->sequence, (*there)->bytes, {}};
    for (auto& part : (*there)->parts) out.parts.push_back({part.sequence, std::move(part.digest)});
    return std::optional<Snapshot>(std::move(out));
  }
  base::Result<Part> append_part(std::string_view bytes) override {
    auto part = log_.append_part(bytes);
    if (!part) return part.error();
    return Part{part->sequence, std::move(part->digest)};
  }
  base::Result<std::string> read_part(const Part& part) override {
    return log_.read_part({part.sequence, part.digest});
  }
  base::Status set_snapshot(const Snapshot& snapshot) override { return log_.set_snapshot(in_nats(snapshot)); }
  base::Status tell_copy(const Copy& copy) override { return log_.tell_copy({copy.identity, copy.sequence}); }
  base::Result<bool> is_behind(const Copy& copy) override { return log_.is_behind({copy.identity, copy.sequence}); }
  base::Status begin_with(const Snapshot& snapshot) override { return log_.begin_with(in_nats(snapshot)); }
  base::Result<Room> room() override {
    auto room = log_.room();
    if (!room) return room.error();
    return Room{room->used, room->most};
  }
  bool knows_nodes() const override { return knows_nodes_(); }

 private:
  static cluster::NatsLog::Snapshot in_nats(const Snapshot& snapshot) {
    cluster::NatsLog::Snapshot out{snapshot.sequence, snapshot.bytes, {}};
    for (const Part& part : snapshot.parts) out.parts.push_back({part.sequence, part.digest});
    return out;
  }

  cluster::NatsLog log_;
  const std::function<bool()> knows_nodes_;
};

}  // namespace weir::app
