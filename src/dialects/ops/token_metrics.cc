// The families of metrics.h for models that make tokens: what bus::TokenStats counts, under weir's names and vLLM's.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bus/catalog.h"
#include "bus/token_stats.h"
#include "dialects/ops/metrics.h"

namespace weir::ops {
namespace {

using base::Histogram;
using bus::TokenStats;

struct TokenRow {
  std::string labels;
  const TokenStats* stats;
};

// `second` labels a version: by its name, or by its place among the model's.
template <class Second>
std::vector<TokenRow> token_rows(const bus::Catalog& catalog, std::string_view model_label, Second second) {
  std::vector<TokenRow> out;
  for (const auto& [name, model] : catalog.models) {
    size_t place = 0;
    for (const auto& [version, served] : model.versions)
      if (const auto* stats = served->stats.tokens.get())
        out.push_back(
            {std::string(model_label) + "=\"" + base::escape_label(name) + "\"," + second(version, place++), stats});
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

using Value = double (*)(const TokenStats&);
struct Plain {
  std::string_view name, type, help;  // no type: another series of the family before
  std::string_view label;             // an extra one, or empty
  Value value;
};
struct Spread {
  std::string_view name, help;
  const Histogram TokenStats::*histogram;
};

double count(const base::Counter& counter) { return double(counter.value()); }
double level(const base::Gauge& gauge) { return double(gauge.value()); }
template <TokenStats::Reason R>
double ended(const TokenStats& s) {
  return count(s.ended[size_t(R)]);
}
using Reason = TokenStats::Reason;

constexpr Plain kWeir[] = {
    {"weir_model_prompt_tokens_total", "counter", "Tokens of prompts of sequences that ended.", "",
     [](const TokenStats& s) { return count(s.prompt_total); }},
    {"weir_model_generated_tokens_total", "counter", "Tokens that were generated.", "",
     [](const TokenStats& s) { return count(s.generated_total); }},
    {"weir_model_sequences_total", "counter", "Sequences that ended, by reason.", ",reason=\"stop\"",
     ended<Reason::kStop>},
    {"weir_model_sequences_total", "", "", ",reason=\"length\"", ended<Reason::kLength>},
    {"weir_model_sequences_total", "", "", ",reason=\"abort\"", ended<Reason::kAbort>},
    {"weir_model_sequences_total", "", "", ",reason=\"error\"", ended<Reason::kError>},
    {"weir_model_sequences", "gauge", "Sequences here now.", ",state=\"running\"",
     [](const TokenStats& s) { return level(s.running); }},
    {"weir_model_sequences", "", "", ",state=\"waiting\"", [](const TokenStats& s) { return level(s.waiting); }},
    {"weir_model_preemptions_total", "counter", "Sequences that lost their keys and values to others.", "",
     [](const TokenStats& s) { return count(s.preemptions); }},
    {"weir_model_moved_sequences_total", "counter", "Forwarded sequences that went on at another origin.", "",
     [](const TokenStats& s) { return count(s.moved); }},
    {"weir_model_prefix_cache_queries_total", "counter", "Tokens looked up in sessions and the prefix cache.", "",
     [](const TokenStats& s) { return count(s.prefix_queries); }},
    {"weir_model_prefix_cache_hits_total", "counter", "Those of them whose keys and values were there.", "",
     [](const TokenStats& s) { return count(s.prefix_hits); }},
    {"weir_model_draft_tokens_total", "counter", "Tokens guessed ahead (draft_tokens), by outcome.",
     ",outcome=\"right\"", [](const TokenStats& s) { return count(s.drafted_right); }},
    {"weir_model_draft_tokens_total", "", "", ",outcome=\"wrong\"",
     [](const TokenStats& s) { return count(s.drafted) - count(s.drafted_right); }},
    {"weir_model_kv_blocks", "gauge", "Blocks of keys and values.", ",state=\"used\"",
     [](const TokenStats& s) { return level(s.blocks_used); }},
    {"weir_model_kv_blocks", "", "", ",state=\"cached\"", [](const TokenStats& s) { return level(s.blocks_cached); }},
    {"weir_model_kv_blocks", "", "", ",state=\"total\"", [](const TokenStats& s) { return level(s.blocks_total); }},
    {"weir_model_kv_usage_ratio", "gauge", "Blocks that are held, of all; 1 is full.", "",
     [](const TokenStats& s) { return s.kv_usage(); }},
    {"weir_model_resident_sessions", "gauge", "Sessions whose keys and values stay between their calls.", "",
     [](const TokenStats& s) { return level(s.sessions); }},
};

constexpr Spread kWeirSpreads[] = {
    {"weir_model_time_to_first_token_seconds", "From a sequence's arrival to its first generated token.",
     &TokenStats::time_to_first_token},
    {"weir_model_inter_token_seconds", "Between two generated tokens of a sequence.", &TokenStats::inter_token},
    {"weir_model_time_per_output_token_seconds", "Decode time of a sequence by its tokens after the first.",
     &TokenStats::per_output_token},
    {"weir_model_sequence_queue_seconds", "From a sequence's arrival to its start.", &TokenStats::queue},
    {"weir_model_sequence_prefill_seconds", "From a sequence's start to its first generated token.",
     &TokenStats::prefill},
    {"weir_model_sequence_decode_seconds", "From a sequence's first generated token to its last.", &TokenStats::decode},
    {"weir_model_sequence_inference_seconds", "From a sequence's start to its end.", &TokenStats::inference},
    {"weir_model_sequence_seconds", "From a sequence's arrival to its end.", &TokenStats::whole},
    {"weir_model_sequence_prompt_tokens", "Tokens of a prompt.", &TokenStats::prompt_tokens},
    {"weir_model_sequence_generated_tokens", "Tokens generated for a sequence.", &TokenStats::generated_tokens},
    {"weir_model_sequence_max_tokens", "Tokens asked for.", &TokenStats::max_tokens},
    {"weir_model_step_tokens", "Tokens in a step of the engine.", &TokenStats::iteration_tokens},
};

constexpr Plain kVllm[] = {
    {"vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", "",
     [](const TokenStats& s) { return level(s.running); }},
    {"vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", "",
     [](const TokenStats& s) { return level(s.waiting); }},
    {"vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", "",
     [](const TokenStats& s) { return s.kv_usage(); }},
    {"vllm:num_preemptions_total", "counter", "Cumulative number of preemptions.", "",
     [](const TokenStats& s) { return count(s.preemptions); }},
    {"vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", "",
     [](const TokenStats& s) { return count(s.prompt_total); }},
    {"vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", "",
     [](const TokenStats& s) { return count(s.generated_total); }},
    {"vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in number of tokens.", "",
     [](const TokenStats& s) { return count(s.prefix_queries); }},
    {"vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in number of tokens.", "",
     [](const TokenStats& s) { return count(s.prefix_hits); }},
    {"vllm:spec_decode_num_draft_tokens_total", "counter", "Number of draft tokens.", "",
     [](const TokenStats& s) { return count(s.drafted); }},
    {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Number of accepted tokens.", "",
     [](const TokenStats& s) { return count(s.drafted_right); }},
    {"vllm:request_success_total", "counter", "Count of processed requests.", ",finished_reason=\"stop\"",
     ended<Reason::kStop>},
    {"vllm:request_success_total", "", "", ",finished_reason=\"length\"", ended<Reason::kLength>},
    {"vllm:request_success_total", "", "", ",finished_reason=\"abort\"", ended<Reason::kAbort>},
    {"vllm:request_success_total", "", "", ",finished_reason=\"error\"", ended<Reason::kError>},
};

constexpr Spread kVllmSpreads[] = {
    {"vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.",
     &TokenStats::time_to_first_token},
    {"vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &TokenStats::inter_token},
    {"vllm:request_time_per_output_token_seconds", "Histogram of time per output token of a request in seconds.",
     &TokenStats::per_output_token},
    {"vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &TokenStats::whole},
    {"vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase.", &TokenStats::queue},
    {"vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase.", &TokenStats::inference},
    {"vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase.", &TokenStats::prefill},
    {"vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase.", &TokenStats::decode},
    {"vllm:request_prompt_tokens", "Number of prefill tokens processed.", &TokenStats::prompt_tokens},
    {"vllm:request_generation_tokens", "Number of generation tokens processed.", &TokenStats::generated_tokens},
    {"vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", &TokenStats::max_tokens},
    {"vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", &TokenStats::iteration_tokens},
};

void token_head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  ((((out += "# HELP ") += name) += ' ') += help) += '\n';
  ((((out += "# TYPE ") += name) += ' ') += type) += '\n';
}

void line(std::string& out, std::string_view name, std::string_view suffix, std::string_view labels,
          std::string_view more, double value) {
  ((((out += name) += suffix) += '{') += labels) += more;
  ((out += "} ") += number(value)) += '\n';
}

template <size_t N>
void append(std::string& out, const std::vector<TokenRow>& all, const Plain (&families)[N]) {
  for (const auto& family : families) {
    if (!family.type.empty()) token_head(out, family.name, family.type, family.help);
    for (const auto& row : all) line(out, family.name, "", row.labels, family.label, family.value(*row.stats));
  }
}

void append_histogram(std::string& out, std::string_view name, std::string_view labels, const Histogram& histogram) {
  uint64_t below = 0;
  auto bucket = [&](size_t i, const std::string& bound) {
    below += histogram.bucket(i);
    line(out, name, "_bucket", labels, ",le=\"" + bound + '"', double(below));
  };
  for (size_t i = 0; i < Histogram::kBuckets; ++i) bucket(i, number(Histogram::bound(histogram.scale(), i)));
  bucket(Histogram::kBuckets, "+Inf");
  double scale = histogram.scale() == Histogram::Scale::kSeconds ? 1e-9 : 1;
  line(out, name, "_sum", labels, "", double(histogram.sum()) * scale);
  line(out, name, "_count", labels, "", double(below));
}

template <size_t N>
void append(std::string& out, const std::vector<TokenRow>& all, const Spread (&families)[N]) {
  for (const auto& family : families) {
    token_head(out, family.name, "histogram", family.help);
    for (const auto& row : all) append_histogram(out, family.name, row.labels, row.stats->*family.histogram);
  }
}

// A Call is one sequence, however many its client asked for.
void append_params_n(std::string& out, const std::vector<TokenRow>& all) {
  constexpr std::string_view kName = "vllm:request_params_n";
  token_head(out, kName, "histogram", "Histogram of the n request parameter.");
  for (const auto& row : all) {
    uint64_t requests = 0;
    for (size_t i = 0; i <= Histogram::kBuckets; ++i) requests += row.stats->max_tokens.bucket(i);
    for (auto bound : {"1", "2", "5", "10", "20", "+Inf"})
      line(out, kName, "_bucket", row.labels, std::string(",le=\"") + bound + '"', double(requests));
    line(out, kName, "_sum", row.labels, "", double(requests));
    line(out, kName, "_count", row.labels, "", double(requests));
  }
}

// Adapters with requests inside count as running: nobody knows which of these wait. The value is the time, so that
// whoever scrapes several servers takes the newest.
void append_adapters(std::string& out, const bus::Catalog& catalog) {
  constexpr std::string_view kName = "vllm:lora_requests_info";
  std::map<std::string, std::string> running;  // by model
  for (const auto& [name, model] : catalog.models)
    for (const auto& [version, served] : model.versions) {
      if (served->adapters && served->spec.parent.empty()) running.try_emplace(name);
      if (served->spec.parent.empty()) continue;
      auto& names = running[served->spec.parent];
      if (!served->idle()) ((names += names.empty() ? "" : ",") += base::escape_label(name));
    }
  if (running.empty()) return;
  token_head(out, kName, "gauge", "Running stats on lora requests.");
  for (const auto& [model, names] : running)
    line(out, kName, "",
         "max_lora=\"256\",model_name=\"" + base::escape_label(model) + "\",running_lora_adapters=\"" + names +
             "\",waiting_lora_adapters=\"\"",
         "", double(base::unix_ms()) / 1000);
}

}  // namespace

void append_tokens(std::string& out, const bus::Catalog& catalog) {
  auto all = token_rows(catalog, "model", [](const std::string& version, size_t) {
    return "version=\"" + base::escape_label(version) + '"';
  });
  if (all.empty()) return;
  append(out, all, kWeir);
  append(out, all, kWeirSpreads);
}

void append_vllm(std::string& out, const bus::Catalog& catalog) {
  auto all = token_rows(catalog, "model_name",
                        [](const std::string&, size_t place) { return "engine=\"" + std::to_string(place) + '"'; });
  if (all.empty()) return;
  append(out, all, kVllm);
  append(out, all, kVllmSpreads);
  append_params_n(out, all);
  append_adapters(out, catalog);
}

}  // namespace weir::ops
