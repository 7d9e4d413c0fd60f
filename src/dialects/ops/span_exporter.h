// SpanExporter: spans from the shards to a collector, in batches, by one thread that may wait.
//
// A shard waits for nothing but a brief lock. Where the collector is away, slow or silent, spans gather up to
// ExportRules::most_waiting bytes; beyond that new ones are dropped and counted:
//
//   weir_spans_total{outcome}   exported; rejected: by the collector; dropped: there was no room, or no collector for
//                               longer than give_up
//
// The server's log says when the collector does not take spans, and why, and when it does again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/env.h"
#include "base/metrics.h"

namespace weir::ops {

// Bounds of an exporter. Batches and pauses are those of OpenTelemetry's own exporters.
struct ExportRules {
  uint32_t batch_spans = 512;
  size_t batch_bytes = size_t(1) << 20;
  size_t most_waiting = size_t(8) << 20;                 // bytes
  base::Duration delay = std::chrono::seconds(5);        // of a batch that is not full
  base::Duration first_pause = std::chrono::seconds(1);  // between tries of one batch, doubled each time
  base::Duration longest_pause = std::chrono::seconds(30);
  base::Duration give_up = std::chrono::minutes(5);  // after the first try of a batch
};

class SpanExporter {
 public:
  // The outcome of one request to the collector.
  struct Reply {
    enum class Fate : uint8_t { kTaken, kTryAgain, kRefused };
    Fate fate = Fate::kTaken;
    base::Duration pause{-1};  // that the collector asks for; negative: none
    uint64_t rejected = 0;     // spans of a request that was taken
    std::string why;           // for the log
  };
  // Sends spans that SpanWriters have written, and waits for the answer. On the exporter's thread.
  using Post = std::function<Reply(std::string spans)>;

  SpanExporter(Post post, ExportRules rules, base::Metrics& metrics);
  ~SpanExporter();  // drops what is waiting, and cuts nothing off: stop() first

  // Takes the spans, all of them or none, and leaves the string empty. Any thread.
  void put(std::string& spans, uint32_t count);
  // Counts spans that could not even be written down. Any thread.
  void lost(uint32_t count);
  // Sends what is waiting for as long as `most`; then `cut_off` has to end a Post under way, and the rest is dropped.
  // Once, from a thread that may wait. Where a Post does not end for all that within a second, its thread is left
  // behind; it then touches nothing but what its Post owns.
  void stop(base::Duration most, const std::function<void()>& cut_off);

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace weir::ops
