// ClusterJobs: the journal's log (src/jobs/log.h) in NATS (src/cluster/nats_log.h), for a node of a cluster.
#pragma once

#include <algorithm>
#include <utility>

#include "app/config.h"
#include "cluster/cluster.h"
#include "cluster/nats_log.h"
#include "jobs/log.h"
#include "jobs/store.h"

namespace weir::app {

class ClusterJobs final : public jobs::Log {
 public:
  // What entries leave behind is short next to what files hold, but it is there until it is applied everywhere.
  static constexpr uint64_t kLeastBytes = uint64_t(64) << 20;

  // The store outlives this, and is stopped before stop().
  ClusterJobs(jobs::Store& store, const cluster::Settings& settings, const std::string& node, uint64_t disk)
      : log_({settings.nats, settings.bucket + "-jobs", node, cluster::Secrets::derive(settings.secret).entry_key,
              std::max(disk, kLeastBytes)},
             [&store] { store.poke(); }) {
    store.share(*this, node);
  }
  base::Status start() { return log_.start(); }
  void stop() { log_.stop(); }

  base::Result<uint64_t> append(std::string_view id, std::string_view bytes) override { return log_.append(id, bytes); }
  base::Result<std::optional<Entry>> next(uint64_t after) override {
    auto entry = log_.next(after);
    if (!entry) return entry.error();
    if (!*entry) return std::optional<Entry>();
    return std::optional<Entry>({(*entry)->sequence, std::move((*entry)->bytes)});
  }
  base::Result<Extent> extent() override {
    auto extent = log_.extent();
    if (!extent) return extent.error();
    return Extent{extent->identity, extent->last};
  }

 private:
  cluster::NatsLog log_;
};

}  // namespace weir::app
