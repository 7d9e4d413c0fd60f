#include "dialects/oip/trace_file.h"

#include "base/clock.h"
#include "marshal/json_tensor.h"

namespace weir::oip {
namespace {

void add_time(std::string& out, std::string_view name, base::Time at) {
  if (at == base::kNever) return;
  if (out.back() != '[') out += ',';
  ((out += "{\"name\":\"") += name) += "\",\"ns\":";
  out += std::to_string(at.time_since_epoch().count()) + '}';
}

// The protocol's own times are those of moments: reading is over, writing begins.
void add_times(std::string& out, const FinishedTrace& trace) {
  const msg::Timeline& t = *trace.times;
  const bool grpc = trace.protocol.ends_with("grpc");
  out += ",{\"id\":" + std::to_string(trace.id) + ",\"timestamps\":[";
  add_time(out, grpc ? "GRPC_WAITREAD_START" : "HTTP_RECV_START", t.received);
  add_time(out, grpc ? "GRPC_WAITREAD_END" : "HTTP_RECV_END", t.received);
  add_time(out, "REQUEST_START", t.queued);
  add_time(out, "QUEUE_START", t.queued);
  add_time(out, "COMPUTE_START", t.started);
  add_time(out, "COMPUTE_INPUT_END", t.computing);
  add_time(out, "COMPUTE_OUTPUT_START", t.computed);
  add_time(out, "COMPUTE_END", t.finished);
  add_time(out, "REQUEST_END", t.finished);
  const base::Time now = base::steady_now();
  add_time(out, grpc ? "GRPC_SEND_START" : "HTTP_SEND_START", now);
  add_time(out, grpc ? "GRPC_SEND_END" : "HTTP_SEND_END", now);
  out += "]}";
}

void add_tensor(std::string& out, uint64_t id, const TracedTensor& tensor) {
  ((out += ",{\"id\":" + std::to_string(id) + ",\"activity\":\"") += tensor.activity) += "\",\"tensor\":{\"name\":";
  marshal::write_string(out, tensor.name);
  out += ",\"data\":";
  marshal::write_string(out, tensor.data);
  ((out += ",\"shape\":\"" + tensor.shape + "\",\"dtype\":\"") += tensor.dtype) += '"';
  if (!tensor.whole.empty()) out += ",\"whole\":\"" + tensor.whole + '"';
  out += "}}";
}

}  // namespace

std::string trace_elements(const FinishedTrace& trace) {
  std::string out = ",{\"id\":" + std::to_string(trace.id) + ",\"model_name\":";
  marshal::write_string(out, trace.model);
  (out += ",\"model_version\":") += trace.version.empty() ? "-1" : trace.version;
  out += ",\"request_id\":";
  marshal::write_string(out, trace.request_id);
  out += '}';
  if (trace.times) add_times(out, trace);
  if (trace.tensors)
    for (const auto& tensor : trace.tensors->all()) add_tensor(out, trace.id, tensor);
  return out += '\n';
}

base::Result<std::unique_ptr<TraceFile>> TraceFile::open(const std::string& where, uint64_t most,
                                                         base::Metrics& metrics) {
  if (where == "-") return base::invalid("oip.trace_file: traces go to a file, not to standard output");
  const base::LineFile::Names names{"the trace file",
                                    "oip.trace_file",
                                    "weir_trace_file_dropped_total",
                                    base::LineFile::Form::kElements,
                                    ",{\"id\":0,\"dropped\":",
                                    most};
  auto file = base::LineFile::open(names, where, 0600, metrics);
  if (!file) return std::move(file).error();
  return std::unique_ptr<TraceFile>(new TraceFile(where, std::move(*file)));
}

}  // namespace weir::oip
