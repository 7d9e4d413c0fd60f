// The numbers of models that make tokens under the names of llama.cpp's server, which has one model: sums over all of
// them, without labels. Not there is what only a server with slots or one decode per batch counts.
// Reference: github.com/ggml-org/llama.cpp, tools/server/README.md, "GET /metrics".
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bus/catalog.h"
#include "bus/token_stats.h"
#include "dialects/ops/metrics.h"

namespace weir::ops {
namespace {

using bus::TokenStats;

struct LlamaFamily {
  std::string_view name, type, help;
  double (*value)(const TokenStats&);
  double (*per)(const TokenStats&) = nullptr;  // the sum is told per sum of these
};

constexpr double kExact = 9007199254740992;  // 2^53: up to it a double tells whole numbers apart

double seconds(const base::Histogram& histogram) { return double(histogram.sum()) * 1e-9; }
double prefill_seconds(const TokenStats& s) { return seconds(s.prefill); }
double decode_seconds(const TokenStats& s) { return seconds(s.decode); }
double generated(const TokenStats& s) { return double(s.generated_total.value()); }

// Tokens of prompts whose keys and values were not there. Of forwarded models nobody looks anything up here.
double processed(const TokenStats& s) {
  const uint64_t found = s.prefix_hits.value(), looked_up = s.prefix_queries.value();
  if (looked_up == 0) return double(s.prompt_total.value());
  return double(looked_up - std::min(found, looked_up));
}

double steps(const TokenStats& s) {
  uint64_t all = 0;
  for (size_t i = 0; i <= base::Histogram::kBuckets; ++i) all += s.iteration_tokens.bucket(i);
  return double(all);
}

constexpr LlamaFamily kLlamaFamilies[] = {
    {"llamacpp:prompt_tokens_total", "counter", "Number of prompt tokens processed.", processed},
    {"llamacpp:prompt_tokens_cached_total", "counter", "Number of prompt tokens that were cached.",
     [](const TokenStats& s) { return double(s.prefix_hits.value()); }},
    {"llamacpp:prompt_seconds_total", "counter", "Prompt process time.", prefill_seconds},
    {"llamacpp:tokens_predicted_total", "counter", "Number of generation tokens processed.", generated},
    {"llamacpp:tokens_predicted_seconds_total", "counter", "Predict process time.", decode_seconds},
    {"llamacpp:n_decode_total", "counter", "Total number of steps of the engine.", steps},
    {"llamacpp:spec_decode_num_draft_tokens_total", "counter", "Number of draft tokens.",
     [](const TokenStats& s) { return double(s.drafted.value()); }},
    {"llamacpp:spec_decode_num_accepted_tokens_total", "counter", "Number of accepted draft tokens.",
     [](const TokenStats& s) { return double(s.drafted_right.value()); }},
    {"llamacpp:prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s.", processed, prefill_seconds},
    {"llamacpp:predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.", generated,
     decode_seconds},
    {"llamacpp:requests_processing", "gauge", "Number of requests processing.",
     [](const TokenStats& s) { return double(s.running.value()); }},
    {"llamacpp:requests_deferred", "gauge", "Number of requests deferred.",
     [](const TokenStats& s) { return double(s.waiting.value()); }},
};

double total(const std::vector<const TokenStats*>& all, double (*value)(const TokenStats&)) {
  double sum = 0;
  for (const TokenStats* stats : all) sum += value(*stats);
  return sum;
}

}  // namespace

void append_llama_cpp(std::string& out, const bus::Catalog& catalog) {
  std::vector<const TokenStats*> all;
  for (const auto& [name, model] : catalog.models)
    for (const auto& [version, served] : model.versions)
      if (const auto* stats = served->stats.tokens.get()) all.push_back(stats);
  if (all.empty()) return;
  for (const LlamaFamily& family : kLlamaFamilies) {
    double value = total(all, family.value);
    if (family.per) {
      const double spent = total(all, family.per);
      value = spent > 0 ? value / spent : 0;
    }
    char text[32];
    // Counts are told to the last one.
    const bool whole = value == std::floor(value) && value < kExact;
    std::snprintf(text, sizeof text, whole ? "%.0f" : "%.10g", value);
    const std::string name(family.name);
    out += "# HELP " + name + ' ' + std::string(family.help) + "\n# TYPE " + name + ' ' + std::string(family.type);
    out += '\n' + name + ' ' + text + '\n';
  }
}

}  // namespace weir::ops
