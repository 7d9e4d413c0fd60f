// Monitor: the numbers of /metrics second by second, as GRPS's page of charts wants them.
//
//   *qps  *fail_rate(%)  *latency_{avg,max,min}(ms)  *latency_cdf(ms)  *requests
//   *cpu_usage(%)  *mem_usage(%)  *mem_usage(MIB)
//   *gpu0_usage(%)  *gpu0_mem_usage(MIB)  … of every GPU that there is
//   <model>_qps  <model>_latency_avg(ms)  <model>_latency_cdf(ms)
// A rate is averaged into minutes, hours and days; maxima and minima stay such; *requests adds up. Requests of every
// protocol count, but for probes and pages ("http", "health", "metrics"). One for all shards; any thread.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/gpu.h"
#include "base/metrics.h"
#include "dialects/grps/time_series.h"

namespace weir::grps {

class Monitor {
 public:
  // Processor seconds and resident bytes of this process so far, the machine's memory, and its GPUs; asked once a
  // second.
  struct Usage {
    double cpu_seconds = 0;
    uint64_t resident = 0;
    uint64_t memory = 0;  // bytes; 0 = not known
    std::vector<base::Gpu> gpus{};
  };
  explicit Monitor(const base::Metrics& metrics, std::function<Usage()> usage = own_usage);

  // Returns true to the first caller only, which must then call tick() once a second.
  bool claim();
  // Call this about once a second: it reads all counters.
  void tick(base::Time now);

  struct Row {
    std::string name;
    double last;
  };
  std::vector<Row> rows() const;
  static Usage own_usage();
  // {"label":"trend","data":[[0,v],…,[173,v]]} – 30 days, 24 hours, 60 minutes, 60 seconds – or
  // {"label":"cdf","data":[[10,v],…,[90,v],[91,v],…,[101,v]]} – percents, 100 = 99.9, 101 = 99.99. Nothing for a name
  // that is not there.
  std::optional<std::string> series(std::string_view name) const;

 private:
  // Requests of everything, or of one model.
  struct Flow {
    double requests = 0, failed = 0, sum_ns = 0;
    RecentQuantiles::Buckets buckets{};
  };
  struct Track {
    Flow last;
    RecentQuantiles recent;
  };
  void push(const std::string& name, Series::Rule rule, double value);
  void follow(const std::string& prefix, const Flow& now, double seconds);
  void forget(const std::string& prefix);
  void read(std::map<std::string, Flow, std::less<>>& flows) const;

  const base::Metrics& metrics_;
  std::function<Usage()> usage_;
  mutable std::mutex mutex_;
  bool claimed_ = false;
  base::Time ticked_ = base::kNever;
  Usage used_;
  std::map<std::string, Series, std::less<>> series_;
  std::map<std::string, Track, std::less<>> tracks_;  // by prefix: "*", "digits_"
};

}  // namespace weir::grps
