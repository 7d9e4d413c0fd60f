#include "dialects/ops/console/batch_list.h"

#include "marshal/json_tensor.h"

namespace weir::ops {
namespace {

int64_t in_us(base::Time t) { return t.time_since_epoch().count() / 1000; }

}  // namespace

base::Result<std::string> batch_list(const bus::Catalog& catalog, std::string_view model, std::string_view version,
                                     int64_t after, base::Time now) {
  auto found = catalog.find(model, version);
  if (!found) return found.error();
  const bus::ModelStats& stats = (*found)->stats;
  std::string out = "{\"now\":" + std::to_string(in_us(now)) + ",\"places\":[";
  for (const auto& place : stats.places) {
    if (out.back() != '[') out += ',';
    marshal::write_string(out, place);
  }
  out += "],\"batches\":[";
  for (const auto& r : stats.timeline.latest()) {
    if (int64_t(r.number) <= after) continue;
    if (out.back() != '[') out += ',';
    out += '[';
    for (int64_t n : {int64_t(r.number), int64_t(r.instance), int64_t(r.calls), int64_t(r.rows), in_us(r.queued),
                      in_us(r.median), in_us(r.last), in_us(r.started), in_us(r.gathered), in_us(r.arrived),
                      in_us(r.computed), in_us(r.landed), in_us(r.finished)})
      out += std::to_string(n) + ',';
    out.back() = ']';
  }
  return out + "]}\n";
}

}  // namespace weir::ops
