#include "cluster/file_bucket.h"

#include <future>
#include <memory>

namespace weir::cluster {

void FileBucket::stop() {
  auto ended = std::make_shared<std::promise<void>>();
  auto done = ended->get_future();
  const bool posted = loop_.post([this, ended] {
    bucket_.stop();
    ended->set_value();
  });
  if (posted) done.wait();
  loop_.stop();
}

}  // namespace weir::cluster
