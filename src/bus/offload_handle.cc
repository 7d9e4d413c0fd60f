#include "bus/offload_handle.h"

#include <utility>

namespace weir::bus {

base::Status OffloadHandle::send(std::unique_ptr<OffloadTask> task, size_t bytes, Served& served, base::Ticket ticket,
                                 uint64_t tenant, Admission admission) {
  auto sent = bus_.send(std::move(task), bytes, served, *this, std::move(ticket), tenant, admission);
  if (!sent) return std::move(sent).error();
  call_ = *sent;
  return {};
}

void OffloadHandle::abandon() {
  if (auto* call = std::exchange(call_, nullptr)) bus_.abandon(call);
}

void OffloadHandle::on(msg::Call& call, msg::Event&& event) {
  call_ = nullptr;
  auto* failed = std::get_if<msg::Failed>(&event.what);
  if (failed) return listener_.on_task(std::move(failed->status), nullptr);
  listener_.on_task({}, bus_.take(call));  // may destroy this
}

}  // namespace weir::bus
