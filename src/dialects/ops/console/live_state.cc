#include "dialects/ops/console/live_state.h"

#include <chrono>
#include <utility>

#include "bus/batching_text.h"
#include "dialects/ops/series_scope.h"
#include "marshal/json_tensor.h"

namespace weir::ops {
namespace {

// A number as JSON has it: Prometheus also writes NaN and infinities, which are left out.
bool is_json_number(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  return !digits.empty() && digits[0] >= '0' && digits[0] <= '9' && digits.back() != '.' &&
         text.find_first_not_of("0123456789.eE+-") == text.npos;
}

std::map<std::string_view, std::string_view> read_values(std::string_view text) {
  std::map<std::string_view, std::string_view> out;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == line.npos) continue;
    if (auto value = line.substr(space + 1); is_json_number(value)) out.emplace(line.substr(0, space), value);
  }
  return out;
}

void begin_member(std::string& out, std::string_view name) {
  if (out.back() != '{') out += ',';
  ((out += '"') += name) += "\":";
}

void write_text(std::string& out, std::string_view name, std::string_view text) {
  begin_member(out, name);
  marshal::write_string(out, text);
}

void write_value(std::string& out, std::string_view series, std::string_view value) {
  if (out.back() != '{') out += ',';
  marshal::write_string(out, series);
  (out += ':') += value;
}

// The members that tell how a version that can be called is served.
void write_served(std::string& out, const bus::Served& served) {
  write_text(out, "engine", served.spec.engine);
  begin_member(out, "max_batch");
  out += std::to_string(served.spec.max_batch);
  write_text(out, "batches", bus::batching_text(served.spec));
  begin_member(out, "places");
  out += '[';
  for (const auto& place : served.stats.places) {
    if (out.back() != '[') out += ',';
    marshal::write_string(out, place);
  }
  out += ']';
}

void write_warnings(std::string& out, const base::log::Warnings& warnings) {
  begin_member(out, "warnings");
  out += '[';
  for (const auto& line : warnings.lines) {
    if (out.back() != '[') out += ',';
    marshal::write_string(out, line);
  }
  out += ']';
}

bool sees(const base::ModelScope* scope, std::string_view series) { return !scope || in_scope(series, *scope); }

std::string opening(base::WallTime at) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch());
  return "{\"time\":" + std::to_string(ms.count());
}

}  // namespace

LiveState::LiveState(Source source)
    : rows_(rows(std::exchange(source.catalog, nullptr).get())),
      source_(std::move(source)),
      values_(read_values(source_.metrics)),
      models_(models(nullptr)) {}

std::vector<LiveState::Row> LiveState::rows(const bus::Catalog* catalog) {
  std::vector<Row> rows;
  if (!catalog) return rows;
  for (const auto& row : catalog->index) {
    std::string out = "{";
    write_text(out, "name", row.name);
    write_text(out, "version", row.version);
    write_text(out, "state", bus::name(row.state));
    write_text(out, "reason", row.reason);
    const auto model = catalog->models.find(row.name);
    if (model != catalog->models.end())
      if (auto served = model->second.versions.find(row.version); served != model->second.versions.end())
        write_served(out, *served->second);
    rows.push_back({row.name, out + '}'});
  }
  return rows;
}

std::string LiveState::models(const base::ModelScope* scope) const {
  std::string out = "[";
  for (const auto& row : rows_) {
    if (scope && !scope->allows(row.model)) continue;
    if (out.back() != '[') out += ',';
    out += row.json;
  }
  return out + ']';
}

std::string LiveState::whole(Warnings warnings, const base::ModelScope* scope) const {
  std::string out = opening(source_.at);
  write_text(out, "not_ready", source_.not_ready);
  begin_member(out, "models");
  out += scope ? models(scope) : models_;
  if (warnings == Warnings::kShown) write_warnings(out, source_.warnings);
  begin_member(out, "values");
  out += '{';
  for (const auto& [series, value] : values_)
    if (sees(scope, series)) write_value(out, series, value);
  return out + "}}";
}

std::string LiveState::change_from(const LiveState& last, Warnings warnings, const base::ModelScope* scope) const {
  std::string out = opening(source_.at), gone = "[";
  if (source_.not_ready != last.source_.not_ready) write_text(out, "not_ready", source_.not_ready);
  const bool same_models = models_ == last.models_ || (scope && models(scope) == last.models(scope));
  if (!same_models) begin_member(out, "models"), out += scope ? models(scope) : models_;
  if (warnings == Warnings::kShown && source_.warnings.count != last.source_.warnings.count)
    write_warnings(out, source_.warnings);
  begin_member(out, "values");
  out += '{';
  auto old = last.values_.begin();
  auto is_gone = [&] {
    if (!sees(scope, old->first)) return;
    if (gone.back() != '[') gone += ',';
    marshal::write_string(gone, old->first);
  };
  for (const auto& [series, value] : values_) {
    for (; old != last.values_.end() && old->first < series; ++old) is_gone();
    const bool there = old != last.values_.end() && old->first == series;
    if ((!there || old->second != value) && sees(scope, series)) write_value(out, series, value);
    if (there) ++old;
  }
  for (; old != last.values_.end(); ++old) is_gone();
  out += '}';
  if (gone != "[") begin_member(out, "gone"), (out += gone) += ']';
  return out + '}';
}

}  // namespace weir::ops
