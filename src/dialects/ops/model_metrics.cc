// The families of metrics.h that are written from the catalog and from /proc at each scrape.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "bus/cache_stats.h"
#include "bus/load_notes.h"
#include "bus/memory_use.h"
#include "bus/response_stats.h"
#include "dialects/ops/metrics.h"

namespace weir::ops {
namespace {

using bus::ModelStats;

struct Row {
  std::string labels;  // model="…",version="…"
  const ModelStats* stats;
  const bus::Served* served;
};

std::vector<Row> rows(const bus::Catalog& catalog) {
  std::vector<Row> out;
  for (const auto& [name, model] : catalog.models)
    for (const auto& [version, served] : model.versions) {
      if (!served->spec.parent.empty()) continue;  // its Calls count for its model
      out.push_back({"model=\"" + base::escape_label(name) + "\",version=\"" + base::escape_label(version) + '"',
                     &served->stats, served.get()});
    }
  return out;
}

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  ((((out += "# HELP ") += name) += ' ') += help) += '\n';
  ((((out += "# TYPE ") += name) += ' ') += type) += '\n';
}

void line(std::string& out, std::string_view name, std::string_view labels, uint64_t value) {
  (((out += name) += '{') += labels) += "} ";
  out += std::to_string(value) + '\n';
}

void seconds_line(std::string& out, std::string_view name, std::string_view labels, uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / 1'000'000'000, ns % 1'000'000'000);
  ((((((out += name) += '{') += labels) += "} ") += text) += '\n');
}

using Count = uint64_t (*)(const ModelStats&);

struct Family {
  std::string_view name, type, help;
  std::string_view label;  // an extra one, or empty
  Count count;
};

constexpr Family kFamilies[] = {
    {"weir_model_inferences_total", "counter", "Rows that ran.", "",
     [](const ModelStats& s) { return s.inference_count.load(); }},
    {"weir_model_executions_total", "counter", "Batches that ran.", "",
     [](const ModelStats& s) { return s.execution_count.load(); }},
    {"weir_model_requests_total", "counter", "Calls of a model by outcome.", ",outcome=\"success\"",
     [](const ModelStats& s) { return s.success.count.load(); }},
    {"weir_model_requests_total", "", "", ",outcome=\"failed\"", [](const ModelStats& s) { return s.errors.load(); }},
    {"weir_model_requests_total", "", "", ",outcome=\"rejected\"",
     [](const ModelStats& s) { return s.rejected.load(); }},
    {"weir_model_requests_total", "", "", ",outcome=\"cancelled\"",
     [](const ModelStats& s) { return s.cancelled.load(); }},
    {"weir_model_requests_total", "", "", ",outcome=\"expired\"", [](const ModelStats& s) { return s.expired.load(); }},
};

constexpr Family kTimes[] = {
    {"weir_model_time_seconds_total", "counter", "Time of successful calls, by where it went.", ",phase=\"queue\"",
     [](const ModelStats& s) { return s.queue.ns.load(); }},
    {"weir_model_time_seconds_total", "", "", ",phase=\"input\"",
     [](const ModelStats& s) { return s.compute_input.ns.load(); }},
    {"weir_model_time_seconds_total", "", "", ",phase=\"infer\"",
     [](const ModelStats& s) { return s.compute_infer.ns.load(); }},
    {"weir_model_time_seconds_total", "", "", ",phase=\"output\"",
     [](const ModelStats& s) { return s.compute_output.ns.load(); }},
};

constexpr Family kTriton[] = {
    {"nv_inference_request_success", "counter", "Number of successful inference requests.", "",
     [](const ModelStats& s) { return s.success.count.load(); }},
    {"nv_inference_request_failure", "counter", "Number of failed inference requests.", ",reason=\"REJECTED\"",
     [](const ModelStats& s) { return s.rejected.load(); }},
    {"nv_inference_request_failure", "", "", ",reason=\"CANCELED\"",
     [](const ModelStats& s) { return s.cancelled.load(); }},
    {"nv_inference_request_failure", "", "", ",reason=\"BACKEND\"",
     [](const ModelStats& s) { return s.errors.load(); }},
    {"nv_inference_request_failure", "", "", ",reason=\"OTHER\"", [](const ModelStats& s) { return s.expired.load(); }},
    {"nv_inference_count", "counter", "Number of inferences performed.", "",
     [](const ModelStats& s) { return s.inference_count.load(); }},
    {"nv_inference_exec_count", "counter", "Number of model executions performed.", "",
     [](const ModelStats& s) { return s.execution_count.load(); }},
    {"nv_inference_request_duration_us", "counter", "Cumulative request duration.", "",
     [](const ModelStats& s) { return s.success.ns.load() / 1000; }},
    {"nv_inference_queue_duration_us", "counter", "Cumulative queuing duration.", "",
     [](const ModelStats& s) { return s.queue.ns.load() / 1000; }},
    {"nv_inference_compute_input_duration_us", "counter", "Cumulative compute input duration.", "",
     [](const ModelStats& s) { return s.compute_input.ns.load() / 1000; }},
    {"nv_inference_compute_infer_duration_us", "counter", "Cumulative compute inference duration.", "",
     [](const ModelStats& s) { return s.compute_infer.ns.load() / 1000; }},
    {"nv_inference_compute_output_duration_us", "counter", "Cumulative compute output duration.", "",
     [](const ModelStats& s) { return s.compute_output.ns.load() / 1000; }},
};

struct CacheFamily {
  std::string_view name, type, help;
  std::string_view label;  // an extra one, or empty
  uint64_t (*count)(const bus::CacheStats&);
};

constexpr CacheFamily kCaches[] = {
    {"weir_model_response_cache_total", "counter",
     "Calls of models with response_cache, by whether an answer was there.", ",outcome=\"hit\"",
     [](const bus::CacheStats& s) { return s.hit.count.load(); }},
    {"weir_model_response_cache_total", "", "", ",outcome=\"miss\"",
     [](const bus::CacheStats& s) { return s.miss.count.load(); }},
};

constexpr CacheFamily kTritonsCaches[] = {
    {"nv_cache_num_hits_per_model", "counter", "Number of cache hits per model.", "",
     [](const bus::CacheStats& s) { return s.hit.count.load(); }},
    {"nv_cache_num_misses_per_model", "counter", "Number of cache misses per model.", "",
     [](const bus::CacheStats& s) { return s.miss.count.load(); }},
    {"nv_cache_hit_duration_per_model", "counter", "Total cache hit duration per model, in microseconds.", "",
     [](const bus::CacheStats& s) { return s.hit.ns.load() / 1000; }},
    {"nv_cache_miss_duration_per_model", "counter", "Total cache miss duration per model, in microseconds.", "",
     [](const bus::CacheStats& s) { return s.miss.ns.load() / 1000; }},
};

// For models that have a response cache.
template <size_t N>
void append_caches(std::string& out, const std::vector<Row>& rows, const CacheFamily (&families)[N]) {
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return bus::cache_stats(*row.served); })) return;
  for (const auto& f : families) {
    if (!f.type.empty()) head(out, f.name, f.type, f.help);
    for (const auto& row : rows)
      if (const auto* cache = bus::cache_stats(*row.served))
        line(out, f.name, row.labels + std::string(f.label), f.count(*cache));
  }
}

template <size_t N>
void append(std::string& out, const std::vector<Row>& rows, const Family (&families)[N],
            void (*write)(std::string&, std::string_view, std::string_view, uint64_t)) {
  for (const auto& f : families) {
    if (!f.type.empty()) head(out, f.name, f.type, f.help);
    for (const auto& row : rows) write(out, f.name, row.labels + std::string(f.label), f.count(*row.stats));
  }
}

// A Call inside a model with steps waits in one of these, and counts there: whoever adds up the models has it once.
// Such a model has those that wait before its first step.
void append_pending(std::string& out, const std::vector<Row>& rows, std::string_view name, std::string_view help) {
  head(out, name, "gauge", help);
  for (const auto& row : rows) {
    const bool has_steps = !row.served->spec.configured.steps.empty();
    const uint64_t before = uint64_t(std::max<int64_t>(row.stats->held.load(), 0));
    line(out, name, row.labels, has_steps ? before : row.stats->waiting());
  }
}

// Rows per batch, as a histogram with a bucket per power of two.
void append_batches(std::string& out, const std::vector<Row>& rows) {
  constexpr std::string_view kName = "weir_model_batch_rows";
  constexpr uint32_t kLargest = 1024;
  head(out, kName, "histogram", "Rows of the batches that ran.");
  for (const auto& row : rows) {
    auto batches = row.stats->batches();
    uint64_t below = 0, sum = 0;
    auto at = batches.begin();
    for (uint32_t bound = 1; bound <= kLargest; bound *= 2) {
      for (; at != batches.end() && at->first <= bound; ++at)
        below += at->second.count, sum += at->second.count * at->first;
      line(out, std::string(kName) + "_bucket", row.labels + ",le=\"" + std::to_string(bound) + '"', below);
    }
    for (; at != batches.end(); ++at) below += at->second.count, sum += at->second.count * at->first;
    line(out, std::string(kName) + "_bucket", row.labels + ",le=\"+Inf\"", below);
    line(out, std::string(kName) + "_sum", row.labels, sum);
    line(out, std::string(kName) + "_count", row.labels, below);
  }
}

void append_memory(std::string& out, const std::vector<Row>& rows) {
  constexpr std::string_view kName = "weir_model_memory_bytes";
  head(out, kName, "gauge", "Memory that a version has while it is loaded.");
  for (const auto& row : rows) {
    const auto uses = bus::memory_of(*row.served);                           // the names below are its own
    std::map<std::pair<std::string_view, std::string_view>, uint64_t> sums;  // several instances may be in one place
    for (const auto& use : uses) sums[{use.what, use.place}] += use.bytes;
    for (const auto& [of, bytes] : sums) {
      const std::string what(of.first), place = base::escape_label(of.second);
      line(out, kName, row.labels + ",what=\"" + what + "\",place=\"" + place + '"', bytes);
    }
  }
}

// For models that are in memory.
void append_load_times(std::string& out, const std::vector<Row>& rows, std::string_view name, std::string_view help) {
  head(out, name, "gauge", help);
  for (const auto& row : rows)
    if (const auto* notes = bus::load_notes(*row.served))
      seconds_line(out, name, row.labels, uint64_t(std::max<int64_t>(notes->took.count(), 0)));
}

// A decoupled model's Inbox knows it. A model of tokens has it by another name (token_metrics.cc).
const bus::FirstResponses* first_responses(const Row& row) {
  if (const auto* counts = bus::counts_responses(*row.served)) return &counts->first_responses();
  const bool once = !row.served->spec.decoupled && !row.stats->tokens;
  return once && row.stats->durations ? &row.stats->durations->answers() : nullptr;
}

void append_first_responses(std::string& out, const std::vector<Row>& rows) {
  constexpr std::string_view kName = "nv_inference_first_response_histogram_ms";
  bool any = false;
  for (const auto& row : rows) {
    const auto* responses = first_responses(row);
    if (!responses) continue;
    if (!std::exchange(any, true))
      head(out, kName, "histogram", "Duration from request to first response in milliseconds.");
    const auto& first = *responses;
    uint64_t below = 0;
    for (size_t i = 0; i <= first.bounds().size(); ++i) {
      char bound[32] = "+Inf";
      if (i < first.bounds().size()) std::snprintf(bound, sizeof bound, "%.15g", first.bounds()[i]);
      below += first.count(i);
      line(out, std::string(kName) + "_bucket", row.labels + ",le=\"" + bound + '"', below);
    }
    line(out, std::string(kName) + "_sum", row.labels, first.sum_ms());
    line(out, std::string(kName) + "_count", row.labels, below);
  }
}

struct Summary {
  std::string_view name, help;
  bus::CallDurations::Part part;
  bus::RunDuration ModelStats::*sums;
};

constexpr Summary kSummaries[] = {
    {"nv_inference_request_summary_us",
     "Summary of inference request duration in microseconds (includes cached requests).",
     bus::CallDurations::Part::kWhole, &ModelStats::success},
    {"nv_inference_queue_summary_us",
     "Summary of inference queuing duration in microseconds (includes cached requests).",
     bus::CallDurations::Part::kQueue, &ModelStats::queue},
    {"nv_inference_compute_input_summary_us", "Summary of compute input duration in microseconds.",
     bus::CallDurations::Part::kInput, &ModelStats::compute_input},
    {"nv_inference_compute_infer_summary_us", "Summary of compute inference duration in microseconds.",
     bus::CallDurations::Part::kInfer, &ModelStats::compute_infer},
    {"nv_inference_compute_output_summary_us", "Summary of compute output duration in microseconds.",
     bus::CallDurations::Part::kOutput, &ModelStats::compute_output},
};

void append_summaries(std::string& out, std::vector<Row> rows, const std::vector<std::string>& quantiles) {
  std::erase_if(rows, [](const Row& row) {
    return row.stats->tokens || !row.stats->durations || !row.stats->durations->has_quantiles();
  });
  std::vector<double> shares;
  for (const auto& quantile : quantiles) shares.push_back(std::strtod(quantile.c_str(), nullptr));
  const uint64_t now = base::unix_ms();
  for (const auto& summary : kSummaries) {
    if (!rows.empty()) head(out, summary.name, "summary", summary.help);
    for (const auto& row : rows) {
      const auto values = row.stats->durations->quantiles(summary.part, shares, now);
      for (size_t i = 0; i < values.size(); ++i) {
        char value[32] = "NaN";
        if (!std::isnan(values[i])) std::snprintf(value, sizeof value, "%.15g", values[i]);
        ((((out += summary.name) += '{') += row.labels) += ",quantile=\"") += quantiles[i];
        ((out += "\"} ") += value) += '\n';
      }
      const auto& sums = row.stats->*summary.sums;
      line(out, std::string(summary.name) + "_sum", row.labels, sums.ns.load() / 1000);
      line(out, std::string(summary.name) + "_count", row.labels, sums.count.load());
    }
  }
}

// Field `n` (from 1, as in proc(5)) of /proc/self/stat.
uint64_t stat_field(int n) {
  std::ifstream in("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  size_t at = text.rfind(')');  // the name before it may contain anything
  for (int field = 2; at != std::string::npos && field < n; ++field) at = text.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at, nullptr, 10);
}

uint64_t boot_seconds() {
  std::ifstream in("/proc/stat");
  for (std::string word; in >> word;)
    if (uint64_t seconds = 0; word == "btime" && in >> seconds) return seconds;
  return 0;
}

void plain(std::string& out, std::string_view name, std::string_view type, std::string_view help,
           const std::string& value) {
  head(out, name, type, help);
  (((out += name) += ' ') += value) += '\n';
}

}  // namespace

void append_models(std::string& out, const bus::Catalog& catalog) {
  auto all = rows(catalog);
  append(out, all, kFamilies, line);
  append_pending(out, all, "weir_model_pending",
                 "Calls that wait for their batch now; of a model with steps those that wait before the first.");
  append(out, all, kTimes, seconds_line);
  append_caches(out, all, kCaches);
  append_batches(out, all);
  append_memory(out, all);
  append_load_times(out, all, "weir_model_load_seconds", "Time that the load of a version took.");
  head(out, "weir_model_ready", "gauge", "1 for versions that serve.");
  for (const auto& row : catalog.index)
    line(out, "weir_model_ready",
         "model=\"" + base::escape_label(row.name) + "\",version=\"" + base::escape_label(row.version) + '"',
         row.state == bus::ModelState::kReady);
}

void append_triton(std::string& out, const bus::Catalog& catalog, const std::vector<std::string>& quantiles) {
  const auto all = rows(catalog);
  append(out, all, kTriton, line);
  append_pending(out, all, "nv_inference_pending_request_count", "Requests awaiting execution.");
  append_load_times(out, all, "nv_model_load_duration_secs", "Model load time in seconds.");
  append_first_responses(out, all);
  append_summaries(out, all, quantiles);
  append_caches(out, all, kTritonsCaches);
}

void append_process(std::string& out, std::string_view version) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  char cpu[32];
  std::snprintf(cpu, sizeof cpu, "%.6f",
                double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6);
  uint64_t ticks = uint64_t(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  std::error_code error;
  auto fds = std::filesystem::directory_iterator("/proc/self/fd", error);
  uint64_t open = error ? 0 : uint64_t(std::distance(fds, std::filesystem::directory_iterator()));
  plain(out, "process_cpu_seconds_total", "counter", "Processor time.", cpu);
  plain(out, "process_resident_memory_bytes", "gauge", "Memory in RAM.",
        std::to_string(stat_field(24) * uint64_t(::sysconf(_SC_PAGESIZE))));
  plain(out, "process_virtual_memory_bytes", "gauge", "Address space.", std::to_string(stat_field(23)));
  plain(out, "process_open_fds", "gauge", "Open file descriptors.", std::to_string(open));
  plain(out, "process_threads", "gauge", "Threads.", std::to_string(stat_field(20)));
  plain(out, "process_start_time_seconds", "gauge", "Unix time of the start.",
        std::to_string(boot_seconds() + stat_field(22) / ticks));
  plain(out, "weir_log_dropped_total", "counter",
        "Lines of the log that were lost: nobody read them, or a disk was full.", std::to_string(base::log::dropped()));
  head(out, "weir_build_info", "gauge", "1; the version is in the label.");
  line(out, "weir_build_info", "version=\"" + base::escape_label(version) + '"', 1);
}

}  // namespace weir::ops
