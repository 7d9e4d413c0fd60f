// Resolver: looks up the addresses of host names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/shard.h"

namespace weir::net {

// The shard's thread. Destroying it ends the lookups under way: their `then` is not called.
class Resolver {
 public:
  using Then = std::function<void(std::vector<Endpoint>)>;  // with none: there is no such name
  virtual ~Resolver() = default;
  // `then` is called once, later, on the shard's thread.
  virtual void look_up(const std::string& host, Then then) = 0;
};

// The system's resolver (getaddrinfo), which blocks, for seconds where a name's servers do not answer. So up to kAtOnce
// lookups have a thread each, and the others wait for one of these. It is used on the shard's thread, or after that has
// ended; a thread that is in a lookup at its destruction ends by itself.
class SystemResolver final : public Resolver {
 public:
  static constexpr unsigned kAtOnce = 4;
  using Ask = std::function<std::vector<Endpoint>(const std::string& host)>;  // blocks; any thread
  static std::vector<Endpoint> ask_system(const std::string& host);

  explicit SystemResolver(Shard& shard, Ask ask = ask_system);
  ~SystemResolver() override;
  void look_up(const std::string& host, Then then) override;

 private:
  struct Lookups;
  std::shared_ptr<Lookups> lookups_;
};

}  // namespace weir::net
