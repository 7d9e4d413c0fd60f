#include "dialects/grps/stream.h"

#include "dialects/grps/form.h"
#include "dialects/grps/pointer.h"
#include "wire/accept.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

constexpr std::string_view kNdjsonType = "application/x-ndjson";

std::string_view stream_type(StreamFormat format) {
  if (format == StreamFormat::kNdjson) return kNdjsonType;
  return format == StreamFormat::kSse ? wire::kSseType : "application/octet-stream";
}

}  // namespace

bool says_true(std::string_view value) { return wire::same_text(value, "true") || value == "1" || value == "\"true\""; }

BodyForm body_form(const wire::Request& request) {
  std::string_view type = request.fields.find("content-type");
  type = wire::trim(type.substr(0, type.find(';')));
  if (type.empty() || wire::same_text(type, "application/json")) return BodyForm::kJson;
  return wire::same_text(type, "application/octet-stream") ? BodyForm::kOctets : BodyForm::kOther;
}

base::Result<bool> wants_stream(std::string_view control, const wire::Exchange& exchange) {
  const wire::Request& request = exchange.request();
  size_t colon = control.find(':');
  if (colon == control.npos) return false;
  std::string_view where = control.substr(0, colon);
  std::string key(control.substr(colon + 1));
  if (where == "query_param") return says_true(query_field(request.query(), key));
  if (where == "header_param") {
    wire::make_lower(key.data(), key.size());
    return says_true(request.fields.find(key));
  }
  // Other bodies, and requests without one, have no field that could ask for a stream.
  if (body_form(request) != BodyForm::kJson || exchange.content().empty()) return false;
  if (key[0] != '/') key.insert(0, 1, '/');
  auto found = find_value(exchange.content().view(), key);
  if (!found) return found.error();
  return says_true(*found);
}

StreamFormat stream_format(const wire::Request& request) {
  const std::string_view accept = request.fields.find("accept");
  if (wire::accepts(accept, wire::kSseName)) return StreamFormat::kSse;
  return wire::accepts(accept, kNdjsonType) ? StreamFormat::kNdjson : StreamFormat::kGrps;
}

void PartWriter::open(std::string_view content_type) {
  if (exchange_.responding()) return;
  if (content_type.empty()) content_type = stream_type(format_);
  wire::Response response;
  response.fields.add("content-type", content_type);
  response.fields.add("cache-control", "no-cache");
  response.fields.add("x-accel-buffering", "no");
  exchange_.head(std::move(response));
}

void PartWriter::part(const base::Status& status, const Message& message) {
  open();
  std::string out;
  switch (format_) {
    case StreamFormat::kGrps:
      if (status.ok() && message.kind == Kind::kBin) return exchange_.body(message.data);
      out = write_json(status, message);
      break;
    case StreamFormat::kNdjson: out = write_json(status, message, Layout::kLine) + '\n'; break;
    case StreamFormat::kSse: wire::append_sse(out, write_json(status, message, Layout::kLine)); break;
  }
  exchange_.body(base::Bytes::adopt(std::move(out)));
}

void PartWriter::end(const base::Status& status) {
  exchange_.record().code = status.code;
  open();
  if (!status.ok()) part(status, {});
  exchange_.end();
}

}  // namespace weir::grps
