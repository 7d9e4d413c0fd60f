#include "dialects/openai/responses/edits.h"

#include <memory>
#include <utility>

#include "marshal/tenant.h"
#include "wire/service_guard.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

// Tries the edit again after a conflict, each time in a turn of its own. It is attached to the exchange until the
// ExchangeListener that `then` attaches replaces it.
class LaterTries final : public wire::ExchangeListener {
 public:
  LaterTries(OpenAiState& state, Exchange& exchange, std::string id, StoredKind kind, Edit change,
             std::function<void(ApiError)> then)
      : state_(state),
        exchange_(exchange),
        id_(std::move(id)),
        kind_(kind),
        change_(std::move(change)),
        then_(std::move(then)) {
    arm();
  }
  ~LaterTries() override { stop(); }
  void on_close(Exchange&, bool) override { stop(); }

 private:
  void arm() {
    base::Env& env = state_.bus.env();
    timer_ = env.at(env.now(), [this] {
      timer_ = base::TimerId::kNone;
      wire::guarded(exchange_, [this] { run(); });
    });
  }
  void stop() { state_.bus.env().cancel(std::exchange(timer_, base::TimerId::kNone)); }
  void run() {
    auto done = try_edit(state_, exchange_, id_, kind_, change_);
    if (!done && ++tries_ < kMostTries) return arm();
    const auto then = std::move(then_);  // it may destroy this
    then(done ? *std::move(done) : edit_conflict());
  }

  OpenAiState& state_;
  Exchange& exchange_;
  const std::string id_;
  const StoredKind kind_;
  const Edit change_;
  std::function<void(ApiError)> then_;
  int tries_ = 1;
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace

std::optional<StoredResponse> find_stored(const OpenAiState& state, const Exchange& exchange, const std::string& id,
                                          StoredKind kind) {
  auto* stored = state.options.stored;
  return stored ? stored->find(marshal::tenant_of(exchange.request()), id, state.bus.env().now(), kind) : std::nullopt;
}

bool remove_stored(const OpenAiState& state, const Exchange& exchange, const std::string& id, StoredKind kind) {
  auto* stored = state.options.stored;
  return stored && stored->remove(marshal::tenant_of(exchange.request()), id, state.bus.env().now(), kind);
}

std::optional<ApiError> try_edit(const OpenAiState& state, const Exchange& exchange, const std::string& id,
                                 StoredKind kind, const Edit& change) {
  using Replaced = StoredResponses::Replaced;
  const auto gone = [] { return refuse(base::failure(base::Code::kNotFound, "there is none, or no more")); };
  const auto seen = find_stored(state, exchange, id, kind);
  if (!seen) return gone();
  StoredResponse next = *seen;
  if (ApiError bad = change(next); !bad.ok()) return bad;
  switch (state.options.stored->replace(marshal::tenant_of(exchange.request()), id, *seen, std::move(next),
                                        state.bus.env().now())) {
    case Replaced::kDone: return ApiError{};
    case Replaced::kGone: return gone();
    case Replaced::kNoRoom: return ApiError{base::invalid("there is no room for more"), {}, kTooLarge};
    case Replaced::kChanged: break;
  }
  return std::nullopt;
}

ApiError edit_conflict() { return refuse(base::try_again(base::Code::kAborted, "others change it; try again")); }

void edit_stored(OpenAiState& state, Exchange& exchange, const std::string& id, StoredKind kind, Edit change,
                 std::function<void(ApiError)> then) {
  if (auto done = try_edit(state, exchange, id, kind, change)) return then(*std::move(done));
  exchange.attach(std::make_unique<LaterTries>(state, exchange, id, kind, std::move(change), std::move(then)));
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
