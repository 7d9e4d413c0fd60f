#include "dialects/openai/batches/form_upload.h"

#include "base/encoding.h"
#include "base/overload.h"
#include "dialects/openai/batches/batches.h"

namespace weir::openai::batches {

using base::Status;

namespace {

constexpr size_t kMostFieldBytes = 4 << 10, kMostName = 255;

}  // namespace

std::optional<std::string> begin_form(OpenAiState& state, wire::Exchange& exchange) {
  if (!journal_of(state, exchange)) return std::nullopt;
  const std::string_view type = exchange.request().fields.find("content-type");
  base::Result<std::string> boundary = base::invalid("a file is sent as multipart/form-data");
  if (marshal::media_type(type) == "multipart/form-data") boundary = marshal::boundary_of(type);
  if (boundary) return *std::move(boundary);
  respond(exchange, refuse(boundary.error()));
  return std::nullopt;
}

FormUpload::FormUpload(OpenAiState& state, wire::Exchange& exchange, const std::string& boundary,
                       std::string_view field, std::string_view prefix, Bound bound)
    : KeptBody(state, exchange, prefix, std::move(bound)), kept_(field), reader_(boundary, *this) {}

Status FormUpload::finish() {
  if (Status s = reader_.finish(); !s.ok()) return s;
  if (!has_file_) return base::invalid("the form has no part named " + std::string(kept_));
  if (file().bytes == 0) return base::invalid("the file is empty");
  return on_form();
}

Status FormUpload::on_part(marshal::PartHead head) {
  field_ = std::move(head.name);
  value_.clear();
  if (field_ != kept_) return {};
  if (has_file_) return base::invalid("the form has more than one part named " + std::string(kept_));
  has_file_ = true;
  file().name = base::presentable(head.filename.empty() ? "file" : head.filename, kMostName);
  return {};
}

Status FormUpload::on_octets(std::string_view octets) {
  if (field_ == kept_) return keep(octets);
  if (value_.size() + octets.size() > kMostFieldBytes)
    return base::invalid("the field '" + std::string(base::cut_text(field_, 64)) + "' is too long");
  if (!charge().take(octets.size())) return base::overloaded("there is no memory for the upload; try again later");
  value_ += octets;
  return {};
}

Status FormUpload::on_part_end() {
  if (field_ == kept_) return {};
  charge().give(value_.size());
  return on_field(field_, value_);
}

}  // namespace weir::openai::batches
