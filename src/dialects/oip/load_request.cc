#include "dialects/oip/load_request.h"

#include "base/attempt.h"
#include "base/encoding.h"
#include "dialects/oip/settings.h"
#include "inference.pb.h"
#include "marshal/pb_wire.h"

namespace weir::oip {
namespace {

using base::invalid;
using base::Status;

constexpr uint64_t kMaxFields = 4096;  // of a message, at all depths; their values may be large

// protobuf's library makes an object of each field.
Status check_fields(std::string_view message) {
  marshal::PbFields fields(kMaxFields);
  marshal::PbCountedReader r(message, fields);
  while (r.next()) {
    if (!r.is(3, marshal::PbType::kBytes)) continue;  // a parameter: a name, and a message of one value
    marshal::PbCountedReader entry(r.bytes(), fields);
    while (entry.next()) {
      marshal::PbCountedReader value(entry.is(2, marshal::PbType::kBytes) ? entry.bytes() : std::string_view(), fields);
      while (value.next()) {
      }
    }
  }
  if (fields.exceeded()) return invalid("more than 4096 fields in RepositoryModelLoadRequest");
  return r.ok() ? Status() : invalid("malformed RepositoryModelLoadRequest");
}

}  // namespace

Status read_load_json(std::string_view body, LoadRequest& out) {
  auto parameters = read_parameters(body);
  if (!parameters) return parameters.error();
  for (auto& [key, value] : *parameters) {
    auto* text = std::get_if<std::string>(&value);
    if (!text) return invalid("load parameter '" + key + "' takes a string");
    if (!key.starts_with("file:")) {
      out.parameters[key] = std::move(*text);
      continue;
    }
    auto bytes = base::base64_decode(*text);
    if (!bytes) return invalid("load parameter '" + key + "' is not base64");
    out.parameters[key] = *std::move(bytes);
  }
  return {};
}

Status read_load_message(std::string_view message, LoadRequest& out) {
  if (Status status = check_fields(message); !status.ok()) return status;
  inference::RepositoryModelLoadRequest request;
  const bool parsed = request.ParseFromArray(message.data(), int(message.size()));
  out.model = std::move(*request.mutable_model_name());
  if (!parsed) return invalid("malformed RepositoryModelLoadRequest");
  for (auto& [key, value] : *request.mutable_parameters()) {
    if (!value.has_string_param() && !value.has_bytes_param())
      return invalid("load parameter '" + key + "' takes a string or bytes");
    out.parameters[key] =
        std::move(value.has_string_param() ? *value.mutable_string_param() : *value.mutable_bytes_param());
  }
  return {};
}

// Runs on a worker's thread, where nothing catches exceptions: they become a Status here.
void ReadLoad::run() {
  Status thrown = base::attempt("reading a load request", [this] { status = read_(body_.view(), request); });
  if (!thrown.ok()) status = std::move(thrown);
}

}  // namespace weir::oip
