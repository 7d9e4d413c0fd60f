#include "engines/forward/oip/probe.h"

#include <utility>

#include "base/units.h"
#include "engines/forward/oip/message.h"

namespace weir::forward {
namespace {

constexpr uint64_t kLargestProbe = 4 << 20;  // a configuration of thousands of labels is less

}  // namespace

Probe::Probe(net::Shard& shard, OriginConn& conn)
    : GrpcCall(base::heap(), kLargestProbe), shard_(shard), conn_to_(conn) {}

Probe::~Probe() {
  shard_.env().cancel(timer_);
  cancel();
}

void Probe::ask(std::string_view path, base::Bytes request, base::Duration timeout, Then then) {
  then_ = std::move(then);
  message_ = {};
  timer_ = shard_.env().at(shard_.env().now() + timeout, [this, timeout] {
    timer_ = base::TimerId::kNone;
    give_up_late(
        base::failure(base::Code::kDeadlineExceeded, "it has not answered within " + base::show_duration(timeout)));
  });
  std::vector<base::Bytes> body;
  body.push_back(std::move(request));
  base::Status status = start(conn_to_, path, std::move(body), {});
  if (!status.ok()) on_over(std::move(status), From::kUnsent);
}

GrpcCall::Next Probe::on_message(base::Bytes message) {
  message_ = std::move(message);
  return Next::kGoOn;
}

void Probe::on_over(base::Status status, From) {
  if (status.ok()) return tell(std::move(message_));
  status.text = "origin " + conn_to_.origin().name() + ": " + status.text;
  tell(std::move(status));
}

void Probe::tell(base::Result<base::Bytes> answer) {
  shard_.env().cancel(std::exchange(timer_, base::TimerId::kNone));
  std::exchange(then_, nullptr)(std::move(answer));
}

}  // namespace weir::forward
