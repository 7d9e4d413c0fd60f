#include "dialects/ops/request_spans.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/attempt.h"
#include "dialects/ops/otlp.h"
#include "wire/grpc_status.h"
#include "wire/text.h"
#include "wire/trace_context.h"

namespace weir::ops {
namespace {

using base::Code;
using wire::Exchange;
using wire::RequestRecord;
using wire::Trace;

constexpr uint32_t kMostOfATurn = 128;  // spans that are kept until the turn's end

int64_t unix_ns(const Trace& trace, base::Time at) { return at.time_since_epoch().count() + trace.to_unix_ns; }

template <size_t N>
bool is_set(const std::array<uint8_t, N>& id) {
  return id != std::array<uint8_t, N>{};
}

// A path of a remote call, "/inference.GRPCInferenceService/ModelInfer": no other route has a dot in its first part.
bool is_method(std::string_view route) {
  const size_t slash = route.find('/', 1);
  return slash != std::string_view::npos && route.substr(0, slash).find('.') != std::string_view::npos;
}

// Connect's requests (connectrpc.com/docs/protocol): types of its own, a version beside JSON, a query.
bool is_connect(const Exchange& x) {
  const wire::Request& request = x.request();
  if (!is_method(x.record().route)) return false;
  const std::string_view type = request.fields.find("content-type");
  return type.starts_with("application/connect+") || type == "application/proto" ||
         request.fields.has("connect-protocol-version") || request.method == "GET";
}

bool is_grpc(const Exchange& x) { return wire::is_grpc_or_web(x.request().fields.find("content-type")); }
bool is_rpc(const Exchange& x) { return is_grpc(x) || is_connect(x); }

// The methods of RFC 9110 and PATCH; others would be names without number.
std::string_view known_method(std::string_view method) {
  constexpr std::string_view kKnown[] = {"GET",     "POST",  "PUT",     "DELETE", "HEAD",
                                         "OPTIONS", "PATCH", "CONNECT", "TRACE"};
  return std::find(std::begin(kKnown), std::end(kKnown), method) == std::end(kKnown) ? "_OTHER" : method;
}

// "POST /v2/models/{model}/infer", "inference.GRPCInferenceService/ModelInfer": nothing that a client may choose.
std::string name_of(const Exchange& x) {
  const std::string_view route = x.record().route;
  if (is_rpc(x)) return route.size() > 1 ? std::string(route.substr(1)) : "grpc";
  auto method = known_method(x.request().method);
  std::string name(method == "_OTHER" ? "HTTP" : method);
  return route.empty() ? name : (name += ' ') += route;
}

// A server's span is an error where the server is to blame (HTTP: 5xx; gRPC: the codes that the conventions name).
bool is_error(const Exchange& x) {
  if (!is_rpc(x)) return x.record().status >= 500;
  switch (x.record().code) {
    case Code::kUnknown:
    case Code::kDeadlineExceeded:
    case Code::kUnimplemented:
    case Code::kInternal:
    case Code::kUnavailable:
    case Code::kDataLoss: return true;
    default: return false;
  }
}

// Semantic conventions for gRPC and for Connect RPC.
void write_rpc(SpanWriter& span, const Exchange& x) {
  const RequestRecord& record = x.record();
  const bool grpc = is_grpc(x);
  span.text("rpc.system", grpc ? "grpc" : "connect_rpc");
  const std::string_view path = record.route;
  if (size_t slash = path.rfind('/'); path.size() > 1 && slash > 0 && slash != std::string_view::npos) {
    span.text("rpc.service", path.substr(1, slash - 1));
    span.text("rpc.method", path.substr(slash + 1));
  }
  if (grpc)
    span.number("rpc.grpc.status_code", int64_t(record.code));
  else if (record.code != Code::kOk)
    span.text("rpc.connect_rpc.error_code", wire::lowered(base::name(record.code)));
}

void write_http(SpanWriter& span, const wire::Request& request, const RequestRecord& record) {
  auto method = known_method(request.method);
  span.text("http.request.method", method);
  if (method != request.method) span.text("http.request.method_original", request.method);
  span.text("http.route", record.route);
  span.text("url.path", request.path());
  if (record.status != 0) span.number("http.response.status_code", record.status);
}

// "example.org:8443" → server.address and server.port; "[::1]:80" alike.
void write_server(SpanWriter& span, std::string_view authority) {
  size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && authority.find(']', colon) != std::string_view::npos) colon = authority.npos;
  std::string_view host = authority.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  span.text("server.address", host);
  uint16_t port = 0;
  if (colon == std::string_view::npos) return;
  auto text = authority.substr(colon + 1);
  if (std::from_chars(text.data(), text.data() + text.size(), port).ec == std::errc()) span.number("server.port", port);
}

void write_network(SpanWriter& span, const wire::Request& request) {
  constexpr std::string_view kVersions[] = {"1.0", "1.1", "2"};
  span.text("network.protocol.name", "http");
  span.text("network.protocol.version", kVersions[size_t(request.version)]);
  span.text("user_agent.original", request.fields.find("user-agent"));
  write_server(span, request.authority);
  if (!request.peer) return;
  span.text("url.scheme", request.peer->security == wire::Security::kTls ? "https" : "http");
  span.text("client.address", request.peer->host());
}

std::string_view operation_of(const RequestRecord& record) {
  if (record.route.ends_with("/chat/completions")) return "chat";
  if (record.route.ends_with("/embeddings")) return "embeddings";
  return record.route.ends_with("/completions") ? "text_completion" : "generate_content";
}

void write_tokens(SpanWriter& span, const RequestRecord& record, const Trace& trace) {
  if (trace.input_tokens + trace.output_tokens == 0) return;
  span.text("gen_ai.operation.name", operation_of(record));
  span.text("gen_ai.provider.name", "weir");
  span.text("gen_ai.request.model", record.model);
  span.text("gen_ai.response.model", record.model);
  span.number("gen_ai.usage.input_tokens", trace.input_tokens);
  span.number("gen_ai.usage.output_tokens", trace.output_tokens);
  if (trace.cached_tokens > 0) span.number("gen_ai.usage.cache_read.input_tokens", trace.cached_tokens);
  if (!trace.finish.empty()) span.list("gen_ai.response.finish_reasons", trace.finish);
  if (trace.first_token.count() >= 0)
    span.value("gen_ai.server.time_to_first_token", std::chrono::duration<double>(trace.first_token).count());
}

void write_weir(SpanWriter& span, const RequestRecord& record, const Trace& trace) {
  span.text("weir.protocol", record.protocol);
  span.text("weir.request_id", record.request_id);
  span.text("weir.model.name", record.model);
  span.text("weir.model.version", record.version);
  span.text("weir.reject_reason", record.reject);
  span.number("http.request.body.size", int64_t(record.bytes_in));
  span.number("http.response.body.size", int64_t(record.bytes_out));
  if (trace.calls > 1) span.number("weir.inferences", trace.calls);
}

void write_outcome(SpanWriter& span, const Exchange& x, const Trace& trace) {
  const RequestRecord& record = x.record();
  if (record.code == Code::kOk && record.status < 500) return;
  const bool by_status = !is_rpc(x) && record.status >= 500;
  span.text("error.type", by_status ? std::to_string(record.status) : std::string(base::name(record.code)));
  if (is_error(x)) span.error(trace.error);
}

}  // namespace

void RequestSpans::count() {
  if (++count_ >= kMostOfATurn) flush();
}

// A request does not fail because a span of it has found no memory.
wire::SpanId RequestSpans::add(Trace& trace, const wire::Span& span) {
  wire::SpanId id{};
  if (!base::attempt("a span", [&] { id = write_child(trace, span); }).ok()) exporter_.lost(1);
  return id;
}

wire::SpanId RequestSpans::write_child(Trace& trace, const wire::Span& span) {
  const base::Time start = std::max(span.start, trace.began), end = std::max(span.end, start);
  trace.last_end = trace.last_end == base::kNever ? end : std::max(trace.last_end, end);
  wire::SpanId id;
  const uint64_t bits = env_.random() | 1;  // an id is not all zeros
  std::memcpy(id.data(), &bits, sizeof bits);
  SpanWriter out(spans_);
  out.ids(trace, id, is_set(span.parent) ? span.parent : trace.span, SpanWriter::Parent::kLocal);
  out.head(span.name, span.kind == wire::Span::Kind::kClient ? SpanKind::kClient : SpanKind::kInternal,
           unix_ns(trace, start), unix_ns(trace, end));
  for (const auto& each : span.attributes) out.value(each.key, each.value);
  if (span.code != Code::kOk) {
    out.text("error.type", base::name(span.code));
    out.error({});
  }
  out.finish();
  count();
  return id;
}

// From the end of the last inference to the last byte that the socket has taken.
void RequestSpans::add_send(Trace& trace, base::Time end) {
  if (trace.calls > 0) add(trace, {.name = "send", .start = trace.last_end, .end = end});
}

void RequestSpans::finished(const Exchange& x) {
  if (!x.record().trace) return;
  add_send(*x.record().trace, x.now());
  if (!base::attempt("a span", [&] { write_request(x); }).ok()) exporter_.lost(1);
}

void RequestSpans::write_request(const Exchange& x) {
  const RequestRecord& record = x.record();
  const Trace& trace = *record.trace;
  // The clock stands still within a turn: what lanes have measured meanwhile may end later than it says.
  base::Time end = std::max(x.now(), trace.began + record.took(x.now()));
  if (trace.last_end != base::kNever) end = std::max(end, trace.last_end);

  using Parent = SpanWriter::Parent;
  SpanWriter span(spans_);
  span.ids(trace, trace.span, trace.parent, is_set(trace.parent) ? Parent::kRemote : Parent::kNone);
  span.head(name_of(x), SpanKind::kServer, unix_ns(trace, trace.began), unix_ns(trace, end));
  if (is_rpc(x))
    write_rpc(span, x);
  else
    write_http(span, x.request(), record);
  write_network(span, x.request());
  write_weir(span, record, trace);
  write_tokens(span, record, trace);
  for (const auto& key : baggage_)
    if (auto value = wire::baggage_value(x.request().fields, key)) span.text("baggage." + key, *value);
  if (is_set(trace.linked_trace)) span.link(trace.linked_trace, trace.linked_span);
  write_outcome(span, x, trace);
  span.finish();
  count();
}

void RequestSpans::flush() {
  if (count_ > 0) exporter_.put(spans_, std::exchange(count_, 0));
  spans_.clear();
}

}  // namespace weir::ops
