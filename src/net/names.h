// Names: host names → addresses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/shard.h"

namespace weir::net {

// Destroying it ends what it is asked.
class Names {
 public:
  using Then = std::function<void(std::vector<Endpoint>)>;  // empty: there is no such name
  virtual ~Names() = default;
  // `then` is called once, later, on the shard's thread.
  virtual void look_up(const std::string& host, Then then) = 0;
};

// By the system's resolver, which makes whoever asks wait, for seconds where a name's servers do not answer. So each
// question has a thread of its own while there are few; more wait in line. Used on the shard's thread, or when that has
// ended; a thread that is still asking then ends by itself.
class SystemNames final : public Names {
 public:
  static constexpr unsigned kAtOnce = 4;
  using Ask = std::function<std::vector<Endpoint>(const std::string& host)>;  // blocks; any thread
  static std::vector<Endpoint> ask_system(const std::string& host);

  explicit SystemNames(Shard& shard, Ask ask = ask_system);
  ~SystemNames() override;
  void look_up(const std::string& host, Then then) override;

 private:
  struct Resolver;
  std::shared_ptr<Resolver> resolver_;
};

}  // namespace weir::net
