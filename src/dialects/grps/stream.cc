#include "dialects/grps/stream.h"

#include "base/attempt.h"
#include "dialects/grps/form_data.h"
#include "dialects/grps/json_pointer.h"
#include "wire/accept.h"
#include "wire/service_guard.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::grps {
namespace {

constexpr std::string_view kNdjsonType = "application/x-ndjson";

std::string_view stream_type(StreamFormat format) {
  if (format == StreamFormat::kNdjson) return kNdjsonType;
  return format == StreamFormat::kSse ? wire::kSseType : "application/octet-stream";
}

base::Bytes json_part(StreamFormat format, const base::Status& status, const Message& message) {
  std::string out;
  switch (format) {
    case StreamFormat::kGrps: out = write_json(status, message); break;
    case StreamFormat::kNdjson: out = write_json(status, message, Layout::kLine) + '\n'; break;
    case StreamFormat::kSse: wire::append_sse(out, write_json(status, message, Layout::kLine)); break;
  }
  return base::Bytes::adopt(std::move(out));
}

}  // namespace

bool is_true(std::string_view value) { return wire::same_text(value, "true") || value == "1" || value == "\"true\""; }

BodyForm body_form(const wire::Request& request) {
  std::string_view type = request.fields.find("content-type");
  type = wire::trim(type.substr(0, type.find(';')));
  if (type.empty() || wire::same_text(type, "application/json")) return BodyForm::kJson;
  return wire::same_text(type, "application/octet-stream") ? BodyForm::kOctets : BodyForm::kOther;
}

base::Result<Delivery> read_delivery(std::string_view control, const wire::Request& request, std::string_view body) {
  auto delivery = [](std::string_view value) { return is_true(value) ? Delivery::kStream : Delivery::kOne; };
  size_t colon = control.find(':');
  if (colon == control.npos) return Delivery::kOne;
  std::string_view where = control.substr(0, colon);
  std::string key(control.substr(colon + 1));
  if (where == "query_param") return delivery(query_field(request.query(), key));
  if (where == "header_param") {
    wire::make_lower(key.data(), key.size());
    return delivery(request.fields.find(key));
  }
  // Other bodies, and requests without one, have no field that could ask for a stream.
  if (body_form(request) != BodyForm::kJson || body.empty()) return Delivery::kOne;
  if (key[0] != '/') key.insert(0, 1, '/');
  auto found = find_value(body, key);
  if (!found) return found.error();
  return delivery(*found);
}

StreamFormat stream_format(const wire::Request& request) {
  const std::string_view accept = request.fields.find("accept");
  if (wire::accepts(accept, wire::kSseName)) return StreamFormat::kSse;
  return wire::accepts(accept, kNdjsonType) ? StreamFormat::kNdjson : StreamFormat::kGrps;
}

void PartWriter::open() {
  if (exchange_.responding()) return;
  exchange_.head(wire::stream_head(content_type_.empty() ? stream_type(format_) : content_type_));
}

base::Status PartWriter::send(base::Bytes part) {
  open();
  exchange_.body(std::move(part));
  return {};
}

base::Status PartWriter::add(Message message) {
  if (message.kind == Kind::kBin && format_ == StreamFormat::kGrps)
    return add(0, [data = std::move(message.data)] { return data; });
  const uint64_t most = most_json(message);
  return add(most, [format = format_, message = std::move(message)] { return json_part(format, {}, message); });
}

base::Status PartWriter::enqueue(uint64_t most, wire::MakeBody make) {
  waiting_.push_back({most, std::move(make)});
  if (sent_) return {};
  base::Status s;
  auto thrown = base::attempt("writing a part", [&] { s = write_first(); });
  if (!thrown.ok()) s = std::move(thrown);
  if (!s.ok()) waiting_.clear();
  return s;
}

base::Status PartWriter::write_first() {
  Part& part = waiting_.front();
  auto write = std::make_unique<wire::WriteBody>(exchange_, std::move(part.make));
  if (!write->reserve(part.most)) return wire::no_room_for_answer();
  auto done = [this](const base::Status& status, std::unique_ptr<base::OffloadTask> task) {
    sent_ = nullptr;
    wire::guarded(exchange_, [&] { on_task(status, task.get()); });
  };
  auto sent = state_.options.offload->send(std::move(write), part.most, wire::Offload::Part::kAnswer, exchange_,
                                           std::move(done));
  if (!sent) return sent.error();
  sent_ = std::move(*sent);
  return {};
}

void PartWriter::on_task(const base::Status& status, base::OffloadTask* task) {
  waiting_.pop_front();
  auto part = status.ok() ? static_cast<wire::WriteBody&>(*task).body() : base::Result<base::Bytes>(status);
  base::Status s = part ? send(*std::move(part)) : part.error();
  if (s.ok() && busy()) s = write_first();
  if (s.ok() && busy()) return;
  waiting_.clear();
  s.ok() ? listener_.on_parts_written() : listener_.on_part_failed(std::move(s));
}

void PartWriter::end(const base::Status& status) {
  end(status, status.ok() ? base::Bytes() : json_part(format_, status, {}));
}

void PartWriter::end(const base::Status& status, base::Bytes failure) {
  exchange_.record().set_outcome(status);
  open();
  if (!failure.empty()) exchange_.body(std::move(failure));
  exchange_.end();
}

void PartWriter::stop() {
  sent_ = nullptr;
  waiting_.clear();
}

}  // namespace weir::grps
