#include "dialects/grps/batch_timeline.h"

#include <algorithm>

#include "marshal/json_tensor.h"

namespace weir::grps {
namespace {

int64_t us(base::Duration d) { return std::max<int64_t>(d.count() / 1000, 0); }

void member(std::string& out, std::string_view name, int64_t value) {
  if (out.back() != '{') out += ',';
  out += '"';
  out += name;
  out += "\":" + std::to_string(value);
}

void write(std::string& out, const bus::BatchRecord& r) {
  out += '{';
  member(out, "n", int64_t(r.number));
  member(out, "instance", r.instance);
  member(out, "calls", r.calls);
  member(out, "rows", r.rows);
  member(out, "start", us(r.started.time_since_epoch()));
  member(out, "wait", us(r.started - r.queued));
  member(out, "gather", us(r.gathered - r.started));
  member(out, "up", us(r.arrived - r.gathered));
  member(out, "compute", us(r.computed - r.arrived));
  member(out, "down", us(r.landed - r.computed));
  member(out, "answer", us(r.finished - r.landed));
  out += '}';
}

}  // namespace

base::Result<std::string> batches_json(const bus::Catalog& catalog, std::string_view model, std::string_view version,
                                       base::Time now) {
  auto found = catalog.find(model, version);
  if (!found) return found.error();
  const auto& served = **found;
  std::string out = "{\"model\":";
  marshal::write_string(out, served.spec.name);
  out += ",\"version\":";
  marshal::write_string(out, served.spec.version);
  member(out, "now", us(now.time_since_epoch()));
  out += ",\"places\":[";
  for (const auto& place : served.stats.places) {
    if (out.back() != '[') out += ',';
    marshal::write_string(out, place);
  }
  out += "],\"batches\":[";
  for (const auto& record : served.stats.timeline.latest()) {
    if (out.back() != '[') out += ',';
    write(out, record);
  }
  return out + "]}";
}

}  // namespace weir::grps
