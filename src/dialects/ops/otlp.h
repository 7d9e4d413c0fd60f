// OTLP: spans in the protobuf form that OpenTelemetry collectors take. Pure. Field numbers are those of
// opentelemetry-proto 1.x, trace/v1/trace.proto, common/v1/common.proto, resource/v1/resource.proto and
// collector/trace/v1/trace_service.proto:
//
//   ExportTraceServiceRequest  1 resource_spans*
//   ResourceSpans              1 resource   2 scope_spans*
//   Resource                   1 attributes*
//   ScopeSpans                 1 scope (1 name, 2 version)   2 spans*
//   Span                       1 trace_id   2 span_id   3 trace_state   4 parent_span_id   5 name   6 kind
//                              7 start_time_unix_nano (fixed64)   8 end_time_unix_nano (fixed64)   9 attributes*
//                              13 links* (1 trace_id, 2 span_id, 6 flags fixed32)   15 status (2 message, 3 code)
//                              16 flags (fixed32): W3C's in the low byte, 0x100: the next bit is known, 0x200: the
//                              parent is remote
//   KeyValue                   1 key   2 value: AnyValue
//   AnyValue                   1 string   2 bool   3 int (varint)   4 double   5 array (1 values*)
//   ExportTraceServiceResponse 1 partial_success (1 rejected_spans, 2 error_message)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/trace.h"

namespace weir::ops {

enum class SpanKind : uint8_t { kInternal = 1, kServer = 2, kClient = 3 };

// One Span, field by field, at the end of a string that grows: a batch is such spans in a row.
class SpanWriter {
 public:
  // Texts are cut to this, and made UTF-8: collectors refuse a whole request for one that is not.
  static constexpr size_t kLongestText = 256;

  // `spans` is appended to; nothing else may be until finish().
  explicit SpanWriter(std::string& spans);

  enum class Parent : uint8_t { kNone, kLocal, kRemote };
  void ids(const wire::Trace& trace, const wire::SpanId& span, const wire::SpanId& parent, Parent kind);
  void head(std::string_view name, SpanKind kind, int64_t start_unix_ns, int64_t end_unix_ns);
  // Attributes. Empty texts are left out.
  void value(std::string_view key, const wire::SpanValue& value);
  void text(std::string_view key, std::string_view text) { value(key, text); }
  void number(std::string_view key, int64_t number) { value(key, number); }
  void list(std::string_view key, std::string_view only);  // an array of one text
  void link(const wire::TraceId& trace, const wire::SpanId& span);
  void error(std::string_view message);
  // Sets the lengths in front.
  void finish();

 private:
  std::string& out_;
  std::string body_;
};

using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;
// A whole ExportTraceServiceRequest: `spans` is what SpanWriters have written.
std::string export_request(const ResourceAttributes& resource, std::string_view version, std::string_view spans);

// An ExportTraceServiceResponse: how many spans the collector has refused, and why. What is malformed says nothing.
struct PartialSuccess {
  uint64_t rejected = 0;
  std::string why;
};
PartialSuccess read_export_response(std::string_view message);

}  // namespace weir::ops
