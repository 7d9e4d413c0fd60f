// LiveState: what the console shows of a server at one moment, and how it differs from the moment before: the events of
// GET /console/v1/live. Pure.
//
//   state   {"time":1700000000000,"not_ready":"","models":[{"name","version","state","reason",
//            and of those that can be called "engine","max_batch","batches" (whether requests share batches, or why
//            not), "places" (where each instance runs)}],
//            "values":{"weir_requests_total{protocol=\"openai\",code=\"OK\"}":12,…},"warnings":["…"]}
//   change  the same of what is new: values that differ, "gone":[series that are not there any more], and the other
//           members only where they differ
//
// `time` is Unix milliseconds; `values` are the series of /metrics under their own names, as they stand, so that rates
// and quantiles are for who reads them to compute. `warnings` are the last ones of the log; followers who may not see
// the requests of others get none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/model_scope.h"
#include "base/recent_warnings.h"
#include "bus/catalog.h"

namespace weir::ops {

// One moment. Immutable once made. It does not keep the Catalog: versions that are gone leave memory.
class LiveState {
 public:
  struct Source {
    base::WallTime at{};
    std::string metrics;  // Prometheus text
    std::string not_ready;
    std::shared_ptr<const bus::Catalog> catalog;  // or null
    base::log::Warnings warnings;
  };
  explicit LiveState(Source source);

  enum class Warnings : uint8_t { kShown, kHidden };
  // The data of the event "state". `scope`: the models that the follower may see; null: all.
  std::string whole(Warnings warnings, const base::ModelScope* scope = nullptr) const;
  // The data of the event "change", for who knows `last`.
  std::string change_from(const LiveState& last, Warnings warnings, const base::ModelScope* scope = nullptr) const;

 private:
  struct Row {
    std::string model, json;
  };
  static std::vector<Row> rows(const bus::Catalog* catalog);
  std::string models(const base::ModelScope* scope) const;

  const std::vector<Row> rows_;                          // of the repository's index
  const Source source_;                                  // without the Catalog
  std::map<std::string_view, std::string_view> values_;  // of source_.metrics
  const std::string models_;                             // as JSON, all
};

}  // namespace weir::ops
