// MetricsPage: a page of Prometheus text (version 0.0.4), as /metrics gives it, to be asked for sums and quantiles.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::app {

class MetricsPage {
 public:
  using Labels = std::map<std::string, std::string, std::less<>>;
  using Matchers = std::vector<std::pair<std::string_view, std::string_view>>;  // label = value, all of them
  struct Sample {
    Labels labels;
    double value = 0;
  };

  // Lines that are no samples are passed over.
  static MetricsPage parse(std::string_view text);

  // The samples of a name ("weir_requests_total", "weir_model_queue_seconds_bucket"); none: an empty list.
  const std::vector<Sample>& samples(std::string_view name) const;
  // The sum of those that match; 0 where there are none.
  double sum(std::string_view name, const Matchers& matchers = {}) const;
  // The values of a label, in their order, each once.
  std::vector<std::string> values(std::string_view name, std::string_view label) const;

 private:
  std::map<std::string, std::vector<Sample>, std::less<>> families_;
};

// The quantile `q` (0 … 1) of what a histogram (its name without _bucket) has counted between two pages, as Prometheus'
// histogram_quantile() estimates it: linear within a bucket. NaN where nothing was counted.
double quantile_between(const MetricsPage& before, const MetricsPage& now, std::string_view histogram,
                        const MetricsPage::Matchers& matchers, double q);

}  // namespace weir::app
