#include "app/shard_offload.h"

#include <utility>

#include "base/attempt.h"
#include "bus/offload_handle.h"
#include "marshal/tenant.h"

namespace weir::app {
namespace {

// JSON is read and written some sixteen times as fast as a prompt becomes tokens, which is what the workers' bound on
// waiting bytes is made for; the bytes themselves are charged where they lie.
constexpr size_t kLighter = 16;

struct OneTask final : wire::SentTask, bus::OffloadListener {
  OneTask(bus::Bus& bus, wire::Offload::Done d) : handle(bus, *this), done(std::move(d)) {}

  void on_task(base::Status status, std::unique_ptr<base::OffloadTask> task) override {
    auto told = std::move(done);  // it may destroy this
    // A Sink that throws gets a second Event, which would find this destroyed.
    (void)base::attempt("a task's end", [&] { told(status, std::move(task)); });
  }

  bus::OffloadHandle handle;
  wire::Offload::Done done;
};

}  // namespace

base::Result<std::unique_ptr<wire::SentTask>> ShardOffload::send(std::unique_ptr<base::OffloadTask> task, size_t bytes,
                                                                 Part part, wire::Exchange& exchange, Done done) {
  auto one = std::make_unique<OneTask>(bus_, std::move(done));
  const auto admission = part == Part::kAnswer ? bus::Admission::kGranted : bus::Admission::kAsked;
  auto status = one->handle.send(std::move(task), bytes / kLighter, no_model_, exchange.ticket(),
                                 marshal::tenant_of(exchange.request()), admission);
  if (!status.ok()) return status;
  return std::unique_ptr<wire::SentTask>(std::move(one));
}

}  // namespace weir::app
