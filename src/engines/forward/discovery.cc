#include "engines/forward/discovery.h"

#include <utility>

#include "engines/forward/oip_message.h"

namespace weir::forward {

using base::Bytes;
using base::Code;
using base::Result;
using base::Status;

namespace {

constexpr std::string_view kModelReady = "/inference.GRPCInferenceService/ModelReady";
constexpr std::string_view kMetadata = "/inference.GRPCInferenceService/ModelMetadata";
constexpr std::string_view kConfig = "/inference.GRPCInferenceService/ModelConfig";
constexpr auto kPatience = std::chrono::seconds(2);  // for an answer; loads of other models wait meanwhile

}  // namespace

Discovery::Discovery(net::Shard& shard, std::shared_ptr<Target> target, msg::ModelSpec wanted, Then then)
    : shard_(shard), target_(std::move(target)), wanted_(std::move(wanted)), then_(std::move(then)) {}

void Discovery::ask_next() {
  if (next_ == target_->origins.size()) {
    const bool nonsense = code_ == Code::kInternal;
    return then_(nonsense ? base::failure(code_, reasons_) : base::try_again(Code::kUnavailable, reasons_));
  }
  probe_.reset();
  conn_ = std::make_unique<OriginConn>(shard_, *target_, target_->origins[next_++]);
  probe_ = std::make_unique<Probe>(shard_, *conn_);
  spec_ = wanted_;
  const auto& options = target_->options;
  probe_->ask(kModelReady, write_name(options.model, options.version), options.connect_timeout + kPatience,
              [this](Result<Bytes> answer) { heard_ready(std::move(answer)); });
}

void Discovery::failed(const Status& why) {
  reasons_ += (reasons_.empty() ? "" : "; ") + why.text;
  if (why.code == Code::kInternal) code_ = Code::kInternal;
  conn_->origin().eject();
  // The probe that says so is still on the stack.
  shard_.post([this] { ask_next(); });
}

void Discovery::heard_ready(Result<Bytes> answer) {
  if (!answer) return failed(answer.error());
  const std::string origin = "origin " + conn_->origin().name + ": ";
  const Result<bool> ready = read_ready(answer->view());
  if (!ready) return failed(base::failure(ready.error().code, origin + ready.error().text));
  if (!*ready) return failed(base::failure(Code::kUnavailable, origin + "the model is not ready there"));
  const auto& options = target_->options;
  probe_->ask(kMetadata, write_name(options.model, options.version), kPatience,
              [this](Result<Bytes> metadata) { heard_metadata(std::move(metadata)); });
}

void Discovery::heard_metadata(Result<Bytes> answer) {
  Status status = answer ? read_metadata(answer->view(), spec_) : answer.error();
  if (answer && !status.ok()) status.text = "origin " + conn_->origin().name + ": " + status.text;
  if (!status.ok()) return failed(status);
  const auto& options = target_->options;
  probe_->ask(kConfig, write_name(options.model, options.version), kPatience,
              [this](Result<Bytes> config) { heard_config(std::move(config)); });
}

// A server without configurations (KServe's, OVMS) says all in its metadata: shapes are whole then.
void Discovery::heard_config(Result<Bytes> answer) {
  if (!answer && answer.error().code != Code::kUnimplemented) return failed(answer.error());
  Status status = answer ? read_config(answer->view(), spec_) : Status();
  if (!status.ok()) {
    status.text = "origin " + conn_->origin().name + ": " + status.text;
    return failed(status);
  }
  then_(std::move(spec_));
}

}  // namespace weir::forward
