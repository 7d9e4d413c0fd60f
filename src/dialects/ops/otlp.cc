#include "dialects/ops/otlp.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/encoding.h"
#include "marshal/json_cursor.h"
#include "marshal/pb_wire.h"

namespace weir::ops {
namespace {

using marshal::PbType;
using marshal::put_bytes;
using marshal::put_tag;
using marshal::put_varint;

constexpr uint32_t kFlagsKnown = 0x100, kRemoteParent = 0x200;
constexpr uint64_t kError = 2;  // Status.code

void put_fixed(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += char(value >> (8 * i) & 0xff);
}

void put_fixed64(std::string& out, uint32_t field, uint64_t value) {
  put_tag(out, field, PbType::kFixed64);
  put_fixed(out, value, 8);
}

void put_fixed32(std::string& out, uint32_t field, uint32_t value) {
  put_tag(out, field, PbType::kFixed32);
  put_fixed(out, value, 4);
}

void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_tag(out, field, PbType::kVarint);
  put_varint(out, value);
}

template <size_t N>
std::string_view bytes_of(const std::array<uint8_t, N>& id) {
  return {reinterpret_cast<const char*>(id.data()), N};
}

std::string any_value(const wire::SpanValue& value) {
  std::string out;
  if (auto* text = std::get_if<std::string_view>(&value))
    put_bytes(out, 1, *text);
  else if (auto* truth = std::get_if<bool>(&value))
    put_number(out, 2, *truth);
  else if (auto* whole = std::get_if<int64_t>(&value))
    put_number(out, 3, uint64_t(*whole));
  else
    put_fixed64(out, 4, std::bit_cast<uint64_t>(std::get<double>(value)));
  return out;
}

void put_key_value(std::string& out, uint32_t field, std::string_view key, std::string_view any) {
  using marshal::varint_size;
  const size_t size = 2 + varint_size(key.size()) + key.size() + varint_size(any.size()) + any.size();
  put_tag(out, field, PbType::kBytes);
  put_varint(out, size);
  put_bytes(out, 1, key);
  put_bytes(out, 2, any);
}

// `use` is called with the text as it may stand in a string of protobuf.
template <class F>
void with_text(std::string_view text, F use) {
  text = base::cut_text(text, SpanWriter::kLongestText);
  if (marshal::valid_utf8(text))
    use(text);
  else
    use(std::string_view(base::presentable(text, SpanWriter::kLongestText)));
}

}  // namespace

SpanWriter::SpanWriter(std::string& spans) : out_(spans) { body_.reserve(512); }

void SpanWriter::ids(const wire::Trace& trace, const wire::SpanId& span, const wire::SpanId& parent, Parent kind) {
  put_bytes(body_, 1, bytes_of(trace.id));
  put_bytes(body_, 2, bytes_of(span));
  marshal::put_text(body_, 3, trace.state);
  if (kind != Parent::kNone) put_bytes(body_, 4, bytes_of(parent));
  put_fixed32(body_, 16, trace.flags | kFlagsKnown | (kind == Parent::kRemote ? kRemoteParent : 0));
}

void SpanWriter::head(std::string_view name, SpanKind kind, int64_t start_unix_ns, int64_t end_unix_ns) {
  with_text(name, [this](std::string_view text) { put_bytes(body_, 5, text); });
  put_number(body_, 6, uint64_t(kind));
  put_fixed64(body_, 7, uint64_t(start_unix_ns));
  put_fixed64(body_, 8, uint64_t(std::max(end_unix_ns, start_unix_ns)));
}

void SpanWriter::value(std::string_view key, const wire::SpanValue& value) {
  auto* text = std::get_if<std::string_view>(&value);
  if (!text) return put_key_value(body_, 9, key, any_value(value));
  if (!text->empty()) with_text(*text, [&](std::string_view t) { put_key_value(body_, 9, key, any_value(t)); });
}

void SpanWriter::list(std::string_view key, std::string_view only) {
  std::string values, any;
  put_bytes(values, 1, any_value(only));
  put_bytes(any, 5, values);
  put_key_value(body_, 9, key, any);
}

void SpanWriter::link(const wire::TraceId& trace, const wire::SpanId& span) {
  std::string link;
  put_bytes(link, 1, bytes_of(trace));
  put_bytes(link, 2, bytes_of(span));
  put_fixed32(link, 6, kFlagsKnown | kRemoteParent);
  put_bytes(body_, 13, link);
}

void SpanWriter::error(std::string_view message) {
  std::string status;
  with_text(message, [&status](std::string_view text) { marshal::put_text(status, 2, text); });
  put_number(status, 3, kError);
  put_bytes(body_, 15, status);
}

// A span is appended whole or, for want of memory, not at all.
void SpanWriter::finish() {
  const size_t size = out_.size() + body_.size() + 16;
  if (size > out_.capacity()) out_.reserve(std::max(size, 2 * out_.capacity()));
  put_bytes(out_, 2, body_);
  body_.clear();
}

std::string export_request(const ResourceAttributes& resource, std::string_view version, std::string_view spans) {
  std::string attributes, scope, out;
  for (const auto& [key, value] : resource) put_key_value(attributes, 1, key, any_value(std::string_view(value)));
  put_bytes(scope, 1, "weir");
  marshal::put_text(scope, 2, version);

  using marshal::varint_size;
  const size_t scope_spans = 1 + varint_size(scope.size()) + scope.size() + spans.size();
  const size_t resource_spans =
      1 + varint_size(attributes.size()) + attributes.size() + 1 + varint_size(scope_spans) + scope_spans;
  out.reserve(resource_spans + 16);
  put_tag(out, 1, PbType::kBytes);
  put_varint(out, resource_spans);
  put_bytes(out, 1, attributes);
  put_tag(out, 2, PbType::kBytes);
  put_varint(out, scope_spans);
  put_bytes(out, 1, scope);
  return out += spans;
}

PartialSuccess read_export_response(std::string_view message) {
  PartialSuccess out;
  marshal::PbReader response(message);
  while (response.next()) {
    if (!response.is(1, PbType::kBytes)) continue;
    marshal::PbReader partial(response.bytes());
    while (partial.next()) {
      if (partial.is(1, PbType::kVarint))
        out.rejected = std::min<uint64_t>(partial.number(), std::numeric_limits<uint32_t>::max());
      else if (partial.is(2, PbType::kBytes))
        out.why = base::presentable(partial.bytes(), SpanWriter::kLongestText);
    }
  }
  return response.ok() ? out : PartialSuccess{};
}

}  // namespace weir::ops
