// Counters, gauges and histograms, and their text in Prometheus' and OpenMetrics' forms.
//
// A series is a name and its labels. Every writer thread asks for its own cell of the series, so that counting is one
// uncontended relaxed add; cells are summed when somebody reads. Asking takes a lock: do it once and keep the pointer.
// Labels come from the configuration (model names, closed enums), never from a client's bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"

namespace weir::base {

// Where no other thread writes to it: no atomic read-modify-write, and readers see the number before or behind.
inline void add_alone(std::atomic<uint64_t>& to, uint64_t n) {
  to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void add_alone(uint64_t n = 1) { base::add_alone(value_, n); }  // the only thread that writes to this cell
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Durations in fixed log-linear buckets from 10 µs to 100 s (1-2-5 steps), exposed in seconds; or sizes 1 … 2^20.
class Histogram {
 public:
  enum class Scale : uint8_t { kSeconds, kSize };
  static constexpr size_t kBuckets = 22;

  explicit Histogram(Scale scale) : scale_(scale) {}
  void record_ns(uint64_t ns);
  void record_ns_alone(uint64_t ns);  // the only thread that writes to this cell
  void record_size(uint64_t n);

  // A traced request among those that were recorded, to be shown with its bucket until the next one.
  struct Exemplar {
    std::string trace_id;  // in hex
    uint64_t ns = 0;       // as it was recorded
    WallTime at{};
  };
  // Takes a lock, which nobody but a scrape holds: for the requests that are traced.
  void set_exemplar(Exemplar exemplar);
  // The one of bucket i; nothing where it has none.
  std::optional<Exemplar> exemplar(size_t i) const;

  Scale scale() const { return scale_; }
  uint64_t bucket(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }  // the last one is +Inf
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }                   // ns, or the sum of sizes
  // Upper bound of bucket i in exposition units (seconds or sizes).
  static double bound(Scale scale, size_t i);

 private:
  Scale scale_;
  std::array<std::atomic<uint64_t>, kBuckets + 1> counts_{};
  std::atomic<uint64_t> sum_{0};
  mutable std::mutex exemplars_mutex_;
  std::unique_ptr<std::array<Exemplar, kBuckets + 1>> exemplars_;  // under the mutex; made for the first one
};

class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // `name` is the whole family name ("weir_requests_total"); `help` of the first asker is kept. The references live as
  // long as the Metrics, those of histograms until they are dropped.
  Counter& counter(std::string_view name, std::string_view help, Labels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, Labels labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, Histogram::Scale scale, Labels labels = {});
  // Takes back a cell of histogram(), which nobody uses any more. A series whose cells have all been dropped has ended.
  void drop(std::string_view name, const Labels& labels, const Histogram& cell);
  // Called at every read; appends families of its own in Prometheus text (for values that live elsewhere).
  void collect(std::function<void(std::string&)> collector);

  // Every counter, gauge and histogram as it stands, by family; not what collectors add. Any thread; nobody who counts
  // or asks for a cell waits for it.
  struct Reading {
    std::string_view family;
    const Labels& labels;
    double value = 0;  // of a histogram: its sum, in ns or in sizes
    std::array<uint64_t, Histogram::kBuckets + 1> buckets{};
  };
  void each(const std::function<void(const Reading&)>& reader) const;

  // The whole registry as Prometheus text, version 0.0.4, or as OpenMetrics text, version 1.0, which alone has
  // exemplars. Any thread; as each().
  enum class Form : uint8_t { kPrometheus, kOpenMetrics };
  std::string text(Form form = Form::kPrometheus) const;

 private:
  struct Series;
  struct Family;
  struct FamilyReading;
  template <class Cell, class... Args>
  Cell& add(std::vector<std::shared_ptr<Cell>> Series::*cells, std::string_view name, std::string_view help,
            std::string_view type, Labels&& labels, Args... args);
  std::vector<FamilyReading> families() const;

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
  std::vector<std::function<void(std::string&)>> collectors_;

 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
};

// A label value as Prometheus wants it: \\, \" and \n escaped.
std::string escape_label(std::string_view value);

}  // namespace weir::base
