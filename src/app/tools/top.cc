#include "app/tools/top.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "app/tools/terminal.h"

namespace weir::app {
namespace {

using Clock = std::chrono::steady_clock;
using Matchers = MetricsPage::Matchers;

constexpr std::string_view kOverloads[] = {"none", "shrink", "close", "refuse", "stop"};

// "1.2 ms"; "-" where nothing was measured.
std::string time_text(double seconds) {
  if (std::isnan(seconds)) return "-";
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit ? 1 : 0, kUnits[unit]);
}

std::string age_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e10)) return "?";
  const auto s = int64_t(seconds);
  if (s >= 86400) return fmt::format("{} d {} h", s / 86400, s / 3600 % 24);
  if (s >= 3600) return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
  return fmt::format("{} min {} s", s / 60, s % 60);
}

// Two pages, and how fast counters moved between them.
struct Interval {
  const MetricsPage &before, &now;
  double seconds;

  double rate(std::string_view name, const Matchers& matchers = {}) const {
    return std::max(0.0, now.sum(name, matchers) - before.sum(name, matchers)) / seconds;
  }
  std::string quantile(std::string_view histogram, const Matchers& matchers, double q) const {
    return time_text(quantile_between(before, now, histogram, matchers, q));
  }
  std::string quantiles(std::string_view histogram, const Matchers& matchers) const {
    std::string out;
    for (double q : {0.5, 0.9, 0.99}) out += fmt::format(" {:>9}", quantile(histogram, matchers, q));
    return out;
  }
};

std::string state_line(const MetricsPage& now) {
  const auto version = now.values("weir_build_info", "version");
  const auto wall = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return fmt::format("weir {}  {}  up {}  {} of {} models ready\n", version.empty() ? "?" : printable(version[0]),
                     now.sum("weir_ready") > 0 ? "ready" : "NOT READY",
                     age_text(wall - now.sum("process_start_time_seconds")), now.sum("weir_model_ready"),
                     now.samples("weir_model_ready").size());
}

std::string server_lines(const Interval& span) {
  const auto& now = span.now;
  const double all = span.rate("weir_requests_total"), good = span.rate("weir_requests_total", {{"code", "OK"}});
  std::string out = state_line(now);
  out += fmt::format("{:.1f} requests/s  {:.1f} not OK/s  p50 {}  p90 {}  p99 {}  {} connections\n", all, all - good,
                     span.quantile("weir_request_duration_seconds", {}, 0.5),
                     span.quantile("weir_request_duration_seconds", {}, 0.9),
                     span.quantile("weir_request_duration_seconds", {}, 0.99), now.sum("weir_connections"));
  const auto step = size_t(std::clamp(now.sum("weir_overload_step"), 0.0, double(std::size(kOverloads) - 1)));
  out += fmt::format("cpu {:.0f} %  resident {}  clients' memory {} of {}  overload {}  sessions {}\n",
                     100 * span.rate("process_cpu_seconds_total"), bytes_text(now.sum("process_resident_memory_bytes")),
                     bytes_text(now.sum("weir_tracked_bytes")), bytes_text(now.sum("weir_slab_budget_bytes")),
                     kOverloads[step], now.sum("weir_sessions"));
  return out;
}

// "shards: 2; slow turns 0.0/s; longest turn 1.2 ms"
std::string shard_line(const MetricsPage& now, const Interval& span) {
  const auto shards = now.values("weir_shard_longest_turn_seconds", "shard");
  if (shards.empty()) return {};
  double longest = 0;
  for (const auto& sample : now.samples("weir_shard_longest_turn_seconds")) longest = std::max(longest, sample.value);
  return fmt::format("{} shards  {:.1f} slow turns/s  longest turn {}\n", shards.size(),
                     span.rate("weir_shard_slow_turns_total"), time_text(longest));
}

struct Row {
  double rate = 0;
  std::string text;
};

std::string busiest_first(std::string head, std::vector<Row> rows) {
  if (rows.empty()) return {};
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.rate > b.rate; });
  for (const auto& row : rows) head += row.text;
  return head;
}

std::string error_line(const Interval& span) {
  std::vector<Row> codes;
  for (const auto& code : span.now.values("weir_requests_total", "code")) {
    const double rate = span.rate("weir_requests_total", {{"code", code}});
    if (code != "OK" && rate > 0) codes.push_back({rate, fmt::format("  {} {:.1f}/s", printable(code), rate)});
  }
  for (const auto& reason : span.now.values("weir_rejects_total", "reason")) {
    const double rate = span.rate("weir_rejects_total", {{"reason", reason}});
    if (rate > 0) codes.push_back({rate, fmt::format("  rejected: {} {:.1f}/s", printable(reason), rate)});
  }
  std::string out = busiest_first("not OK:", std::move(codes));
  return out.empty() ? out : out + '\n';
}

std::string protocol_table(const Interval& span) {
  std::vector<Row> rows;
  for (const auto& name : span.now.values("weir_requests_total", "protocol")) {
    const Matchers here{{"protocol", name}};
    const double rate = span.rate("weir_requests_total", here);
    const double good = span.rate("weir_requests_total", {{"protocol", name}, {"code", "OK"}});
    rows.push_back({rate, fmt::format("{:<20} {:>9.1f} {:>9.1f}{}\n", printable(name), rate, rate - good,
                                      span.quantiles("weir_request_duration_seconds", here))});
  }
  return busiest_first(
      fmt::format("\n{:<20} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "PROTOCOL", "REQ/S", "NOT OK/S", "P50", "P90", "P99"),
      std::move(rows));
}

std::string model_row(const Interval& span, const std::string& name, double rate) {
  const Matchers here{{"model", name}};
  const double good = span.rate("weir_model_requests_total", {{"model", name}, {"outcome", "success"}});
  const double steps = span.rate("weir_model_executions_total", here);
  const double tokens = span.rate("weir_model_generated_tokens_total", here);
  const double waiting = span.now.sum("weir_model_pending", here) +
                         span.now.sum("weir_model_sequences", {{"model", name}, {"state", "waiting"}});
  return fmt::format("{:<20} {:<5} {:>9.1f} {:>9.1f}{} {:>9} {:>7} {:>6} {:>8} {:>9}\n", printable(name),
                     span.now.sum("weir_model_ready", here) > 0 ? "yes" : "NO", rate, rate - good,
                     span.quantiles("weir_model_request_duration_seconds", here),
                     span.quantile("weir_model_queue_seconds", here, 0.9), waiting,
                     steps > 0 ? fmt::format("{:.1f}", span.rate("weir_model_inferences_total", here) / steps) : "-",
                     tokens > 0 ? fmt::format("{:.0f}", tokens) : "-",
                     span.quantile("weir_model_time_to_first_token_seconds", here, 0.9));
}

std::string model_table_of(const Interval& span) {
  std::vector<Row> rows;
  for (const auto& name : span.now.values("weir_model_ready", "model")) {
    const double rate = span.rate("weir_model_requests_total", {{"model", name}});
    rows.push_back({rate, model_row(span, name, rate)});
  }
  return busiest_first(
      fmt::format("\n{:<20} {:<5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>6} {:>8} {:>9}\n", "MODEL", "READY",
                  "CALLS/S", "NOT OK/S", "P50", "P90", "P99", "QUEUE P90", "WAITING", "BATCH", "TOK/S", "TTFT P90"),
      std::move(rows));
}

std::string gpu_table(const MetricsPage& now) {
  std::vector<Row> rows;
  for (const auto& gpu : now.values("weir_gpu_memory_total_bytes", "gpu")) {
    const Matchers here{{"gpu", gpu}};
    const double busy = now.sum("weir_gpu_utilization_ratio", here);
    rows.push_back({busy, fmt::format("{:<20} {:>8.0f}% {:>12} {:>12} {:>7.0f} W\n", printable(gpu), 100 * busy,
                                      bytes_text(now.sum("weir_gpu_memory_used_bytes", here)),
                                      bytes_text(now.sum("weir_gpu_memory_total_bytes", here)),
                                      now.sum("weir_gpu_power_watts", here))});
  }
  return busiest_first(fmt::format("\n{:<20} {:>9} {:>12} {:>12} {:>9}\n", "GPU", "BUSY", "MEMORY", "OF", "POWER"),
                       std::move(rows));
}

base::Result<MetricsPage> fetch_metrics(const net::Client& client) {
  auto reply = client.request("GET", "/metrics");
  if (!reply) return base::failure(reply.error().code, complaint(reply));
  if (reply->status == 401 || reply->status == 403)
    return base::failure(
        base::Code::kPermissionDenied,
        "GET /metrics: " + complaint(reply) + "; weir top wants a key with the role metrics: --key or WEIR_API_KEY");
  if (reply->status != 200)
    return base::failure(base::Code::kUnavailable,
                         "the server answered " + std::to_string(reply->status) + " to GET /metrics");
  auto page = MetricsPage::parse(reply->body);
  if (page.samples("weir_build_info").empty())
    return base::failure(base::Code::kUnavailable, "GET /metrics: what answers there is no weir");
  return page;
}

double seconds_since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

Exit print_frames(const net::Client& client, MetricsPage before, const TopOptions& options) {
  for (uint64_t frame = 0; frame < std::max<uint64_t>(options.frames, 1); ++frame) {
    const auto began = Clock::now();
    std::this_thread::sleep_for(options.interval);
    auto now = fetch_metrics(client);
    if (!now) return fail(now.error().text);
    std::printf("%s%s", frame > 0 ? "\n" : "", top_frame(before, *now, seconds_since(began)).c_str());
    std::fflush(stdout);
    before = std::move(*now);
  }
  return Exit::kOk;
}

Exit watch(const net::Client& client, const std::string& url, MetricsPage first, const TopOptions& options) {
  Screen screen;
  std::optional<MetricsPage> before = std::move(first);
  auto taken = Clock::now();
  std::string frame = "weir top: " + printable(url) + "\n";
  screen.draw(frame + "the first numbers come in a moment; q leaves\n");
  for (;;) {
    for (auto due = taken + options.interval; Clock::now() < due;) {
      const auto key = screen.wait(due - Clock::now());
      if (key == Screen::Key::kQuit) return Exit::kOk;
      if (key == Screen::Key::kOther) screen.draw(frame);
    }
    auto now = fetch_metrics(client);
    const double seconds = seconds_since(std::exchange(taken, Clock::now()));
    const std::string title = fmt::format("weir top: {}  every {:.1f} s  q leaves\n", printable(url),
                                          std::chrono::duration<double>(options.interval).count());
    if (now && before)
      frame = title + top_frame(*before, *now, seconds);
    else
      frame = title + (now ? "the server is back\n" : "no answer, asking again: " + now.error().text + "\n");
    screen.draw(frame);
    before = now ? std::optional(std::move(*now)) : std::nullopt;
  }
}

}  // namespace

std::string top_frame(const MetricsPage& before, const MetricsPage& now, double seconds) {
  const Interval span{before, now, std::max(seconds, 1e-6)};
  return server_lines(span) + shard_line(now, span) + error_line(span) + protocol_table(span) + model_table_of(span) +
         gpu_table(now);
}

Exit top(const Remote& remote, const TopOptions& options) {
  auto client = connect_to(remote);
  if (!client) return fail(client.error().text), Exit::kUsage;
  auto first = fetch_metrics(*client);
  if (!first) return fail(remote.url + ": " + first.error().text);
  if (options.frames == 0 && output_is_terminal()) return watch(*client, remote.url, std::move(*first), options);
  return print_frames(*client, std::move(*first), options);
}

}  // namespace weir::app
