// PendingLoads: the references of a session that are being loaded. What has come goes into the graph; a load that fails
// ends the session, unless its node has been dropped meanwhile.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "dialects/evergreen/graph/node.h"
#include "dialects/evergreen/reference.h"

namespace weir::evergreen {

class Session;

class PendingLoads final : Load::Listener {
 public:
  explicit PendingLoads(Session& session) : session_(session) {}

  // Loads what `uri` names into a fragment that the graph has taken. Errors: those of load(), RESOURCE_EXHAUSTED; each
  // names the fragment.
  base::Status begin(const Node& node, int64_t seq, std::string_view uri);
  bool empty() const { return loads_.empty(); }
  // No more messages are read.
  bool many() const { return loads_.size() >= kMany; }
  // No more are begun.
  bool full() const { return loads_.size() >= kMost; }
  void clear() { loads_.clear(); }

 private:
  static constexpr size_t kMany = 16, kMost = 256;
  bool on_growth() override;
  void on_loaded(Load& load, base::Result<base::Bytes> data) override;
  void take(Load& load, base::Result<base::Bytes> data);

  Session& session_;
  std::vector<std::unique_ptr<Load>> loads_;
};

}  // namespace weir::evergreen
