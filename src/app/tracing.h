// Tracing: spans of the whole server on their way to an OpenTelemetry collector, by OTLP over HTTP
// (opentelemetry.io/docs/specs/otlp): `POST` of protobuf, answered with 2xx, or with 429, 502, 503 or 504 where the
// same request may come again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/metrics.h"
#include "base/status.h"
#include "dialects/ops/span_exporter.h"
#include "wire/tracer.h"

namespace weir::app {

// The settings below `tracing.`.
struct TracingConfig {
  enum class Compression : uint8_t { kNone, kGzip };

  std::string otlp;                  // "http://collector:4318"; empty = off
  std::vector<std::string> headers;  // "name=value", of every request to the collector
  wire::TraceRules rules;
  std::string service_name;           // empty: service.name of `resource`, or "weir"
  std::vector<std::string> resource;  // "key=value"
  std::vector<std::string> baggage;   // keys that become attributes
  Compression compression = Compression::kNone;
  base::Duration timeout = std::chrono::seconds(10);  // of one request
  std::string ca_file;                                // PEM; empty: whom the system believes
};

// Whether "name=value" is one with a name; headers also want both to be what a field of HTTP may hold.
base::Status check_pair(const std::string& pair);
base::Status check_header(const std::string& pair);

class Tracing {
 public:
  // Null where tracing is off. Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (ca_file); they name the setting.
  static base::Result<std::unique_ptr<Tracing>> open(const TracingConfig& config, base::Metrics& metrics);
  ~Tracing();

  ops::SpanExporter& exporter() { return *exporter_; }
  const TracingConfig& config() const { return config_; }
  // Sends what is left for as long as `most`, and drops the rest. When the shards have ended; once.
  void stop(base::Duration most);

 private:
  class Collector;
  Tracing(const TracingConfig& config, std::shared_ptr<Collector> collector, base::Metrics& metrics);

  const TracingConfig& config_;
  const std::shared_ptr<Collector> collector_;
  std::unique_ptr<ops::SpanExporter> exporter_;
};

}  // namespace weir::app
