#include "engines/process/custom_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/metrics.h"
#include "marshal/json_cursor.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;

// Families of the server's own have these, in each of the vocabularies that it speaks.
constexpr std::string_view kReserved[] = {"weir_", "nv_", "vllm:", "llamacpp:", "process_"};
// A histogram's lines have these behind its name.
constexpr std::string_view kSuffixes[] = {"_bucket", "_sum", "_count"};
constexpr uint64_t kOverhead = 256;  // bytes of a metric beside its text
constexpr size_t kNumber = 24;       // bytes of a value

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_label_name(std::string_view name) {
  if (name.empty() || is_digit(name[0]) || name.starts_with("__")) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_family_name(std::string_view name) {
  if (name.empty() || is_digit(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c) || c == ':'; });
}

std::string show(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string escape_help(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\') out += "\\\\";
    if (c == '\n') out += "\\n";
    if (c != '\\' && c != '\n') out += c;
  }
  return out;
}

// `a="1",b="2"`, in the order of their names. Errors: INVALID_ARGUMENT.
base::Result<std::string> render(MetricLabels labels, MetricKind kind) {
  if (labels.size() > CustomMetrics::kMostLabels)
    return base::invalid("a metric has " + std::to_string(CustomMetrics::kMostLabels) + " labels at most");
  std::sort(labels.begin(), labels.end());
  std::string out;
  const std::string* before = nullptr;
  for (const auto& [name, value] : labels) {
    if (name.size() > CustomMetrics::kLongestName || value.size() > CustomMetrics::kLongestLabel)
      return base::invalid("a label has a name of " + std::to_string(CustomMetrics::kLongestName) +
                           " bytes and a value of " + std::to_string(CustomMetrics::kLongestLabel) + " at most");
    if (!is_label_name(name) || (kind == MetricKind::kHistogram && name == "le"))
      return base::invalid("no label of a metric can have the name '" + name + "'");
    if (before && *before == name) return base::invalid("label '" + name + "' is given twice");
    if (!marshal::valid_utf8(value)) return base::invalid("the value of label '" + name + "' is not UTF-8");
    before = &name;
    if (!out.empty()) out += ',';
    out += name + "=\"" + base::escape_label(value) + '"';
  }
  return out;
}

std::string line(const std::string& name, const std::string& labels) {
  return labels.empty() ? name + ' ' : name + '{' + labels + "} ";
}

std::vector<std::string> lines_of(const std::string& name, const std::string& labels, MetricKind kind,
                                  const std::vector<double>& bounds) {
  if (kind != MetricKind::kHistogram) return {line(name, labels)};
  std::vector<std::string> lines;
  const std::string more = labels.empty() ? "" : labels + ',';
  for (double bound : bounds) lines.push_back(line(name + "_bucket", more + "le=\"" + show(bound) + '"'));
  lines.push_back(line(name + "_bucket", more + "le=\"+Inf\""));
  lines.push_back(line(name + "_sum", labels));
  lines.push_back(line(name + "_count", labels));
  return lines;
}

Status check_bounds(MetricKind kind, const std::vector<double>& bounds) {
  if (kind != MetricKind::kHistogram) return bounds.empty() ? Status{} : base::invalid("only a histogram has buckets");
  if (bounds.size() > CustomMetrics::kMostBuckets)
    return base::invalid("a histogram has " + std::to_string(CustomMetrics::kMostBuckets) + " buckets at most");
  for (size_t i = 0; i < bounds.size(); ++i)
    if (!std::isfinite(bounds[i]) || (i > 0 && bounds[i] <= bounds[i - 1]))
      return base::invalid("the bounds of a histogram's buckets must be finite, and each greater than the one before");
  return {};
}

Status too_many(const std::string& who, const CustomMetrics::Amount& most) {
  return failure(Code::kResourceExhausted, who + " have " + std::to_string(most.lines) + " lines and " +
                                               std::to_string(most.bytes) + " bytes of /metrics at most");
}

bool fits(const CustomMetrics::Amount& held, const CustomMetrics::Amount& more, const CustomMetrics::Amount& most) {
  return held.lines + more.lines <= most.lines && held.bytes + more.bytes <= most.bytes;
}

void write_metric(std::string& out, const std::vector<std::string>& lines, const std::vector<uint64_t>& counts,
                  double value) {
  uint64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) out += lines[i] + std::to_string(total += counts[i]) + '\n';
  out += lines[counts.size()] + show(value) + '\n';
  if (!counts.empty()) out += lines.back() + std::to_string(total) + '\n';
}

}  // namespace

// Names of a histogram's lines must not be those of another family.
Status CustomMetrics::check_name(const std::string& name, MetricKind kind) const {
  if (name.size() > kLongestName || !is_family_name(name))
    return base::invalid("no metric family can have the name '" + name.substr(0, kLongestName) +
                         "': it has letters, digits, '_' and ':' and begins with no digit");
  for (auto prefix : kReserved)
    if (name.starts_with(prefix))
      return failure(Code::kAlreadyExists, "metric families '" + std::string(prefix) + "…' are the server's own");
  const auto taken = [&](const std::string& by) {
    return failure(Code::kAlreadyExists, "metric family '" + name + "' has a name that is taken by '" + by + "'");
  };
  for (auto suffix : kSuffixes) {
    const std::string longer = name + std::string(suffix);
    if (kind == MetricKind::kHistogram && families_.contains(longer)) return taken(longer);
    if (!name.ends_with(suffix)) continue;
    const auto shorter = families_.find(name.substr(0, name.size() - suffix.size()));
    if (shorter != families_.end() && shorter->second.kind == MetricKind::kHistogram) return taken(shorter->first);
  }
  const auto found = families_.find(name);
  if (found == families_.end() || found->second.kind == kind) return {};
  return failure(Code::kAlreadyExists, "there is a metric family '" + name + "' of another kind");
}

Status CustomMetrics::admit(const Amount& amount) {
  if (!fits(amount_, amount, kMostOfAll)) return too_many("the metrics of all models", kMostOfAll);
  if (ledger_ && !ledger_->take(base::MemoryKind::kSessions, amount.bytes + kOverhead))
    return failure(Code::kResourceExhausted, ledger_->shortage());
  amount_.lines += amount.lines, amount_.bytes += amount.bytes;
  return {};
}

void CustomMetrics::give_back(const Amount& amount) {
  amount_.lines -= amount.lines, amount_.bytes -= amount.bytes;
  if (ledger_) ledger_->give(base::MemoryKind::kSessions, amount.bytes + kOverhead);
}

void CustomMetrics::release(const std::string& family, const std::string& labels) {
  auto& metrics = families_.at(family).metrics;
  const auto found = metrics.find(labels);
  if (--found->second.holders > 0) return;
  give_back(found->second.amount);
  metrics.erase(found);
}

void CustomMetrics::release(const std::string& family) {
  const auto found = families_.find(family);
  if (--found->second.holders > 0) return;
  give_back({0, found->first.size() + found->second.help.size()});
  families_.erase(found);
}

void CustomMetrics::write(std::string& out) const {
  static constexpr std::string_view kTypes[] = {"counter", "gauge", "histogram"};
  std::lock_guard lock(mutex_);
  for (const auto& [name, family] : families_) {
    if (family.metrics.empty()) continue;
    out += "# HELP " + name + ' ' + family.help + "\n# TYPE " + name + ' ';
    (out += kTypes[size_t(family.kind)]) += '\n';
    for (const auto& [labels, metric] : family.metrics) write_metric(out, metric.lines, metric.counts, metric.value);
  }
}

base::Result<uint64_t> ModelMetrics::add_family(const std::string& name, const std::string& help, MetricKind kind) {
  if (help.size() > CustomMetrics::kLongestHelp || !marshal::valid_utf8(help))
    return base::invalid("the description of a metric family is UTF-8 of " +
                         std::to_string(CustomMetrics::kLongestHelp) + " bytes at most");
  std::lock_guard lock(all_->mutex_);
  if (Status s = all_->check_name(name, kind); !s.ok()) return s;
  if (families_.size() >= CustomMetrics::kMostFamilies)
    return failure(Code::kResourceExhausted,
                   "a model has " + std::to_string(CustomMetrics::kMostFamilies) + " metric families at most");
  auto found = all_->families_.find(name);
  if (found == all_->families_.end()) {
    std::string escaped = escape_help(help);
    if (Status s = all_->admit({0, name.size() + escaped.size()}); !s.ok()) return s;
    found = all_->families_.emplace(name, CustomMetrics::Family{kind, std::move(escaped), 0, {}}).first;
  }
  ++found->second.holders;
  families_.emplace(++last_, name);
  return last_;
}

base::Result<uint64_t> ModelMetrics::add_metric(uint64_t family, MetricLabels labels,
                                                const std::vector<double>& bounds) {
  std::lock_guard lock(all_->mutex_);
  const auto mine = families_.find(family);
  if (mine == families_.end()) return failure(Code::kNotFound, "the metric family has been deleted");
  const std::string& name = mine->second;
  auto& in = all_->families_.at(name);
  if (Status s = check_bounds(in.kind, bounds); !s.ok()) return s;
  auto rendered = render(std::move(labels), in.kind);
  if (!rendered) return std::move(rendered).error();
  for (const auto& [number, held] : metrics_)
    if (held.family_number == family && held.labels == *rendered) return number;
  // Each line has the labels: what cannot fit is not written down first, while others wait for the mutex.
  if (rendered->size() * (bounds.size() + 1) > CustomMetrics::kMostOfOne.bytes)
    return too_many("the metrics of a model", CustomMetrics::kMostOfOne);
  CustomMetrics::Metric fresh{lines_of(name, *rendered, in.kind, bounds), bounds, {}, 0, 0, {}};
  if (in.kind == MetricKind::kHistogram) fresh.counts.resize(bounds.size() + 1);
  fresh.amount.lines = fresh.lines.size();
  for (const auto& text : fresh.lines) fresh.amount.bytes += text.size() + kNumber;
  auto found = in.metrics.find(*rendered);
  const auto amount = found == in.metrics.end() ? fresh.amount : found->second.amount;
  if (!fits(amount_, amount, CustomMetrics::kMostOfOne))
    return too_many("the metrics of a model", CustomMetrics::kMostOfOne);
  if (found == in.metrics.end()) {
    if (Status s = all_->admit(amount); !s.ok()) return s;
    found = in.metrics.emplace(*rendered, std::move(fresh)).first;
  }
  ++found->second.holders;
  amount_.lines += amount.lines, amount_.bytes += amount.bytes;
  metrics_.emplace(++last_, Held{name, *rendered, family, &in, &found->second});
  return last_;
}

void ModelMetrics::remove_family(uint64_t family) {
  std::lock_guard lock(all_->mutex_);
  const auto mine = families_.find(family);
  if (mine == families_.end()) return;
  for (auto at = metrics_.begin(); at != metrics_.end();) {
    if (at->second.family_number != family) {
      ++at;
      continue;
    }
    const auto amount = at->second.metric->amount;
    amount_.lines -= amount.lines, amount_.bytes -= amount.bytes;
    all_->release(at->second.family, at->second.labels);
    at = metrics_.erase(at);
  }
  all_->release(mine->second);
  families_.erase(mine);
}

void ModelMetrics::clear() {
  std::vector<uint64_t> all;
  {
    std::lock_guard lock(all_->mutex_);
    for (const auto& [number, name] : families_) all.push_back(number);
  }
  for (uint64_t number : all) remove_family(number);
}

const ModelMetrics::Held* ModelMetrics::find(uint64_t metric) const {
  const auto found = metrics_.find(metric);
  return found == metrics_.end() ? nullptr : &found->second;
}

void ModelMetrics::increment(uint64_t metric, double by) {
  std::lock_guard lock(all_->mutex_);
  const auto* held = find(metric);
  if (!held || held->in->kind == MetricKind::kHistogram) return;
  if (held->in->kind == MetricKind::kCounter && !(by >= 0 && std::isfinite(by))) return;
  held->metric->value += by;
}

void ModelMetrics::set(uint64_t metric, double to) {
  std::lock_guard lock(all_->mutex_);
  const auto* held = find(metric);
  if (held && held->in->kind == MetricKind::kGauge) held->metric->value = to;
}

void ModelMetrics::observe(uint64_t metric, double value) {
  std::lock_guard lock(all_->mutex_);
  const auto* held = find(metric);
  if (!held || held->in->kind != MetricKind::kHistogram || !std::isfinite(value)) return;
  auto& bounds = held->metric->bounds;
  ++held->metric->counts[size_t(std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin())];
  held->metric->value += value;
}

base::Result<double> ModelMetrics::value(uint64_t metric) const {
  std::lock_guard lock(all_->mutex_);
  const auto* held = find(metric);
  if (!held) return failure(Code::kNotFound, "the metric has been deleted");
  if (held->in->kind != MetricKind::kHistogram) return held->metric->value;
  return failure(Code::kUnimplemented, "a histogram has no single value");
}

}  // namespace weir::process
