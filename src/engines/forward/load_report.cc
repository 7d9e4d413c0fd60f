#include "engines/forward/load_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weir::forward {
namespace {

constexpr double kMostWaiting = 1e6;
// Metrics are a stranger's, and a shard reads them between two turns, so that there are bounds. vLLM's have about a
// thousand rows of less than 200 bytes; two or three for each of its engines are looked into.
constexpr size_t kMostRows = 1 << 16, kMostTaken = 4096, kLongestRow = 512;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == ':';
}

std::optional<double> number_at(std::string_view text) {
  double out = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end == text.data() || !std::isfinite(out)) return {};
  return out;
}

void add_utilization(LoadReport& report, double value) {
  report.utilization = std::max(report.utilization.value_or(0), std::clamp(value, 0.0, 1.0));
}
void add_waiting(LoadReport& report, double value) {
  report.waiting = std::min(report.waiting.value_or(0) + std::clamp(value, 0.0, kMostWaiting), kMostWaiting);
}

// The last part of a name in dots.
std::string_view leaf(std::string_view name) { return name.substr(name.rfind('.') + 1); }

void take(LoadReport& report, std::string_view name, double value) {
  for (std::string_view known :
       {"application_utilization", "cpu_utilization", "mem_utilization", "kv_cache_utilization", "kv_cache_usage_perc"})
    if (name == known) return add_utilization(report, value);
  if (name == "num_requests_waiting") add_waiting(report, value);
}

// `{a="b",model="m"}`: whether it names `model`, or none.
bool is_of(std::string_view labels, std::string_view model) {
  constexpr std::string_view kIs = "=\"";
  for (size_t at = labels.find(kIs); at != std::string_view::npos; at = labels.find(kIs, at + kIs.size())) {
    const std::string_view before = labels.substr(0, at), value = labels.substr(at + kIs.size());
    if (before.ends_with("model_name") || before.ends_with("model")) return value.substr(0, value.find('"')) == model;
  }
  return true;
}

// False: it is no row of these.
bool take_row(LoadReport& report, std::string_view row, std::string_view model) {
  const size_t end = row.find_first_of("{ ");
  if (end == std::string_view::npos) return false;
  const std::string_view name = row.substr(0, end);
  const bool usage =
      name == "vllm:kv_cache_usage_perc" || name == "vllm:gpu_cache_usage_perc" || name == "nv_gpu_utilization";
  if (!usage && name != "vllm:num_requests_waiting" && name != "nv_inference_pending_request_count") return false;
  const size_t labels_end = row[end] == '{' ? row.rfind('}') : end;
  if (labels_end == std::string_view::npos || labels_end < end || !is_of(row.substr(end, labels_end - end), model))
    return true;
  std::string_view value = row.substr(labels_end + 1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  const auto number = number_at(value);
  if (number) usage ? add_utilization(report, *number) : add_waiting(report, *number);
  return true;
}

}  // namespace

// Both forms are names and numbers with other marks between them.
LoadReport parse_orca(std::string_view field) {
  LoadReport out;
  field = field.substr(0, kMostOrca);
  for (size_t at = 0; at < field.size();) {
    if (!is_name(field[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < field.size() && is_name(field[at]) && field[at] != ':') ++at;
    const std::string_view name = field.substr(begin, at - begin);
    size_t value = at;
    if (value < field.size() && field[value] == '"') ++value;
    while (value < field.size() && field[value] == ' ') ++value;
    if (value == field.size() || (field[value] != '=' && field[value] != ':')) {
      at = std::max(at, begin + 1);
      continue;
    }
    ++value;
    while (value < field.size() && field[value] == ' ') ++value;
    if (const auto number = number_at(field.substr(value))) take(out, leaf(name), *number);
    at = value;
    while (at < field.size() && field[at] != ',' && field[at] != '{' && field[at] != '}') ++at;
  }
  return out;
}

LoadReport parse_metrics(std::string_view text, std::string_view model) {
  LoadReport out;
  size_t taken = 0;
  for (size_t rows = 0; !text.empty() && rows < kMostRows && taken < kMostTaken; ++rows) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.size() > kLongestRow || !(row.starts_with("vllm:") || row.starts_with("nv_"))) continue;
    taken += take_row(out, row, model);
  }
  return out;
}

}  // namespace weir::forward
