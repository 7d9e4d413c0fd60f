// LoadReport: what an origin says of its own load, in the field `endpoint-load-metrics` of an answer (ORCA, as Envoy
// reads it: vLLM and Triton send it where `endpoint-load-metrics-format` asks for it) or in its /metrics. Pure; any
// thread. A stranger's text: what cannot be read is passed over, and values outside of their range are brought into it.
//
//   TEXT cpu_utilization=0.3, named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=2
//   JSON {"cpu_utilization": 0.3, "named_metrics": {"kv_cache_utilization": 0.4}}
#pragma once

#include <optional>
#include <string_view>

namespace weir::forward {

struct LoadReport {
  std::optional<double> utilization;  // 0 to 1: the fullest of its parts
  std::optional<double> waiting;      // requests, from 0

  bool empty() const { return !utilization && !waiting; }
};

inline constexpr size_t kMostOrca = 4096;  // bytes that are read

LoadReport parse_orca(std::string_view field);

// The text format of Prometheus: vLLM's vllm:num_requests_waiting, vllm:kv_cache_usage_perc, and Triton's
// nv_inference_pending_request_count, nv_gpu_utilization. Rows that name another model than `model` are passed over, as
// are rows of more than 512 bytes; no more than 4096 of those that are known are read.
LoadReport parse_metrics(std::string_view text, std::string_view model);

}  // namespace weir::forward
