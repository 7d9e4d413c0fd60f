#include "engines/llm/options.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/cuda/tensor_split.h"

namespace weir::llm {
namespace {

constexpr uint32_t kMostWaiting = 1 << 20;
constexpr base::Duration kUsualWait = std::chrono::seconds(60);
constexpr base::Duration kLongestStep = std::chrono::seconds(10);

class ParameterTable {
 public:
  explicit ParameterTable(const std::map<std::string, std::string>& all) : all_(all) {}

  const std::string* find(const char* name) const {
    auto at = all_.find(name);
    return at == all_.end() ? nullptr : &at->second;
  }
  void count(const char* name, uint32_t least, uint32_t most, uint32_t& to) {
    auto* text = find(name);
    if (!text) return;
    auto n = base::parse_count(*text, most);
    if (n && *n >= least)
      to = uint32_t(*n);
    else
      fail(name, "a whole number from " + std::to_string(least) + " to " + std::to_string(most) + " is expected");
  }
  // The value of the name that the parameter is, out of those `known`.
  template <class T>
  void choose(const char* name, T& to,
              std::type_identity_t<std::initializer_list<std::pair<std::string_view, T>>> known,
              const std::string& expected) {
    auto* text = find(name);
    if (!text) return;
    auto at = std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.first == *text; });
    if (at == known.end()) return fail(name, expected);
    to = at->second;
  }
  void fail(const char* name, const std::string& expected) {
    if (status.ok())
      status = base::invalid("parameter '" + std::string(name) + "' is \"" + *find(name) + "\": " + expected);
  }
  base::Status status;

 private:
  const std::map<std::string, std::string>& all_;
};

// The options of the lane.
void read_policy(ParameterTable& p, const msg::BatchPolicy& batching, Options& o) {
  generation::TokenPolicy& policy = o.policy;
  p.count("block_size", 16, 1024, policy.block_size);
  if (policy.block_size % kTile != 0) p.fail("block_size", "a multiple of 16 is expected");
  p.count("max_running", 1, 4096, policy.max_running);
  p.count("step_tokens", 1, 1 << 16, policy.step_tokens);
  policy.step_tokens = std::max(policy.step_tokens, policy.max_running);  // room for every sequence that runs
  if (auto* text = p.find("step_time")) {
    auto time = base::parse_duration(*text);
    if (time && *time >= base::Duration(0) && *time <= kLongestStep)
      policy.step_time = *time, o.step_time = *time;
    else
      p.fail("step_time", "a time like 40ms is expected, of at most 10s; 0 for steps of step_tokens");
  }
  p.count("prompt_steps", 1, 1024, policy.prompt_steps);
  // The default of max_queue is meant for models whose requests are alike.
  bool set = batching.max_queue > 0 && batching.max_queue != msg::BatchPolicy{}.max_queue;
  policy.max_waiting = set ? std::min(batching.max_queue, kMostWaiting) : kMostWaiting;
  p.count("max_waiting", 1, kMostWaiting, policy.max_waiting);
  policy.max_wait = kUsualWait;
  if (auto* text = p.find("max_wait")) {
    auto time = base::parse_duration(*text);
    if (time && *time >= base::Duration(0))
      policy.max_wait = *time;
    else
      p.fail("max_wait", "a time like 60s is expected; 0 for any");
  }
  if (auto* text = p.find("kv_cache")) {
    auto bytes = base::parse_size(*text);
    if (bytes && *bytes > 0)
      policy.kv_bytes = *bytes, o.kv_cache = *bytes;
    else
      p.fail("kv_cache", "a size like 512MiB is expected");
  }
  if (auto* text = p.find("prefix_cache")) {
    auto on = base::parse_switch(*text);
    if (!on) p.fail("prefix_cache", "on or off is expected");
    policy.prefix_cache = !on || *on;
  }
}

void read_formats(ParameterTable& p, Options& o) {
  p.choose("dtype", o.form, {{"auto", {}}, {"float32", WeightFormat::kF32}, {"bfloat16", WeightFormat::kBf16}},
           "auto, float32 or bfloat16 is expected");
  p.choose("quantization", o.keep,
           {{"auto", Keep::kAsStored}, {"none", Keep::kWhole}, {"int8", Keep::kInt8}, {"int4", Keep::kInt4}},
           "auto, none, int8 or int4 is expected");
  if (o.form == WeightFormat::kF32 && (o.keep == Keep::kInt8 || o.keep == Keep::kInt4))
    p.fail("quantization", "dtype float32 has no codes; leave one of the two away");
  p.choose("kv_cache_dtype", o.kv_format,
           {{"auto", KvFormat::kAsComputed},
            {"int8", KvFormat::kInt8},
            {"fp8", KvFormat::kFp8},
            {"fp8_e4m3", KvFormat::kFp8}},
           "auto, int8 or fp8 is expected");
}

// A parameter that is on where nobody says so.
bool is_off(ParameterTable& p, const char* name) {
  auto* text = p.find(name);
  if (!text) return false;
  auto on = base::parse_switch(*text);
  if (!on) p.fail(name, "on or off is expected");
  return on && !*on;
}

}  // namespace

base::Result<Options> read_options(const std::map<std::string, std::string>& parameters,
                                   const msg::BatchPolicy& batching) {
  Options o;
  ParameterTable p(parameters);
  o.threads = usual_threads();
  p.count("threads", 1, 1024, o.threads);
  p.count("max_length", 1, 1 << 24, o.max_length);
  read_policy(p, batching, o);
  p.count("draft_tokens", 0, 64, o.policy.draft_tokens);
  read_formats(p, o);
  if (is_off(p, "graphs")) o.graphs = Graphs::kOff;
  if (is_off(p, "wgmma")) o.wgmma = Wgmma::kOff;
  if (auto* text = p.find("device")) o.device = *text;
  p.count("tensor_parallel_size", 1, cuda::kMostRanks, o.tensor_parallel);
  if (p.find("memory_share")) p.count("memory_share", 1, 100, o.memory_share.emplace());
  auto* name = p.find("kernels");
  o.kernels = name && *name != "auto" ? kernels(*name) : &kernels();
  if (!o.kernels) p.fail("kernels", "auto, avx512_bf16, avx512, avx2 or portable, as this CPU has it, is expected");
  if (!p.status.ok()) return p.status;
  return o;
}

uint32_t context_length(const Options& options, std::string_view model, uint32_t most) {
  if (options.max_length > most)
    base::log::warning("max_length is more than a model's context",
                       {{"model", model}, {"max_length", options.max_length}, {"context", most}});
  return options.max_length > 0 ? std::min(options.max_length, most) : most;
}

void keep_beside(Options& options, const std::map<std::string, std::string>& parameters, std::span<const int> allowed,
                 uint32_t pinned_shards) {
  auto cores = cores_beside(allowed, pinned_shards);
  if (cores.empty()) return;
  if (!parameters.contains("threads")) options.threads = uint32_t(cores.size());
  if (options.threads <= cores.size()) options.cores = std::move(cores);
}

}  // namespace weir::llm
