#include "base/metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/open_metrics.h"

namespace weir::base {
namespace {

// 10, 20, 50, 100, … microseconds up to 100 s: 22 bounds.
constexpr std::array<uint64_t, Histogram::kBuckets> kBoundsNs = [] {
  std::array<uint64_t, Histogram::kBuckets> bounds{};
  constexpr std::array<uint64_t, 3> steps{1, 2, 5};
  uint64_t decade = 10'000;
  for (size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] = decade * steps[i % 3];
    if (i % 3 == 2) decade *= 10;
  }
  return bounds;
}();

// By the bit width of a duration, the first bound that can hold it; the right one is at most two further on.
constexpr std::array<uint8_t, 65> kFirstBound = [] {
  std::array<uint8_t, 65> first{};
  for (size_t width = 1; width < first.size(); ++width) {
    uint8_t at = 0;
    while (at < kBoundsNs.size() && kBoundsNs[at] < uint64_t(1) << (width - 1)) ++at;
    first[width] = at;
  }
  return first;
}();

std::string number(double v) {
  char text[32];
  auto n = std::snprintf(text, sizeof text, "%.10g", v);
  return {text, size_t(n)};
}

std::string render(const Metrics::Labels& labels, std::string_view extra = {}) {
  if (labels.empty() && extra.empty()) return {};
  std::string out = "{";
  for (const auto& [key, value] : labels) {
    if (out.size() > 1) out += ',';
    out += key + "=\"" + escape_label(value) + '"';
  }
  if (!extra.empty()) {
    if (out.size() > 1) out += ',';
    out += extra;
  }
  return out + "}";
}

size_t bucket_of(uint64_t ns) {
  size_t at = kFirstBound[size_t(std::bit_width(ns))];
  while (at < kBoundsNs.size() && kBoundsNs[at] < ns) ++at;
  return at;
}

}  // namespace

void Histogram::set_exemplar(Exemplar exemplar) {
  const size_t at = bucket_of(exemplar.ns);
  std::lock_guard lock(exemplars_mutex_);
  if (!exemplars_) exemplars_ = std::make_unique<std::array<Exemplar, kBuckets + 1>>();
  (*exemplars_)[at] = std::move(exemplar);
}

std::optional<Histogram::Exemplar> Histogram::exemplar(size_t i) const {
  std::lock_guard lock(exemplars_mutex_);
  if (!exemplars_ || (*exemplars_)[i].trace_id.empty()) return {};
  return (*exemplars_)[i];
}

void Histogram::record_ns(uint64_t ns) {
  counts_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(ns, std::memory_order_relaxed);
}

void Histogram::record_ns_alone(uint64_t ns) {
  add_alone(counts_[bucket_of(ns)], 1);
  add_alone(sum_, ns);
}

void Histogram::record_size(uint64_t n) {
  size_t at = n <= 1 ? 0 : std::min<size_t>(size_t(std::bit_width(n - 1)), kBuckets);
  counts_[at].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(n, std::memory_order_relaxed);
}

double Histogram::bound(Scale scale, size_t i) {
  return scale == Scale::kSeconds ? double(kBoundsNs[i]) * 1e-9 : std::ldexp(1.0, int(i));
}

// Never changed: an asker puts another one in its place, so that readers need the lock for no more than a reference.
struct Metrics::Series {
  Labels labels;
  // One cell per asker; summed at a read.
  std::vector<std::shared_ptr<Counter>> counters{};
  std::vector<std::shared_ptr<Gauge>> gauges{};
  std::vector<std::shared_ptr<Histogram>> histograms{};
};

struct Metrics::Family {
  std::string help, type;  // as the first asker said
  std::map<Labels, std::shared_ptr<const Series>> series;
};

// A family as it was when it was read. The names are the registry's, which forgets none.
struct Metrics::FamilyReading {
  const std::string &name, &help, &type;
  std::vector<std::shared_ptr<const Series>> series;
};

Metrics::Metrics() = default;
Metrics::~Metrics() = default;

template <class Cell, class... Args>
Cell& Metrics::add(std::vector<std::shared_ptr<Cell>> Series::*cells, std::string_view name, std::string_view help,
                   std::string_view type, Labels&& labels, Args... args) {
  std::lock_guard lock(mutex_);
  auto& family = families_[std::string(name)];
  if (family.type.empty()) family.help = help, family.type = type;
  auto& place = family.series[labels];
  auto changed = place ? std::make_shared<Series>(*place) : std::make_shared<Series>(Series{std::move(labels)});
  Cell& cell = *((*changed).*cells).emplace_back(std::make_shared<Cell>(args...));
  place = std::move(changed);
  return cell;
}

Counter& Metrics::counter(std::string_view name, std::string_view help, Labels labels) {
  return add(&Series::counters, name, help, "counter", std::move(labels));
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, Labels labels) {
  return add(&Series::gauges, name, help, "gauge", std::move(labels));
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help, Histogram::Scale scale, Labels labels) {
  return add(&Series::histograms, name, help, "histogram", std::move(labels), scale);
}

void Metrics::drop(std::string_view name, const Labels& labels, const Histogram& cell) {
  std::lock_guard lock(mutex_);
  auto family = families_.find(name);
  if (family == families_.end()) return;
  auto place = family->second.series.find(labels);
  if (place == family->second.series.end()) return;
  auto changed = std::make_shared<Series>(*place->second);
  std::erase_if(changed->histograms, [&](const auto& one) { return one.get() == &cell; });
  if (changed->histograms.empty())
    family->second.series.erase(place);
  else
    place->second = std::move(changed);
}

std::vector<Metrics::FamilyReading> Metrics::families() const {
  std::lock_guard lock(mutex_);
  std::vector<FamilyReading> out;
  for (const auto& [name, family] : families_) {
    auto& reading = out.emplace_back(FamilyReading{name, family.help, family.type, {}});
    reading.series.reserve(family.series.size());
    for (const auto& [labels, series] : family.series) reading.series.push_back(series);
  }
  return out;
}

void Metrics::collect(std::function<void(std::string&)> collector) {
  std::lock_guard lock(mutex_);
  collectors_.push_back(std::move(collector));
}

namespace {

using Cells = std::vector<std::shared_ptr<Histogram>>;

// ` # {trace_id="…"} <value> <Unix time>`: the latest one of the cells; nothing where none has one.
std::string show_exemplar(const Cells& cells, size_t bucket) {
  std::optional<Histogram::Exemplar> latest;
  for (const auto& c : cells)
    if (auto one = c->exemplar(bucket); one && (!latest || one->at > latest->at)) latest = std::move(one);
  if (!latest) return {};
  char at[32];
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(latest->at.time_since_epoch()).count();
  auto n =
      std::snprintf(at, sizeof at, "%lld.%03lld", static_cast<long long>(ms / 1000), static_cast<long long>(ms % 1000));
  return " # {trace_id=\"" + latest->trace_id + "\"} " + number(double(latest->ns) * 1e-9) + ' ' +
         std::string(at, size_t(n));
}

void append_histogram(std::string& out, const std::string& name, const Metrics::Labels& labels, const Cells& cells,
                      Metrics::Form form) {
  auto scale = cells.front()->scale();
  uint64_t total = 0, sum = 0;
  for (size_t i = 0; i <= Histogram::kBuckets; ++i) {
    for (const auto& c : cells) total += c->bucket(i);
    std::string bound = i == Histogram::kBuckets ? "+Inf" : number(Histogram::bound(scale, i));
    out += name + "_bucket" + render(labels, "le=\"" + bound + "\"") + ' ' + std::to_string(total);
    if (form == Metrics::Form::kOpenMetrics) out += show_exemplar(cells, i);
    out += '\n';
  }
  for (const auto& c : cells) sum += c->sum();
  out += name + "_sum" + render(labels) + ' ' +
         number(scale == Histogram::Scale::kSeconds ? double(sum) * 1e-9 : double(sum)) + '\n';
  out += name + "_count" + render(labels) + ' ' + std::to_string(total) + '\n';
}

}  // namespace

void Metrics::each(const std::function<void(const Reading&)>& reader) const {
  for (const auto& family : families())
    for (const auto& s : family.series) {
      Reading reading{family.name, s->labels, 0, {}};
      for (const auto& c : s->counters) reading.value += double(c->value());
      for (const auto& g : s->gauges) reading.value += double(g->value());
      for (const auto& h : s->histograms) {
        reading.value += double(h->sum());
        for (size_t i = 0; i <= Histogram::kBuckets; ++i) reading.buckets[i] += h->bucket(i);
      }
      reader(reading);
    }
}

std::string Metrics::text(Form form) const {
  std::string out;
  for (const auto& [name, help, type, series] : families()) {
    out += "# HELP " + name + ' ' + help + "\n# TYPE " + name + ' ' + type + '\n';
    for (const auto& s : series) {
      if (!s->histograms.empty()) {
        append_histogram(out, name, s->labels, s->histograms, form);
        continue;
      }
      int64_t value = 0;
      for (const auto& c : s->counters) value += int64_t(c->value());
      for (const auto& g : s->gauges) value += g->value();
      out += name + render(s->labels) + ' ' + std::to_string(value) + '\n';
    }
  }
  std::vector<std::function<void(std::string&)>> collectors;
  {
    std::lock_guard lock(mutex_);
    collectors = collectors_;
  }
  for (const auto& c : collectors) c(out);
  return form == Form::kOpenMetrics ? open_metrics(out) : out;
}

std::string escape_label(std::string_view value) {
  std::string out;
  for (char c : value) {
    if (c == '\\' || c == '"')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace weir::base
