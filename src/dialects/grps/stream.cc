#include "dialects/grps/stream.h"

#include "wire/sse.h"

namespace weir::grps {
namespace {

std::string_view type_of(StreamFormat format) {
  if (format == StreamFormat::kNdjson) return "application/x-ndjson";
  return format == StreamFormat::kSse ? wire::kSseType : "application/octet-stream";
}

}  // namespace

void PartWriter::open(std::string_view content_type) {
  if (exchange_.responding()) return;
  const Options& options = house_.options;
  if (content_type.empty()) content_type = options.stream_content_type;
  if (content_type.empty()) content_type = type_of(options.stream_format);
  wire::Response response;
  response.fields.add("content-type", content_type);
  response.fields.add("cache-control", "no-cache");
  response.fields.add("x-accel-buffering", "no");
  exchange_.head(std::move(response));
}

void PartWriter::part(const base::Status& status, const Message& message) {
  open();
  std::string out;
  switch (house_.options.stream_format) {
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
  exchange_.ledger().code = status.code;
  open();
  if (!status.ok()) part(status, {});
  exchange_.end();
}

}  // namespace weir::grps
