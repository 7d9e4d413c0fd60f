#include "wire/offload.h"

#include <utility>

#include "wire/service_guard.h"

namespace weir::wire {
namespace {

// The ExchangeListener while a worker has the task.
class Awaiting final : public ExchangeListener {
 public:
  void on_close(Exchange&, bool) override { sent = nullptr; }
  std::unique_ptr<SentTask> sent;
};

}  // namespace

void run_on_worker(Offload& offload, std::unique_ptr<base::OffloadTask> task, size_t bytes, Offload::Part part,
                   Exchange& exchange, Offload::Done then) {
  auto reader = std::make_unique<Awaiting>();
  Awaiting& awaiting = *reader;
  exchange.attach(std::move(reader));
  auto told = [&exchange, then](const base::Status& status, std::unique_ptr<base::OffloadTask> done) {
    guarded(exchange, [&] { then(status, std::move(done)); });
  };
  auto sent = offload.send(std::move(task), bytes, part, exchange, std::move(told));
  if (!sent) return then(sent.error(), nullptr);
  awaiting.sent = std::move(*sent);
}

}  // namespace weir::wire
