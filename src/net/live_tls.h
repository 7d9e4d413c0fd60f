// LiveTls: the TlsContext of connections that this server makes, which may be replaced while it runs. Connections that
// are there keep the one that they were made with. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "net/tls.h"

namespace weir::net {

class LiveTls {
 public:
  explicit LiveTls(std::shared_ptr<const TlsContext> first) : now_(std::move(first)) {}

  std::shared_ptr<const TlsContext> get() const { return now_.load(); }
  void set(std::shared_ptr<const TlsContext> next) { now_.store(std::move(next)); }

 private:
  std::atomic<std::shared_ptr<const TlsContext>> now_;  // never null
};

}  // namespace weir::net
