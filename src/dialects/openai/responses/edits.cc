#include "dialects/openai/responses/edits.h"

#include <utility>

#include "marshal/tenant.h"

namespace weir::openai::responses {

std::optional<StoredResponse> find_stored(const OpenAiState& state, const wire::Exchange& exchange,
                                          const std::string& id, StoredKind kind) {
  auto* stored = state.options.stored;
  return stored ? stored->find(marshal::tenant_of(exchange.request()), id, state.bus.env().now(), kind) : std::nullopt;
}

bool remove_stored(const OpenAiState& state, const wire::Exchange& exchange, const std::string& id, StoredKind kind) {
  auto* stored = state.options.stored;
  return stored && stored->remove(marshal::tenant_of(exchange.request()), id, state.bus.env().now(), kind);
}

ApiError edit_stored(const OpenAiState& state, const wire::Exchange& exchange, const std::string& id, StoredKind kind,
                     const Edit& change) {
  using Replaced = StoredResponses::Replaced;
  constexpr int kMostTries = 16;
  for (int i = 0; i < kMostTries; ++i) {
    auto seen = find_stored(state, exchange, id, kind);
    if (!seen) break;
    StoredResponse next = *seen;
    if (ApiError bad = change(next); !bad.ok()) return bad;
    const Replaced how = state.options.stored->replace(marshal::tenant_of(exchange.request()), id, *seen,
                                                       std::move(next), state.bus.env().now());
    if (how == Replaced::kDone) return {};
    if (how == Replaced::kGone) break;
    if (how == Replaced::kNoRoom) return {base::invalid("there is no room for more"), {}, kTooLarge};
    if (i + 1 == kMostTries) return refuse(base::try_again(base::Code::kAborted, "others change it; try again"));
  }
  return refuse(base::failure(base::Code::kNotFound, "there is none, or no more"));
}

ApiError check_metadata(const OrderedJson* metadata) {
  constexpr size_t kMostPairs = 16, kMostKey = 64, kMostValue = 2048;  // bytes: 512 characters
  if (!metadata) return {};
  if (!metadata->is_object() || metadata->size() > kMostPairs)
    return refuse("metadata", "metadata: expected an object of at most " + std::to_string(kMostPairs) + " texts");
  for (const auto& [name, value] : metadata->items()) {
    if (!value.is_string()) return refuse("metadata", "metadata: expected an object of texts");
    if (name.size() > kMostKey || value.get_ref<const std::string&>().size() > kMostValue)
      return refuse("metadata", "metadata: a key has at most 64 bytes, a text at most 2048");
  }
  return {};
}

ApiError read_metadata(std::string_view text, std::string& out) {
  return translate(text, [&](const OrderedJson& body) {
    for (const auto& [name, value] : body.items())
      if (name != "metadata") return unknown_member(name);
    const OrderedJson* metadata = member(body, "metadata");
    out = metadata ? metadata->dump() : "{}";
    return check_metadata(metadata);
  });
}

std::string with_metadata(std::string_view object, std::string_view metadata) {
  constexpr std::string_view kMetadata = ",\"metadata\":";
  std::string out(object.substr(0, std::min(object.find(kMetadata), object.size() - 1)));
  return ((out += kMetadata) += metadata) += '}';
}

}  // namespace weir::openai::responses
