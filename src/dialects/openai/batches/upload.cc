// POST /files.
#include <algorithm>

#include "base/units.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "dialects/openai/batches/form_upload.h"

namespace weir::openai::batches {
namespace {

using base::Status;

class FileUpload final : public FormUpload {
 public:
  FileUpload(OpenAiState& state, wire::Exchange& exchange, const std::string& boundary)
      : FormUpload(state, exchange, boundary, "file", "file-", largest_file(state.options.jobs->limits())),
        ttl_(journal().limits().file_ttl) {}

 private:
  Status on_field(std::string_view name, const std::string& value) override {
    if (name == "purpose") purpose_ = value;
    if (name == "expires_after[anchor]") {
      anchored_ = true;
      if (value != "created_at") return base::invalid("expires_after.anchor must be created_at");
    }
    if (name != "expires_after[seconds]") return {};
    timed_ = true;
    auto seconds = base::parse_count(value);
    if (!seconds || *seconds < kShortestTtl || *seconds > kLongestTtl)
      return base::invalid("expires_after.seconds must be 3600 to 2592000");
    ttl_ = std::min<base::Duration>(ttl_, std::chrono::seconds(*seconds));
    return {};
  }
  Status on_form() override {
    if (purpose_ != kForBatches) return base::invalid("purpose must be batch: files are kept for batches alone");
    if (anchored_ != timed_) return base::invalid("expires_after takes the anchor created_at, and seconds");
    file().purpose = purpose_;
    file().expires = file().created + ttl_;
    return {};
  }
  void answer() override { respond_json(exchange(), file_json(file())); }

  std::string purpose_;
  base::Duration ttl_;
  bool anchored_ = false, timed_ = false;  // expires_after has an anchor, and seconds
};

}  // namespace

void upload(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  if (auto boundary = begin_form(state, exchange))
    exchange.attach(std::make_unique<FileUpload>(state, exchange, *boundary));
}

}  // namespace weir::openai::batches
