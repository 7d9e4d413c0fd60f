#include "bus/catalog.h"

#include <algorithm>

#include "base/encoding.h"

namespace weir::bus {
namespace {

using base::Code;
using base::failure;

// A client's word as it may be shown back to it: quoted, and no longer than a name can reasonably be.
std::string shortened(std::string_view word) {
  constexpr size_t kLongest = 128;
  return std::string(base::cut_text(word, kLongest)) + (word.size() > kLongest ? "…" : "");
}

std::string in_quotes(std::string_view word) { return "'" + shortened(word) + "'"; }

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
  return may_become_ready(row.state) ? base::try_again(Code::kUnavailable, std::move(text))
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
  for (const auto& [name, unused] : catalog.names) names.push_back(name);
  std::string text = "Request for unknown model: " + in_quotes(model) + " is not found";  // Triton's words
  if (auto near = base::near_miss(model, names); !near.empty()) text += "; did you mean " + in_quotes(near) + "?";
  return failure(Code::kNotFound, std::move(text));
}

base::Status no_version(const Catalog& catalog, std::string_view model, std::string_view version,
                        const Catalog::Model& found) {
  for (const auto& row : catalog.index)
    if (row.name == model && (version.empty() || row.version == version)) return unavailable(model, row);
  if (found.versions.empty()) return failure(Code::kUnavailable, "model " + in_quotes(model) + " is not ready");
  std::string text =
      "Request for unknown model: " + in_quotes(model) + " version " + shortened(version) + " is not found; it serves ";
  for (const auto& [name, unused] : found.versions) text += (text.back() == ' ' ? "" : ", ") + name;
  return failure(Code::kNotFound, std::move(text));
}

// "model 'add' makes no tokens"; of an encoder also what to ask of it.
base::Status lacks(const msg::ModelSpec& spec, Needs needs) {
  constexpr std::array<std::string_view, 6> kLack{"",
                                                  " makes no tokens",
                                                  " gives no embeddings",
                                                  " takes no text",
                                                  " has no concept readouts",
                                                  " gives no scores of texts"};
  std::string text = "model " + in_quotes(spec.name) + std::string(kLack.at(size_t(needs)));
  const bool classifies = spec.encoder && spec.encoder->labels > 0;
  if (spec.encoder && (needs == Needs::kText || (needs == Needs::kScores && classifies)))
    text += ": it has no tokenizer";
  else if (spec.encoder)
    text += classifies ? ": it gives scores of texts" : ": it gives embeddings";
  return base::invalid(std::move(text));
}

std::string_view those_with(Needs needs) {
  constexpr std::array<std::string_view, 6> kThose{"model",
                                                   "model that makes tokens",
                                                   "model that gives embeddings",
                                                   "model that takes text",
                                                   "model that has concept readouts",
                                                   "classifier or reranker that takes text"};
  return kThose.at(size_t(needs));
}

}  // namespace

bool has(const msg::ModelSpec& spec, Needs needs) {
  switch (needs) {
    case Needs::kAnything: return true;
    case Needs::kTokens: return spec.text != nullptr;
    case Needs::kEmbeddings: return spec.text || (spec.encoder && spec.encoder->labels == 0);
    case Needs::kText: return spec.text || (spec.encoder && spec.encoder->codec);
    case Needs::kReadouts: return spec.text && !spec.text->concepts.empty();
    case Needs::kScores: return spec.encoder && spec.encoder->labels > 0 && spec.encoder->codec;
  }
  return false;
}

bool Served::idle() const {
  return std::all_of(in_flight.begin(), in_flight.end(),
                     [](const Cell& cell) { return cell.calls.load(std::memory_order_acquire) == 0; });
}

std::string_view name(ModelState state) {
  constexpr std::array<std::string_view, 7> kNames{"UNKNOWN",   "READY",       "UNAVAILABLE", "LOADING",
                                                   "UNLOADING", "UNAVAILABLE", "UNAVAILABLE"};
  return kNames.at(size_t(state));
}

bool may_become_ready(ModelState state) { return state == ModelState::kLoading || state == ModelState::kReturning; }

Catalog Catalog::visible_to(const base::ModelScope& visible) const {
  Catalog out;
  for (const auto& [name, model] : models)
    if (visible.allows(name)) out.models.emplace(name, model);
  for (const auto& row : index)
    if (visible.allows(row.name)) out.index.push_back(row);
  for (const auto& [name, own] : names)
    if (visible.allows(own)) out.names.emplace(name, own);
  if (visible.allows(own_name(default_model))) out.default_model = default_model;
  out.scope = visible;
  return out;
}

std::string_view Catalog::own_name(std::string_view model) const {
  if (names.empty()) return model;
  auto found = names.find(model);
  return found == names.end() ? model : std::string_view(found->second);
}

base::Result<Served*> Catalog::find(std::string_view asked, std::string_view version) const {
  const std::string_view model = own_name(asked);
  if (scope && !scope->allows(model))
    return failure(Code::kPermissionDenied, "this key may not use model " + in_quotes(model));
  auto found = models.find(model);
  if (found == models.end()) return no_model(*this, model, version);
  if (version.empty() && found->second.preferred) return found->second.preferred;
  auto at = found->second.versions.find(version);
  if (at == found->second.versions.end()) return no_version(*this, model, version, found->second);
  return at->second.get();
}

base::Result<Served*> Catalog::resolve(std::string_view model, std::string_view version, Needs needs) const {
  if (model.empty()) return resolve_unnamed(version, needs);
  auto found = find(model, version);
  if (found && !has((*found)->spec, needs)) return lacks((*found)->spec, needs);
  return found;
}

base::Result<Served*> Catalog::resolve_unnamed(std::string_view version, Needs needs) const {
  if (!default_model.empty()) {
    auto found = find(default_model, version);
    if (!found || has((*found)->spec, needs)) return found;
  }
  constexpr size_t kShown = 16;
  std::string only, all;
  size_t count = 0;
  for (const auto& [name, model] : models) {
    // A base model is chosen before its adapters.
    if (!model.preferred || !model.preferred->spec.parent.empty() || !has(model.preferred->spec, needs)) continue;
    if (++count <= kShown) all += (count > 1 ? ", " : "") + name;
    only = name;
  }
  if (count == 1) return find(only, version);
  if (count == 0)
    return failure(Code::kNotFound, "no model is named, and no " + std::string(those_with(needs)) + " is served");
  if (count > kShown) all += ", …";
  return base::invalid("no model is named, and there is more than one " + std::string(those_with(needs)) +
                       ": name one of " + all + ", or set models.default");
}

}  // namespace weir::bus
