// LoadOrder: which of many models may be loaded: a pipeline once the loads of its nodes have ended. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace weir::models {

class LoadOrder {
 public:
  // `wanted` and what their pipelines are made of; `nodes` names the models that a pipeline needs and that are there.
  LoadOrder(const std::set<std::string>& wanted,
            const std::function<std::vector<std::string>(const std::string&)>& nodes);

  // All of them, each pipeline behind its nodes.
  const std::vector<std::string>& names() const { return names_; }
  // Those that wait for no other one.
  std::vector<std::string> first() const;
  // The load of one has ended: those that may be loaded now and not before.
  std::vector<std::string> ended(const std::string& name);

 private:
  std::vector<std::string> names_;
  std::map<std::string, size_t> left_;  // nodes that a pipeline waits for
  std::map<std::string, std::vector<std::string>> followers_;
};

}  // namespace weir::models
