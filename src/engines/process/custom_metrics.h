// CustomMetrics: the counters, gauges and histograms that models make by themselves (pb_utils.MetricFamily), and their
// text for /metrics.
//
// Families belong to the server, as in Triton: models that name the same family and the same labels share a metric,
// which goes with the last of them. Names, labels and numbers come from a model's code. They are bounded per model and
// for the server, in lines and bytes of the text, and charged to the ledger; names of the server's own are refused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory_ledger.h"
#include "base/status.h"

namespace weir::process {

enum class MetricKind : uint8_t { kCounter = 0, kGauge = 1, kHistogram = 2 };  // Triton's numbers

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Any thread.
class CustomMetrics {
 public:
  // A part of the text: a counter is one line, a histogram one for each bucket and three more.
  struct Amount {
    uint64_t lines = 0, bytes = 0;
  };
  static constexpr Amount kMostOfAll{5'000, 512 << 10}, kMostOfOne{1'000, 128 << 10};
  static constexpr size_t kMostFamilies = 100;  // of one model
  static constexpr size_t kLongestName = 200, kLongestHelp = 1'000, kLongestLabel = 1'000;
  static constexpr size_t kMostLabels = 32, kMostBuckets = 100;

  // `ledger` outlives this; null: nothing is charged.
  explicit CustomMetrics(base::MemoryLedger* ledger) : ledger_(ledger) {}

  // Appends the families that have metrics, in Prometheus' text format.
  void write(std::string& out) const;

 private:
  friend class ModelMetrics;
  struct Metric {
    std::vector<std::string> lines;  // each up to its value; of a histogram: its buckets, +Inf, sum, count
    std::vector<double> bounds;
    std::vector<uint64_t> counts;  // of values, by bucket; the last is +Inf's
    double value = 0;              // of a histogram: the sum
    size_t holders = 0;
    Amount amount;
  };
  struct Family {
    MetricKind kind{};
    std::string help;
    size_t holders = 0;
    std::map<std::string, Metric> metrics;  // by their labels, as in the text
  };
  base::Status check_name(const std::string& name, MetricKind kind) const;
  base::Status admit(const Amount& amount);
  void give_back(const Amount& amount);
  void release(const std::string& family, const std::string& labels);
  void release(const std::string& family);

  base::MemoryLedger* const ledger_;
  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;  // under mutex_, as all below
  Amount amount_;
};

// The metrics that one process of a model has made, and that go with it. Numbers are this one's own. Any thread.
class ModelMetrics {
 public:
  explicit ModelMetrics(std::shared_ptr<CustomMetrics> all) : all_(std::move(all)) {}
  ~ModelMetrics() { clear(); }
  ModelMetrics(const ModelMetrics&) = delete;

  // Errors: INVALID_ARGUMENT for a name; ALREADY_EXISTS for one of another kind, or of the server's own;
  // RESOURCE_EXHAUSTED. The help text of the first asker is kept.
  base::Result<uint64_t> add_family(const std::string& name, const std::string& help, MetricKind kind);
  // `bounds`: of a histogram's buckets, ascending, without +Inf. The same labels are the same metric. Errors: as above;
  // NOT_FOUND.
  base::Result<uint64_t> add_metric(uint64_t family, MetricLabels labels, const std::vector<double>& bounds);
  // With its metrics.
  void remove_family(uint64_t family);
  // These have no effect where there is no such metric, or its kind does not allow it: a counter does not fall, and
  // neither a counter nor a histogram takes NaN or infinity.
  void increment(uint64_t metric, double by);
  void set(uint64_t metric, double to);
  void observe(uint64_t metric, double value);
  // Errors: NOT_FOUND; UNIMPLEMENTED for a histogram.
  base::Result<double> value(uint64_t metric) const;
  void clear();

 private:
  struct Held {
    std::string family, labels;
    uint64_t family_number = 0;
    CustomMetrics::Family* in = nullptr;
    CustomMetrics::Metric* metric = nullptr;
  };
  const Held* find(uint64_t metric) const;

  const std::shared_ptr<CustomMetrics> all_;
  // Under the mutex of all_.
  uint64_t last_ = 0;
  std::map<uint64_t, std::string> families_;
  std::map<uint64_t, Held> metrics_;
  CustomMetrics::Amount amount_;
};

}  // namespace weir::process
