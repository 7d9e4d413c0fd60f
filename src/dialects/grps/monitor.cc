#include "dialects/grps/monitor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "marshal/json_tensor.h"

namespace weir::grps {
namespace {

using Rule = Series::Rule;

constexpr std::string_view kCdf = "latency_cdf(ms)";

std::string_view label(const base::Metrics::Labels& labels, std::string_view name) {
  for (const auto& [key, value] : labels)
    if (key == name) return value;
  return {};
}

bool counts(std::string_view protocol) {
  return protocol != "http" && protocol != "health" && protocol != "metrics" && protocol != "grps-monitor";
}

double number_of(const RecentQuantiles::Buckets& buckets) {
  double n = 0;
  for (uint64_t b : buckets) n += double(b);
  return n;
}

void point(std::string& out, size_t x, double y) {
  if (out.back() != '[') out += ',';
  out += '[' + std::to_string(x) + ',';
  marshal::write_number(out, y);
  out += ']';
}

}  // namespace

Monitor::Monitor(const base::Metrics& metrics, std::function<Usage()> usage)
    : metrics_(metrics), usage_(std::move(usage)) {}

Monitor::Usage Monitor::own_usage() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  uint64_t pages = 0, resident = 0, page = uint64_t(::sysconf(_SC_PAGESIZE));
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return {double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
              double(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6,
          resident * page,
          uint64_t(std::max(::sysconf(_SC_PHYS_PAGES), 0L)) * page,
          {}};
}

bool Monitor::claim() {
  std::lock_guard lock(mutex_);
  return !std::exchange(claimed_, true);
}

void Monitor::push(const std::string& name, Rule rule, double value) {
  series_.try_emplace(name, rule).first->second.push(value);
}

void Monitor::read(std::map<std::string, Flow, std::less<>>& flows) const {
  auto add = [](Flow& flow, const base::Metrics::Reading& r) {
    flow.sum_ns += r.value;
    for (size_t i = 0; i < r.buckets.size(); ++i) flow.buckets[i] += r.buckets[i];
  };
  Flow& all = flows["*"];
  metrics_.each([&](const base::Metrics::Reading& r) {
    if (r.family == "weir_requests_total" && counts(label(r.labels, "protocol"))) {
      all.requests += r.value;
      if (label(r.labels, "code") != "OK") all.failed += r.value;
    } else if (r.family == "weir_request_duration_seconds" && counts(label(r.labels, "protocol"))) {
      add(all, r);
    } else if (r.family == "weir_model_request_duration_seconds") {
      Flow& model = flows[std::string(label(r.labels, "model")) + "_"];
      add(model, r);
      model.requests = number_of(model.buckets);
    }
  });
}

// The series of a model that is gone.
void Monitor::forget(const std::string& prefix) {
  for (const char* name : {"qps", "latency_avg(ms)"}) series_.erase(prefix + name);
}

// Counters of a model that was gone in between have begun anew.
void Monitor::follow(const std::string& prefix, const Flow& now, double seconds) {
  Track& track = tracks_[prefix];
  if (now.requests < track.last.requests) track = Track();
  double requests = now.requests - track.last.requests;
  double failed = now.failed - track.last.failed;
  double ended = number_of(now.buckets) - number_of(track.last.buckets);
  double sum_ms = (now.sum_ns - track.last.sum_ns) * 1e-6;
  track.recent.push(now.buckets);
  push(prefix + "qps", Rule::kAvg, requests / seconds);
  push(prefix + "latency_avg(ms)", Rule::kAvg, ended > 0 ? sum_ms / ended : 0);
  if (prefix == "*") {
    push("*requests", Rule::kSum, requests);
    push("*fail_rate(%)", Rule::kAvg, requests > 0 ? 100 * failed / requests : 0);
    push("*latency_max(ms)", Rule::kMax, track.recent.slowest() * 1e3);
    push("*latency_min(ms)", Rule::kMin, track.recent.fastest() * 1e3);
  }
  track.last = now;
}

void Monitor::tick(base::Time now) {
  std::map<std::string, Flow, std::less<>> flows;
  read(flows);
  Usage usage = usage_();
  std::lock_guard lock(mutex_);
  double seconds = ticked_ == base::kNever ? 1 : std::chrono::duration<double>(now - ticked_).count();
  bool first = std::exchange(ticked_, now) == base::kNever;
  if (seconds <= 0) return;
  for (const auto& [prefix, flow] : flows) follow(prefix, flow, seconds);
  std::erase_if(tracks_, [&](const auto& track) {
    if (flows.contains(track.first)) return false;
    forget(track.first);
    return true;
  });
  push("*cpu_usage(%)", Rule::kAvg, first ? 0 : 100 * (usage.cpu_seconds - used_.cpu_seconds) / seconds);
  push("*mem_usage(MIB)", Rule::kMax, double(usage.resident) / (1 << 20));
  if (usage.memory > 0) push("*mem_usage(%)", Rule::kAvg, 100 * double(usage.resident) / double(usage.memory));
  for (const auto& gpu : usage.gpus) {
    std::string prefix = "*gpu" + std::to_string(gpu.index);
    if (gpu.utilization) push(prefix + "_usage(%)", Rule::kAvg, 100 * *gpu.utilization);
    if (gpu.memory_used) push(prefix + "_mem_usage(MIB)", Rule::kMax, double(*gpu.memory_used) / (1 << 20));
  }
  used_ = std::move(usage);
}

std::vector<Monitor::Row> Monitor::rows() const {
  std::lock_guard lock(mutex_);
  std::vector<Row> out;
  for (const auto& [name, series] : series_) out.push_back({name, series.last()});
  for (const auto& [prefix, track] : tracks_) out.push_back({prefix + std::string(kCdf), track.recent.at(0.99) * 1e3});
  return out;
}

std::optional<std::string> Monitor::series(std::string_view name) const {
  std::lock_guard lock(mutex_);
  std::string out = R"({"label":"trend","data":[)";
  if (auto found = series_.find(name); found != series_.end()) {
    auto points = found->second.trend();
    for (size_t i = 0; i < points.size(); ++i) point(out, i, points[i]);
    return out + "]}";
  }
  if (!name.ends_with(kCdf)) return std::nullopt;
  auto found = tracks_.find(name.substr(0, name.size() - kCdf.size()));
  if (found == tracks_.end()) return std::nullopt;
  out = R"({"label":"cdf","data":[)";
  const RecentQuantiles& recent = found->second.recent;
  for (size_t percent = 10; percent <= 90; percent += 10) point(out, percent, recent.at(double(percent) / 100) * 1e3);
  for (size_t percent = 91; percent <= 99; ++percent) point(out, percent, recent.at(double(percent) / 100) * 1e3);
  point(out, 100, recent.at(0.999) * 1e3);
  point(out, 101, recent.at(0.9999) * 1e3);
  return out + "]}";
}

}  // namespace weir::grps
