// Watch: decides from successive looks at the disk what has changed and has come to rest. Pure: no files, no clock.
//
// A change is reported once two looks in a row have seen the same new state, so that a file that is still being written
// is waited for; a folder that is missing must be missing twice, so that an exchange by two renames goes unnoticed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace weir::models {

class Watch {
 public:
  using Fingerprints = std::map<std::string, uint64_t>;  // model -> fingerprint

  struct Changes {
    std::vector<std::string> changed;  // new, or different from what was taken
    std::vector<std::string> gone;
  };
  enum class Settle : bool { kNo, kYes };  // kNo: somebody says that now is the time
  Changes compare(const Fingerprints& now, Settle settle);

  // This state is now dealt with, whether it loaded or failed: not reported again by itself.
  void took(const std::string& model, uint64_t fingerprint) { taken_[model] = fingerprint, failed_.erase(model); }
  // Whether that state was taken, and has not failed.
  bool has_taken(const std::string& model, uint64_t fingerprint) const {
    const auto taken = taken_.find(model);
    return taken != taken_.end() && taken->second == fingerprint && !failed_.contains(model);
  }
  void forget(const std::string& model) { taken_.erase(model), failed_.erase(model); }
  // The load of what took() named has failed, maybe for a reason that its files do not show: kNo reports it again.
  void failed(const std::string& model) { failed_.insert(model); }

 private:
  std::set<std::string> failed_;
  Fingerprints taken_, before_;
};

}  // namespace weir::models
