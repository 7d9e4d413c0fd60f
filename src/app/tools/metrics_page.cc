#include "app/tools/metrics_page.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

namespace weir::app {
namespace {

// name="value",… up to the closing brace; false where the text is no list of labels. Leaves `at` behind the brace.
bool read_labels(std::string_view line, size_t& at, MetricsPage::Labels& labels) {
  while (at < line.size() && line[at] != '}') {
    const size_t equals = line.find("=\"", at);
    if (equals == line.npos) return false;
    std::string& value = labels[std::string(line.substr(at, equals - at))];
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && at + 1 < line.size()) ++at;
      value += line[at];
    }
    ++at;
    if (at < line.size() && line[at] == ',') ++at;
  }
  ++at;
  return at < line.size();
}

bool match(const MetricsPage::Labels& labels, const MetricsPage::Matchers& matchers) {
  return std::all_of(matchers.begin(), matchers.end(), [&](const auto& wanted) {
    auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  });
}

// Upper bound -> count so far, summed over the series that match.
std::map<double, double> buckets(const MetricsPage& page, const std::string& name,
                                 const MetricsPage::Matchers& matchers) {
  std::map<double, double> out;
  for (const auto& sample : page.samples(name)) {
    auto bound = sample.labels.find("le");
    if (bound == sample.labels.end() || !match(sample.labels, matchers)) continue;
    const double upper = std::strtod(bound->second.c_str(), nullptr);  // "+Inf", too
    if (!std::isnan(upper)) out[upper] += sample.value;
  }
  return out;
}

}  // namespace

MetricsPage MetricsPage::parse(std::string_view text) {
  MetricsPage page;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    size_t at = line.find_first_of("{ ");
    if (at == line.npos) continue;
    std::string name(line.substr(0, at));
    Sample sample;
    if (line[at] == '{' && !read_labels(line, ++at, sample.labels)) continue;
    sample.value = std::strtod(std::string(line.substr(at)).c_str(), nullptr);
    if (!std::isfinite(sample.value)) continue;
    page.families_[std::move(name)].push_back(std::move(sample));
  }
  return page;
}

const std::vector<MetricsPage::Sample>& MetricsPage::samples(std::string_view name) const {
  static const std::vector<Sample> kNone;
  auto found = families_.find(name);
  return found == families_.end() ? kNone : found->second;
}

double MetricsPage::sum(std::string_view name, const Matchers& matchers) const {
  double sum = 0;
  for (const auto& sample : samples(name))
    if (match(sample.labels, matchers)) sum += sample.value;
  return sum;
}

std::vector<std::string> MetricsPage::values(std::string_view name, std::string_view label) const {
  std::set<std::string> out;
  for (const auto& sample : samples(name))
    if (auto found = sample.labels.find(label); found != sample.labels.end()) out.insert(found->second);
  return {out.begin(), out.end()};
}

double quantile_between(const MetricsPage& before, const MetricsPage& now, std::string_view histogram,
                        const MetricsPage::Matchers& matchers, double q) {
  const std::string name = std::string(histogram) + "_bucket";
  auto counted = buckets(now, name, matchers);
  for (const auto& [bound, count] : buckets(before, name, matchers)) counted[bound] -= count;
  if (counted.empty() || counted.rbegin()->second <= 0) return std::numeric_limits<double>::quiet_NaN();
  const double rank = q * counted.rbegin()->second;
  double below = 0, from = 0;
  for (const auto& [bound, count] : counted) {
    if (count >= rank) {
      if (std::isinf(bound)) return from;  // beyond the last bound there is nothing to estimate by
      return count > below ? from + (bound - from) * (rank - below) / (count - below) : bound;
    }
    below = count, from = bound;
  }
  return from;
}

}  // namespace weir::app
