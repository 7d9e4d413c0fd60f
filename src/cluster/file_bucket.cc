#include "cluster/file_bucket.h"

#include <future>
#include <memory>

namespace weir::cluster {

constexpr auto kLastRequests = std::chrono::seconds(2);

void FileBucket::stop() {
  auto ended = std::make_shared<std::promise<void>>();
  auto done = ended->get_future();
  const bool posted = loop_.post([this, ended] {
    bucket_.stop();
    ended->set_value();
  });
  // Each request may take its whole patience where NATS hangs.
  if (posted && done.wait_for(kLastRequests) != std::future_status::ready) {
    bucket_.abandon();
    done.wait();
  }
  loop_.stop();
}

}  // namespace weir::cluster
