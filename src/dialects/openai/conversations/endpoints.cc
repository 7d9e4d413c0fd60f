#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "base/memory_ledger.h"
#include "dialects/openai/conversations/conversations.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/responses/edits.h"
#include "dialects/openai/responses/input.h"
#include "dialects/openai/responses/listing.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/answer_flow.h"

namespace weir::openai::conversations {
namespace {

using responses::Made;
using responses::StoredKind;
using responses::StoredResponse;
using wire::Exchange;

constexpr size_t kIdDigits = 32;

ApiError no_such_item() {
  return {base::failure(base::Code::kNotFound, "there is no such item in this conversation"), "item_id",
          "item_not_found"};
}

std::optional<StoredResponse> find(const OpenAiState& state, const Exchange& exchange, const std::string& id) {
  return responses::find_stored(state, exchange, id, StoredKind::kConversation);
}

ApiError edit(OpenAiState& state, const Exchange& exchange, const std::string& id, const responses::Edit& change) {
  ApiError bad = responses::edit_stored(state, exchange, id, StoredKind::kConversation, change);
  if (bad.status.code == base::Code::kNotFound && bad.code.empty()) return no_such_conversation();
  if (bad.code == responses::kTooLarge) bad.param = "items", bad.code = "conversation_full";
  return bad;
}

void append(StoredResponse& stored, std::string_view items) {
  if (items.empty()) return;
  std::string turns;
  turns.reserve(stored.turns.size() + items.size() + 1);
  turns += stored.turns.view();
  if (!turns.empty()) turns += ',';
  stored.turns = base::Bytes::adopt(std::move(turns += items));
}

// ---- Bodies

struct Body {
  std::string metadata;  // JSON; empty: it is not there
  std::string items;     // as kept_items() makes them
};

ApiError in_items_name(ApiError error) {
  constexpr std::string_view kInput = "input", kItems = "items";
  if (error.param == kInput) error.param = kItems;
  if (std::string& text = error.status.text; text.starts_with(kInput)) text.replace(0, kInput.size(), kItems);
  return error;
}

// They are what a response could go on behind.
ApiError check_items(const OrderedJson& items) {
  if (!items.is_array()) return refuse("items", "items: expected a list of items");
  if (items.size() > kMostAdded)
    return refuse("items", "items: at most " + std::to_string(kMostAdded) + " of them at a time");
  OrderedJson chat = OrderedJson::object();
  Request request;
  if (ApiError bad = responses::read_input({{"input", items}}, {}, chat, request); !bad.ok())
    return in_items_name(std::move(bad));
  if (!request.references.empty()) return refuse("items", "items: an item_reference is none; send the item whole");
  return {};
}

ApiError read_members(std::string_view text, std::span<const std::string_view> known, std::string_view ids, Body& out) {
  return translate(text.empty() ? "{}" : text, [&](const OrderedJson& body) {
    for (const auto& [name, value] : body.items())
      if (std::find(known.begin(), known.end(), name) == known.end()) return unknown_member(name);
    const OrderedJson* metadata = member(body, "metadata");
    if (ApiError bad = responses::check_metadata(metadata); !bad.ok()) return bad;
    if (metadata) out.metadata = metadata->dump();
    if (const OrderedJson* items = member(body, "items")) {
      if (ApiError bad = check_items(*items); !bad.ok()) return bad;
      out.items = kept_items(*items, ids);
    }
    return ApiError{};
  });
}

template <class Then>
void with_body(OpenAiState& state, Exchange& exchange, std::span<const std::string_view> known, Then then) {
  read_body<Body>(
      state, exchange,
      [known, ids = random_id(state.bus, kIdDigits)](std::string_view text, Body& body) {
        return read_members(text, known, ids, body);
      },
      std::move(then));
}

// ---- Items

struct ListedItem {
  std::string id;
  std::string_view json;
};
std::vector<ListedItem> items_of(std::string_view items) {
  std::vector<ListedItem> out;
  const std::string list = '[' + std::string(items) + ']';
  marshal::JsonCursor json(list);
  json.array([&] {
    ListedItem& item = out.emplace_back();
    const size_t at = json.at();
    const bool good =
        json.object([&](std::string_view name) { return name == "id" ? json.string(item.id) : json.skip(); });
    item.json = items.substr(at - 1, json.since(at).size());
    return good;
  });
  return out;
}

// Once what the conversation holds is charged to the exchange.
void with_items(OpenAiState& state, Exchange& exchange, const std::string& id,
                std::function<Made(const base::Bytes&)> make) {
  auto found = find(state, exchange, id);
  if (!found) return respond(exchange, no_such_conversation());
  base::Bytes items = std::move(found->turns);
  if (!base::charge(exchange.memory(), base::MemoryKind::kInput, items))
    return respond(exchange, refuse(wire::no_room_for_answer()));
  const size_t bytes = items.size();
  responses::answer_made(state, exchange, bytes, [items, make = std::move(make)] { return make(items); });
}

constexpr std::array<std::string_view, 2> kNew{"items", "metadata"};
constexpr std::array<std::string_view, 1> kAdded{"items"};

}  // namespace

ApiError no_such_conversation() {
  return {base::failure(base::Code::kNotFound, "there is no such conversation, or no more"), "conversation_id",
          "conversation_not_found"};
}

ApiError append_items(OpenAiState& state, const Exchange& exchange, const std::string& id, std::string_view items) {
  ApiError bad = edit(state, exchange, id, [&](StoredResponse& stored) { return append(stored, items), ApiError{}; });
  if (!bad.ok()) bad.param = "conversation";
  if (bad.status.code != base::Code::kNotFound) return bad;
  const char* why = "the conversation was deleted before the response was complete";
  return {base::failure(base::Code::kAborted, why), bad.param, {}};
}

void create(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!state.options.stored || !state.options.stored->stores())
    return respond(exchange, refuse(base::failure(base::Code::kUnimplemented,
                                                  "this server stores no conversations (openai.response_ttl)")));
  with_body(state, exchange, kNew, [](OpenAiState& there, Exchange& x, Body&& body) {
    const auto since = there.bus.env().wall().time_since_epoch();
    const std::string id = "conv_" + random_id(there.bus, kIdDigits);
    std::string head = "{\"id\":\"" + id + "\",\"object\":\"conversation\",\"created_at\":" +
                       std::to_string(std::chrono::duration_cast<std::chrono::seconds>(since).count());
    const std::string json = responses::with_metadata(head + '}', body.metadata.empty() ? "{}" : body.metadata);
    StoredResponse stored;
    stored.kind = StoredKind::kConversation;
    stored.turns = base::Bytes::adopt(std::move(body.items));
    stored.response = base::Bytes::copy_of(json);
    if (!responses::keep_here(there, marshal::tenant_of(x.request()), id, std::move(stored)))
      return respond(x, refuse(base::try_again(base::Code::kResourceExhausted, "there is no room for a conversation")));
    respond_json(x, json);
  });
}

void show(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto found = find(state, exchange, std::string(args["conversation"]));
  found ? respond_json(exchange, std::string(found->response.view())) : respond(exchange, no_such_conversation());
}

void update(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  read_body<std::string>(
      state, exchange,
      [](std::string_view body, std::string& metadata) { return responses::read_metadata(body, metadata); },
      [id = std::string(args["conversation"])](OpenAiState& there, Exchange& x, std::string&& metadata) {
        std::string json;
        const ApiError bad = edit(there, x, id, [&](StoredResponse& stored) {
          json = responses::with_metadata(stored.response.view(), metadata);
          stored.response = base::Bytes::copy_of(json);
          return ApiError{};
        });
        bad.ok() ? respond_json(x, std::move(json)) : respond(x, bad);
      });
}

void forget(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const std::string id(args["conversation"]);
  if (!responses::remove_stored(state, exchange, id, StoredKind::kConversation))
    return respond(exchange, no_such_conversation());
  std::string out = "{\"id\":";
  marshal::write_string(out, id);
  respond_json(exchange, out += R"(,"object":"conversation.deleted","deleted":true})");
}

void add_items(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_body(
      state, exchange, kAdded, [id = std::string(args["conversation"])](OpenAiState& there, Exchange& x, Body&& body) {
        if (body.items.empty()) return respond(x, refuse("items", "items: expected a list of items"));
        const ApiError bad =
            edit(there, x, id, [&](StoredResponse& stored) { return append(stored, body.items), ApiError{}; });
        if (!bad.ok()) return respond(x, bad);
        responses::Objects added;
        for (ListedItem& item : items_of(body.items)) added.emplace_back(std::move(item.id), item.json);
        respond_json(x, responses::make_page(std::move(added), {kMostAdded, jobs::FileOrder::kOldestFirst, {}}).json);
      });
}

void list_items(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto page = responses::read_page(exchange, jobs::FileOrder::kNewestFirst);
  if (!page) return;
  with_items(state, exchange, std::string(args["conversation"]), [page = *std::move(page)](const base::Bytes& items) {
    responses::Objects all;
    for (ListedItem& item : items_of(items.view())) all.emplace_back(std::move(item.id), item.json);
    return responses::make_page(std::move(all), page);
  });
}

void show_item(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_items(state, exchange, std::string(args["conversation"]),
             [id = std::string(args["item"])](const base::Bytes& items) {
               for (const ListedItem& item : items_of(items.view()))
                 if (item.id == id) return Made{{}, std::string(item.json)};
               return Made{no_such_item(), {}};
             });
}

void delete_item(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  std::string json;
  const ApiError bad = edit(state, exchange, std::string(args["conversation"]), [&](StoredResponse& stored) {
    std::string rest;
    bool found = false;
    for (const ListedItem& item : items_of(stored.turns.view())) {
      if (item.id == args["item"] && !std::exchange(found, true)) continue;
      (rest += rest.empty() ? "" : ",") += item.json;
    }
    json = std::string(stored.response.view());
    stored.turns = base::Bytes::adopt(std::move(rest));
    return found ? ApiError{} : no_such_item();
  });
  bad.ok() ? respond_json(exchange, std::move(json)) : respond(exchange, bad);
}

}  // namespace weir::openai::conversations
