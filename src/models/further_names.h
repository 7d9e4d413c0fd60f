// FurtherNames: whose each further name is (`names:` of model.yaml; bus::Catalog::names), where several models want
// one.
//
// It is no further name while a model has it as its own, unless that is no more than a row of the index: an upload that
// failed or was unloaded, with no folder in the repository. Of the models that want it those in service, which serve or
// will soon, go before the others; of these the one that has had it goes first, and then the first by its own name. So
// a name changes hands only when it is free, and no model is out of service for lack of one.
//
// Under the repository's lock.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

namespace weir::models {

class FurtherNames {
 public:
  struct Model {
    std::span<const std::string> names;  // that it wants
    bool serves = false;
    bool coming = false;  // it will serve soon
    bool yields = false;  // its own name, to whoever wants it as a further one
  };
  using Models = std::map<std::string_view, Model>;                // all that there are, by their own names
  using Owners = std::map<std::string, std::string, std::less<>>;  // own names, by further ones

  // Decides whose they are from here on. Logs once which model serves without which name, and who has it.
  const Owners& settle(const Models& models);

 private:
  using Conflict = std::tuple<std::string, std::string, std::string>;  // the model, the name, the model that has it
  void log_conflicts(const Models& models);

  Owners owners_;
  std::set<Conflict> logged_;
};

}  // namespace weir::models
