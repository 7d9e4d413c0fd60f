// BusyModels: the models that are being loaded, each by one thread, and the loads that wait for others of them. Under
// the repository's lock.
#pragma once

#include <map>
#include <set>
#include <string>

namespace weir::models {

class BusyModels {
 public:
  bool contains(const std::string& model) const { return loaded_.contains(model); }
  // False: somebody loads it already.
  bool add(const std::string& model) { return loaded_.insert(model).second; }
  void remove(const std::string& model) { loaded_.erase(model); }

  // From here to the end of the wait the load of `waiter` does not go on before that of `model` has ended. False, and
  // nothing is noted: that one would wait for `waiter`, by way of others perhaps, and neither would end.
  bool begin_wait(const std::string& waiter, const std::string& model);
  void end_wait(const std::string& waiter, const std::string& model);

 private:
  bool waits_for(const std::string& from, const std::string& to, std::set<std::string>& seen) const;

  std::set<std::string> loaded_;
  std::multimap<std::string, std::string> waits_;  // waiter -> model
};

}  // namespace weir::models
