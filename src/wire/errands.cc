#include "wire/errands.h"

#include <utility>

#include "wire/service_guard.h"

namespace weir::wire {
namespace {

// In the place of the Reader to come.
class Awaiting final : public Reader {
 public:
  void on_close(Exchange&, bool) override { sent = nullptr; }
  std::unique_ptr<SentErrand> sent;
};

}  // namespace

void send_away(Errands& errands, std::unique_ptr<base::Errand> errand, size_t bytes, Errands::Part part,
               Exchange& exchange, Errands::Done then) {
  auto reader = std::make_unique<Awaiting>();
  Awaiting& awaiting = *reader;
  exchange.attach(std::move(reader));
  auto told = [&exchange, then](const base::Status& status, std::unique_ptr<base::Errand> done) {
    guarded(exchange, [&] { then(status, std::move(done)); });
  };
  auto sent = errands.send(std::move(errand), bytes, part, exchange, std::move(told));
  if (!sent) return then(sent.error(), nullptr);
  awaiting.sent = std::move(*sent);
}

}  // namespace weir::wire
