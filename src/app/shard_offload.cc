#include "app/shard_offload.h"

#include <utility>

#include "base/attempt.h"
#include "marshal/tenant.h"

namespace weir::app {
namespace {

// JSON is read and written some sixteen times as fast as a prompt becomes tokens, which is what the workers' bound on
// waiting bytes is made for; the bytes themselves are charged where they lie.
constexpr size_t kLighter = 16;

class OneTask final : public wire::SentTask, public msg::Sink {
 public:
  OneTask(bus::Bus& bus, wire::Offload::Done done) : bus_(bus), done_(std::move(done)) {}
  ~OneTask() override {
    if (call_) bus_.abandon(call_);
  }

  base::Status send(std::unique_ptr<base::OffloadTask> task, size_t bytes, bus::Served& served,
                    wire::Exchange& exchange, bus::Admission admission) {
    auto sent = bus_.send(std::move(task), bytes, served, *this, exchange.ticket(),
                          marshal::tenant_of(exchange.request()), admission);
    if (!sent) return std::move(sent).error();
    call_ = *sent;
    return {};
  }

 private:
  void on(msg::Call& call, msg::Event&& event) override {
    call_ = nullptr;
    auto done = std::move(done_);  // whoever is told may destroy this
    auto task = bus_.take(call);
    auto* failed = std::get_if<msg::Failed>(&event.what);
    // A second Event, as a Sink gets that throws, might find nobody here.
    (void)base::attempt("a task's end", [&] { done(failed ? failed->status : base::Status(), std::move(task)); });
  }

  bus::Bus& bus_;
  wire::Offload::Done done_;
  msg::Call* call_ = nullptr;
};

}  // namespace

base::Result<std::unique_ptr<wire::SentTask>> ShardOffload::send(std::unique_ptr<base::OffloadTask> task, size_t bytes,
                                                                 Part part, wire::Exchange& exchange, Done done) {
  auto one = std::make_unique<OneTask>(bus_, std::move(done));
  const auto admission = part == Part::kAnswer ? bus::Admission::kGranted : bus::Admission::kAsked;
  auto status = one->send(std::move(task), bytes / kLighter, no_model_, exchange, admission);
  if (!status.ok()) return status;
  return std::unique_ptr<wire::SentTask>(std::move(one));
}

}  // namespace weir::app
