#include "dialects/oip/inference.h"

#include "marshal/check.h"
#include "marshal/tenant.h"
#include "marshal/times.h"

namespace weir::oip {

using base::Status;

Status Inference::find() {
  auto found = house_.bus.catalog().find(call().model, call().version);
  if (!found) return std::move(found).error();
  served_ = *found;
  exchange_.ledger().model = served_->spec.name;
  return {};
}

Status Inference::start() {
  Status status = served_ ? Status{} : find();
  if (status.ok()) status = marshal::check_call(served_->spec, call());
  if (status.ok()) {
    call().version = served_->spec.version;
    call().tenant = marshal::tenant_of(exchange_.request());
    status = call_.submit(*served_, *this, exchange_.ticket());
  }
  if (status.ok()) return {};
  if (served_) house_.traces.finished(call(), protocol_, status.code);
  leave();
  return status;
}

void Inference::on(msg::Call& call, msg::Event&& event) {
  bool last = call_.ended(event);
  if (auto* outputs = std::get_if<msg::Outputs>(&event.what)) {
    Status status = answer(call, *outputs, last ? More::kNo : More::kYes);
    if (!status.ok() && !last) leave();
    if (last || !status.ok()) close(call, std::move(status));
  } else if (auto* failed = std::get_if<msg::Failed>(&event.what)) {
    close(call, std::move(failed->status));
  } else if (last) {
    close(call, {});
  }
}

Status Inference::answer(msg::Call& call, msg::Outputs& outputs, More more) {
  Status status = grant(served_->spec, call, wishes, outputs, forms_);
  if (status.ok())
    for (const auto& tensor : outputs.tensors)
      if (status = marshal::check_data(tensor, "output"); !status.ok()) {
        status.code = base::Code::kInternal;  // the engine's fault, not the client's
        break;
      }
  if (!status.ok()) return status;
  answered({call.model, call.version, call.id, outputs.parameters, outputs.tensors}, forms_, more);
  return {};
}

void Inference::close(const msg::Call& call, Status status) {
  marshal::note(exchange_.ledger(), call);
  house_.traces.finished(call, protocol_, status.code);
  ended(call, std::move(status));
}

}  // namespace weir::oip
