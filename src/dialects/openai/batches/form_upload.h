// FormUpload: a form of which one part's octets are kept (kept_body.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dialects/openai/batches/kept_body.h"
#include "marshal/multipart.h"

namespace weir::openai::batches {

// The boundary of the request's form; nothing, and the request is answered, where there is no journal, or it is no
// form.
std::optional<std::string> begin_form(OpenAiState& state, wire::Exchange& exchange);

class FormUpload : public KeptBody, marshal::PartListener {
 public:
  // `field`: of the part whose octets are kept.
  FormUpload(OpenAiState& state, wire::Exchange& exchange, const std::string& boundary, std::string_view field,
             std::string_view prefix, Bound bound);

 protected:
  // Another part of the form. Errors end the upload.
  virtual base::Status on_field(std::string_view name, const std::string& value) = 0;
  // The form is whole, and its file is not empty.
  virtual base::Status on_form() = 0;

 private:
  base::Status read(std::string_view piece) override { return reader_.read(piece); }
  base::Status finish() override;
  // marshal::PartListener
  base::Status on_part(marshal::PartHead head) override;
  base::Status on_octets(std::string_view octets) override;
  base::Status on_part_end() override;

  const std::string_view kept_;
  marshal::MultipartReader reader_;
  std::string field_, value_;  // the part that is read
  bool has_file_ = false;
};

}  // namespace weir::openai::batches
