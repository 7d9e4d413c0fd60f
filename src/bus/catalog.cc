#include "bus/catalog.h"

#include <algorithm>

#include "base/encoding.h"

namespace weir::bus {
namespace {

using base::Code;
using base::failure;

// A client's word as it may be shown back to it: quoted, and no longer than a name can reasonably be.
std::string in_quotes(std::string_view word) {
  constexpr size_t kLongest = 128;
  std::string out = "'" + std::string(base::cut_text(word, kLongest));
  return out + (word.size() > kLongest ? "…'" : "'");
}

std::string not_ready(std::string_view model, const IndexRow& row) {
  std::string out = "model " + in_quotes(model) + " version " + row.version + " is not ready";
  if (row.version.empty()) out = "model " + in_quotes(model) + " is not ready";
  if (row.state == ModelState::kLoading) out += ": it is loading";
  if (row.state == ModelState::kUnloading) out += ": it is unloading";
  if (!row.reason.empty()) out += ": " + row.reason;
  return out;
}

base::Status unavailable(std::string_view model, const IndexRow& row) {
  auto text = not_ready(model, row);
  return soon(row.state) ? base::try_again(Code::kUnavailable, std::move(text))
                         : failure(Code::kUnavailable, std::move(text));
}

base::Status no_model(const Catalog& catalog, std::string_view model, std::string_view version) {
  std::vector<std::string_view> names;
  for (const auto& row : catalog.index) {
    if (row.name == model && (version.empty() || row.version == version || row.version.empty()))
      return unavailable(model, row);
    names.push_back(row.name);
  }
  for (const auto& [name, unused] : catalog.models) names.push_back(name);
  std::string text = "Request for unknown model " + in_quotes(model);  // the words that clients of Triton look for
  if (auto near = base::near_miss(model, names); !near.empty()) text += ": did you mean " + in_quotes(near) + "?";
  return failure(Code::kNotFound, std::move(text));
}

base::Status no_version(const Catalog& catalog, std::string_view model, std::string_view version,
                        const Catalog::Model& found) {
  for (const auto& row : catalog.index)
    if (row.name == model && (version.empty() || row.version == version)) return unavailable(model, row);
  if (found.versions.empty()) return failure(Code::kUnavailable, "model " + in_quotes(model) + " is not ready");
  std::string text = "model " + in_quotes(model) + " has no version " + in_quotes(version) + "; it serves ";
  for (const auto& [name, unused] : found.versions) text += (text.back() == ' ' ? "" : ", ") + name;
  return failure(Code::kNotFound, std::move(text));
}

}  // namespace

bool Served::idle() const {
  return std::all_of(in_flight.begin(), in_flight.end(),
                     [](const Cell& cell) { return cell.calls.load(std::memory_order_acquire) == 0; });
}

std::string_view name(ModelState state) {
  constexpr std::array<std::string_view, 7> kNames{"UNKNOWN",   "READY",       "UNAVAILABLE", "LOADING",
                                                   "UNLOADING", "UNAVAILABLE", "UNAVAILABLE"};
  return kNames.at(size_t(state));
}

bool soon(ModelState state) { return state == ModelState::kLoading || state == ModelState::kReturning; }

base::Result<Served*> Catalog::find(std::string_view model, std::string_view version) const {
  auto found = models.find(model);
  if (found == models.end()) return no_model(*this, model, version);
  if (version.empty() && found->second.preferred) return found->second.preferred;
  auto at = found->second.versions.find(version);
  if (at == found->second.versions.end()) return no_version(*this, model, version, found->second);
  return at->second.get();
}

}  // namespace weir::bus
