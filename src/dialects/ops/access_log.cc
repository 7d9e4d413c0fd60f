#include "dialects/ops/access_log.h"

#include "dialects/ops/json_line.h"

namespace weir::ops {

base::Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& where, base::Metrics& metrics) {
  auto file =
      base::LineFile::open({"the access log", "access_log", "weir_access_log_dropped_total"}, where, 0640, metrics);
  if (!file) return file.error();
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(*file)));
}

void append_access_line(std::string& out, base::WallTime at, const wire::Exchange& exchange) {
  constexpr std::string_view kVersions[] = {"1.0", "1.1", "2"};
  const wire::RequestRecord& record = exchange.record();
  const wire::Request& request = exchange.request();
  JsonLine line(out, at);
  line.text("request_id", record.request_id);
  if (request.identity) line.text("who", request.identity->name);
  if (request.peer) line.text("peer", request.peer->address);
  line.text("protocol", record.protocol).text("http", kVersions[size_t(request.version)]);
  line.text("method", request.method).text("route", record.route);
  line.text("model", record.model).text("version", record.version).number("status", uint64_t(record.status));
  line.text("code", base::name(record.code)).text("reason", record.reject);
  line.number("bytes_in", record.bytes_in).number("bytes_out", record.bytes_out);
  if (record.began != base::kNever) line.seconds("seconds", record.took(exchange.now()));
  if (record.queue.count() > 0) line.seconds("queue_seconds", record.queue);
  if (record.compute.count() > 0) line.seconds("compute_seconds", record.compute);
  // W3C Trace Context: version-trace-parent-flags.
  if (record.traceparent.size() >= 35) line.text("trace_id", std::string_view(record.traceparent).substr(3, 32));
  line.end();
}

void append_rejected_line(std::string& out, base::WallTime at, std::string_view reason, const wire::PeerInfo& peer) {
  JsonLine(out, at).text("peer", peer.address).text("reason", reason).end();
}

void AccessLog::ShardLog::finished(const wire::Exchange& exchange) {
  append_access_line(lines_, env_.wall(), exchange);
  ++count_;
}

void AccessLog::ShardLog::rejected(std::string_view reason, const wire::PeerInfo& peer) {
  append_rejected_line(lines_, env_.wall(), reason, peer);
  ++count_;
}

void AccessLog::ShardLog::flush() {
  if (lines_.empty()) return;
  log_.file_->put(lines_, count_);
  lines_.clear();
  count_ = 0;
}

}  // namespace weir::ops
