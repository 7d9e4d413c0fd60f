// Directory: which nodes have which models, for models whose `origins` are cluster. Told from outside whenever that
// changes; the models that are loaded follow at once, and their connections stay. Any thread but a shard's.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/forward/origin.h"

namespace weir::forward {

class Directory {
 public:
  // URLs of nodes by model: all models, those of before are forgotten. Names are looked up, which blocks. Returns what
  // is wrong with those that are passed over: not URLs, with a path, unknown, more than a model has places for.
  std::vector<std::string> set(const std::map<std::string, std::vector<std::string>>& nodes);
  // Goes along with each call to a node, as `authorization: Bearer …`; before the first add().
  void set_key(std::string key);
  // Connections to nodes are made with it, and nodes whose address is not https are passed over; before the first add()
  // and set().
  void set_tls(std::shared_ptr<const net::LiveTls> tls);

  std::vector<net::Url> urls(const std::string& model) const;
  // The target has the nodes of its model, now and from now on, for as long as it lives. UNAVAILABLE, worth another
  // try: there is none now.
  base::Status add(const std::shared_ptr<Target>& target);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Target::Member>> members_;  // by model; all under mutex_
  std::vector<std::weak_ptr<Target>> targets_;
  std::string key_;
  std::shared_ptr<const net::LiveTls> tls_;  // null: addresses say whether
};

}  // namespace weir::forward
