#include <algorithm>
#include <array>
#include <functional>
#include <memory>
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

using responses::JsonOrError;
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

ApiError in_words(ApiError bad, const char* param) {
  if (bad.status.code == base::Code::kNotFound && bad.code.empty()) return no_such_conversation();
  return bad.code == responses::kTooLarge ? conversation_is_full(param) : bad;
}

void edit(OpenAiState& state, Exchange& exchange, const std::string& id, responses::Edit change,
          std::function<void(ApiError)> then) {
  responses::edit_stored(state, exchange, id, StoredKind::kConversation, std::move(change),
                         [then = std::move(then)](ApiError bad) { then(in_words(std::move(bad), "items")); });
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
  std::string page;      // of them, where that is the answer
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

// `more` is made of the body where that is read.
template <class Then>
void with_body(OpenAiState& state, Exchange& exchange, std::span<const std::string_view> known, void (*more)(Body&),
               Then then) {
  read_document<Body>(
      state, exchange,
      [known, more, ids = random_id(state.bus, kIdDigits)](std::string_view text, Body& body) {
        ApiError bad = read_members(text, known, ids, body);
        if (bad.ok()) more(body);
        return bad;
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

void make_page_of_added(Body& body) {
  responses::Objects added;
  for (ListedItem& item : items_of(body.items)) added.emplace_back(std::move(item.id), item.json);
  body.page = responses::make_page(std::move(added), {kMostAdded, jobs::ListOrder::kOldestFirst, {}}).json;
}

// The conversation's items, charged to the exchange. Nothing, and the request is answered: there is none, or no
// room.
std::optional<base::Bytes> charged_items(OpenAiState& state, Exchange& exchange, const std::string& id) {
  auto found = find(state, exchange, id);
  if (!found) return respond(exchange, no_such_conversation()), std::nullopt;
  if (base::charge(exchange.memory(), base::MemoryKind::kInput, found->turns)) return std::move(found->turns);
  return respond(exchange, refuse(wire::no_room_for_answer())), std::nullopt;
}

void with_items(OpenAiState& state, Exchange& exchange, const std::string& id,
                std::function<JsonOrError(const base::Bytes&)> make) {
  const auto items = charged_items(state, exchange, id);
  if (!items) return;
  responses::answer_json(state, exchange, items->size(),
                         [items = *items, make = std::move(make)] { return make(items); });
}

// ---- Deleting one

struct Place {
  size_t begin = 0, end = 0;  // of an item in the conversation's
};
struct Sought {
  std::string conversation, item;
  int looks = 0;
};

ApiError find_place(std::string_view items, std::string_view id, Place& out) {
  for (const ListedItem& item : items_of(items)) {
    if (item.id != id) continue;
    out.begin = size_t(item.json.data() - items.data());
    out.end = out.begin + item.json.size();
    return {};
  }
  return no_such_item();
}

// Without the item there, and without one comma.
std::string without(std::string_view items, Place item) {
  if (item.begin > 0)
    --item.begin;
  else if (item.end < items.size())
    ++item.end;
  std::string out;
  out.reserve(items.size() - (item.end - item.begin));
  return (out += items.substr(0, item.begin)) += items.substr(item.end);
}

constexpr std::string_view kMoved = "moved";  // the code of an edit's refusal

void delete_sought(OpenAiState& state, Exchange& exchange, Sought sought);

// `seen`: where the item was found. It is there still where all up to its end is as it was; whatever has come behind
// it.
void cut_out(OpenAiState& state, Exchange& exchange, const base::Bytes& seen, Place item, Sought sought) {
  auto json = std::make_shared<std::string>();
  const auto change = [seen, item, json](StoredResponse& stored) {
    const std::string_view now = stored.turns.view();
    if (!now.starts_with(seen.view().substr(0, item.end))) return ApiError{base::invalid(""), {}, kMoved};
    *json = stored.response.view();
    stored.turns = base::Bytes::adopt(without(now, item));
    return ApiError{};
  };
  const std::string id = sought.conversation;
  edit(state, exchange, id, change, [&state, &exchange, json, sought = std::move(sought)](ApiError bad) {
    if (bad.ok()) return respond_json(exchange, std::move(*json));
    bad.code == kMoved ? delete_sought(state, exchange, sought) : respond(exchange, bad);
  });
}

// The item is looked for by a worker where the conversation is long.
void delete_sought(OpenAiState& state, Exchange& exchange, Sought sought) {
  constexpr int kMostLooks = 3;
  if (++sought.looks > kMostLooks) return respond(exchange, responses::edit_conflict());
  const auto items = charged_items(state, exchange, sought.conversation);
  if (!items) return;
  read_text<Place>(
      state, exchange, *items, items->size(),
      [id = sought.item](std::string_view text, Place& item) { return find_place(text, id, item); },
      [seen = *items, sought](OpenAiState& there, Exchange& x, Place&& item) {
        cut_out(there, x, seen, item, sought);
      });
}

constexpr std::array<std::string_view, 2> kNew{"items", "metadata"};
constexpr std::array<std::string_view, 1> kAdded{"items"};

}  // namespace

ApiError no_such_conversation() {
  return {base::failure(base::Code::kNotFound, "there is no such conversation, or no more"), "conversation_id",
          "conversation_not_found"};
}

ApiError conversation_is_full(const char* param) {
  return {base::invalid("there is no room for more"), param, "conversation_full"};
}

ApiError check_room(const OpenAiState& state, const Exchange& exchange, const std::string& id, std::string_view items) {
  constexpr size_t kShortest = 128;  // bytes of an answer's item, about
  const auto found = find(state, exchange, id);
  if (!found) return no_such_conversation();
  if (state.options.stored->may_grow(*found, items.size() + kShortest)) return {};
  return conversation_is_full();
}

std::optional<ApiError> append_items(OpenAiState& state, const Exchange& exchange, const std::string& id,
                                     std::string_view items) {
  constexpr const char* kParam = "conversation";
  auto done = responses::try_edit(state, exchange, id, StoredKind::kConversation,
                                  [&](StoredResponse& stored) { return append(stored, items), ApiError{}; });
  if (!done || done->ok()) return done;
  if (done->status.code != base::Code::kNotFound) return in_words(*std::move(done), kParam);
  const char* why = "the conversation was deleted before the response was complete";
  return ApiError{base::failure(base::Code::kAborted, why), kParam, {}};
}

void create(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!state.options.stored || !state.options.stored->stores())
    return respond(exchange, refuse(base::failure(base::Code::kUnimplemented,
                                                  "this server stores no conversations (openai.response_ttl)")));
  with_body(
      state, exchange, kNew, [](Body&) {},
      [](OpenAiState& there, Exchange& x, Body&& body) {
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
          return respond(
              x, refuse(base::try_again(base::Code::kResourceExhausted, "there is no room for a conversation")));
        respond_json(x, json);
      });
}

void show(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto found = find(state, exchange, std::string(args["conversation"]));
  found ? respond_json(exchange, std::string(found->response.view())) : respond(exchange, no_such_conversation());
}

void update(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  read_document<std::string>(
      state, exchange,
      [](std::string_view body, std::string& metadata) { return responses::read_metadata(body, metadata); },
      [id = std::string(args["conversation"])](OpenAiState& there, Exchange& x, std::string&& metadata) {
        auto json = std::make_shared<std::string>();
        const auto change = [json, metadata](StoredResponse& stored) {
          *json = responses::with_metadata(stored.response.view(), metadata);
          stored.response = base::Bytes::copy_of(*json);
          return ApiError{};
        };
        edit(there, x, id, change,
             [&x, json](ApiError bad) { bad.ok() ? respond_json(x, std::move(*json)) : respond(x, bad); });
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
  with_body(state, exchange, kAdded, make_page_of_added,
            [id = std::string(args["conversation"])](OpenAiState& there, Exchange& x, Body&& body) {
              if (body.items.empty()) return respond(x, refuse("items", "items: expected a list of items"));
              auto added = std::make_shared<Body>(std::move(body));
              const auto change = [added](StoredResponse& stored) { return append(stored, added->items), ApiError{}; };
              edit(there, x, id, change,
                   [&x, added](ApiError bad) { bad.ok() ? respond_json(x, std::move(added->page)) : respond(x, bad); });
            });
}

void list_items(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto page = responses::read_page(exchange, jobs::ListOrder::kNewestFirst);
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
                 if (item.id == id) return JsonOrError{{}, std::string(item.json)};
               return JsonOrError{no_such_item(), {}};
             });
}

void delete_item(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  delete_sought(state, exchange, {std::string(args["conversation"]), std::string(args["item"])});
}

}  // namespace weir::openai::conversations
