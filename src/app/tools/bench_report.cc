#include "app/tools/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

namespace weir::app {
namespace {

using nlohmann::json;

constexpr double kLate = 1e-3;  // seconds: one that starts later than that was not sent when it was due
constexpr double kBusy = 0.9;   // of a core: beyond it the numbers are bench's own

struct Percentile {
  const char* name;
  double part;
};
constexpr Percentile kPercentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}};

// The statistics of one kind of time.
struct Spread {
  const char* name;  // for people
  const char* key;   // for programs
  std::vector<double> sorted;

  double mean() const {
    return sorted.empty() ? 0 : std::accumulate(sorted.begin(), sorted.end(), 0.0) / double(sorted.size());
  }
};

struct Summary {
  std::array<Spread, 4> spreads{{{"latency", "latency", {}},
                                 {"time to first byte", "first_byte", {}},
                                 {"time to first token", "first_token", {}},
                                 {"between tokens", "inter_token", {}}}};
  std::vector<uint64_t> errors;  // by number
  uint64_t good = 0, failed = 0, tokens = 0, late = 0;
};

void take(const BenchSample& s, Summary& out) {
  out.late += s.started - s.due > kLate;
  if (s.error != 0) {
    ++out.failed, ++out.errors[s.error - 1];
    return;
  }
  ++out.good;
  out.tokens += s.tokens;
  out.spreads[0].sorted.push_back(s.ended - s.due);
  out.spreads[s.tokens > 0 ? 2 : 1].sorted.push_back(s.first - s.due);
}

Summary summarize(const BenchRun& run) {
  Summary out;
  out.errors.resize(run.errors.size());
  for (const auto& sample : run.samples) take(sample, out);
  out.spreads[3].sorted.assign(run.token_gaps.begin(), run.token_gaps.end());
  for (auto& spread : out.spreads) std::sort(spread.sorted.begin(), spread.sorted.end());
  return out;
}

std::string table_row(const Spread& spread) {
  if (spread.sorted.empty()) return {};
  std::string out = fmt::format("{:<20} {:>10.3f}", spread.name, spread.mean() * 1e3);
  for (const auto& p : kPercentiles) out += fmt::format(" {:>10.3f}", percentile(spread.sorted, p.part) * 1e3);
  return out + fmt::format(" {:>10.3f}\n", spread.sorted.back() * 1e3);
}

// Quoted as RFC 4180 says.
std::string csv_text(const std::string& text) {
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

double rate_of(double count, const BenchRun& run) { return count / std::max(run.seconds, 1e-9); }

}  // namespace

uint32_t BenchRun::number_of(const std::string& error) {
  const std::string text = errors.size() < kMostErrors ? error : "others";
  auto found = std::find(errors.begin(), errors.end(), error);
  if (found == errors.end()) found = std::find(errors.begin(), errors.end(), text);
  if (found == errors.end()) found = errors.insert(errors.end(), text);
  return uint32_t(found - errors.begin()) + 1;
}

void BenchRun::merge(BenchRun&& other) {
  for (auto& sample : other.samples) {
    if (sample.error != 0) sample.error = number_of(other.errors[sample.error - 1]);
    samples.push_back(sample);
  }
  token_gaps.insert(token_gaps.end(), other.token_gaps.begin(), other.token_gaps.end());
  seconds = std::max(seconds, other.seconds);
  busy = std::max(busy, other.busy);
  loop = other.loop;
}

double percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const auto rank = size_t(std::ceil(p * double(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

std::string bench_table(const BenchRun& run) {
  const Summary sum = summarize(run);
  std::string out = fmt::format("{} requests in {:.1f} s: {:.1f}/s answered, {} failed\n", run.samples.size(),
                                run.seconds, rate_of(double(sum.good), run), sum.failed);
  for (size_t i = 0; i < sum.errors.size(); ++i)
    if (sum.errors[i] > 0) out += fmt::format("  {} x {}\n", sum.errors[i], run.errors[i]);
  if (run.loop == BenchRun::Loop::kOpen && sum.late > 0)
    out += fmt::format("{} were sent more than 1 ms late; their wait counts\n", sum.late);
  if (sum.tokens > 0) out += fmt::format("{} tokens: {:.1f}/s\n", sum.tokens, rate_of(double(sum.tokens), run));
  if (run.busy > kBusy)
    out += fmt::format("weir bench itself was busy for {:.0f} % of the time: the server may do better; try --threads\n",
                       100 * run.busy);
  out += fmt::format("{:<20} {:>10}", "milliseconds", "mean");
  for (const auto& p : kPercentiles) out += fmt::format(" {:>10}", p.name);
  out += fmt::format(" {:>10}\n", "max");
  for (const auto& spread : sum.spreads) out += table_row(spread);
  return out;
}

std::string bench_json(const BenchRun& run) {
  const Summary sum = summarize(run);
  json out{{"loop", run.loop == BenchRun::Loop::kOpen ? "open" : "closed"},
           {"seconds", run.seconds},
           {"requests", run.samples.size()},
           {"answered", sum.good},
           {"failed", sum.failed},
           {"late", sum.late},
           {"requests_per_second", rate_of(double(sum.good), run)},
           {"busy", run.busy},
           {"errors", json::object()}};
  for (size_t i = 0; i < sum.errors.size(); ++i)
    if (sum.errors[i] > 0) out["errors"][run.errors[i]] = sum.errors[i];
  if (sum.tokens > 0) out["tokens"] = sum.tokens, out["tokens_per_second"] = rate_of(double(sum.tokens), run);
  for (const auto& spread : sum.spreads) {
    if (spread.sorted.empty()) continue;
    json row{{"mean", spread.mean()}, {"max", spread.sorted.back()}};
    for (const auto& p : kPercentiles) row[p.name] = percentile(spread.sorted, p.part);
    out[spread.key] = row;
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

std::string bench_csv(const BenchRun& run) {
  std::vector<const BenchSample*> order;
  for (const auto& sample : run.samples) order.push_back(&sample);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->ended < b->ended; });
  std::string out = "due,started,first,ended,tokens,error\n";
  for (const auto* s : order)
    fmt::format_to(std::back_inserter(out), "{:.6f},{:.6f},{:.6f},{:.6f},{},{}\n", s->due, s->started, s->first,
                   s->ended, s->tokens, s->error == 0 ? "" : csv_text(run.errors[s->error - 1]));
  return out;
}

}  // namespace weir::app
