// The numbers of the server in Prometheus' words: RequestMetrics counts Exchanges as they finish, the appenders write
// families whose values live elsewhere. Labels are protocol names, codes, reasons and model names of the catalog: never
// a client's bytes.
//
//   weir_requests_total{protocol,code}              weir_request_duration_seconds{protocol}
//   weir_request_bytes_total{protocol,direction}    weir_rejects_total{reason}
//   weir_model_request_duration_seconds{model}      of whole Exchanges, by model; their parts: weir_model_{receive,
//   queue,compute,send}_seconds{model}
//   weir_model_{inferences,executions,requests}_total, …_seconds_total, weir_model_batch_rows, weir_model_pending,
//   weir_model_ready{model,version}, weir_model_load_seconds{model,version},
//   weir_model_memory_bytes{model,version,what,place}
//   of models that make tokens (token_metrics.cc): weir_model_{prompt,generated}_tokens_total, weir_model_sequences,
//   weir_model_kv_blocks, weir_model_prefix_cache_{queries,hits}_total, weir_model_time_to_first_token_seconds, …
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "bus/catalog.h"
#include "wire/router.h"

namespace weir::ops {

// One per shard, on its thread: every shard counts in cells of its own.
class RequestMetrics final : public wire::Observer {
 public:
  using Serves = std::function<bool(const std::string& model)>;

  // `serves`: whether there is such a model now; null: there is any.
  explicit RequestMetrics(base::Metrics& metrics, Serves serves = nullptr);
  ~RequestMetrics();
  // Ends the series of models that are not served any more.
  void catalog_changed();
  void finished(const wire::Exchange& exchange) override;
  void rejected(std::string_view reason, const wire::PeerInfo& peer) override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Families of every model of the catalog. Any thread.
void append_models(std::string& out, const bus::Catalog& catalog);
// The same numbers under the names that Triton's dashboards know (nv_inference_…). `quantiles`, as they are written
// ("0.99"): of the models that keep them (bus/call_durations.h).
void append_triton(std::string& out, const bus::Catalog& catalog, const std::vector<std::string>& quantiles = {});
// Families of the models that make tokens; nothing when there is none. Any thread.
void append_tokens(std::string& out, const bus::Catalog& catalog);
// The same numbers under the names that vLLM's dashboards and the Gateway API's inference extension know (vllm:…).
void append_vllm(std::string& out, const bus::Catalog& catalog);
// The same numbers of all those models together, under the names of llama.cpp's server (llamacpp:…).
void append_llama_cpp(std::string& out, const bus::Catalog& catalog);
// process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds, process_start_time_seconds, and
// weir_build_info{version}.
void append_process(std::string& out, std::string_view version);

}  // namespace weir::ops
