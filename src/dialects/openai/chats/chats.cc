#include "dialects/openai/chats/chats.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "base/memory_ledger.h"
#include "base/sip_hash.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/responses/edits.h"
#include "dialects/openai/responses/listing.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/answer_flow.h"
#include "wire/offload.h"

namespace weir::openai::chats {
namespace {

using responses::JsonOrError;
using responses::Page;
using responses::StoredKind;
using responses::StoredResponse;
using wire::Exchange;

ApiError no_such_completion() {
  return {base::failure(base::Code::kNotFound, "there is no such chat completion, or no more"), "completion_id",
          "completion_not_found"};
}

ApiError in_words(ApiError bad) {
  return bad.status.code == base::Code::kNotFound ? no_such_completion() : std::move(bad);
}

// StoredResponse::about says what lists are asked for by: hashes of eight bytes, of the model and of each pair of
// metadata. So a list costs little, however long the texts are.
using Mark = uint64_t;
constexpr size_t kMostWanted = 17;

Mark mark_of_model(std::string_view model) { return base::hash64(base::process_key(), "model " + std::string(model)); }
Mark mark_of(const std::string& key, const std::string& value) {
  return base::hash64(base::process_key(), "metadata " + std::to_string(key.size()) + ' ' + key + value);
}
void add(std::string& marks, Mark mark) { marks.append(reinterpret_cast<const char*>(&mark), sizeof mark); }

std::string about(std::string_view model, const OrderedJson& metadata) {
  std::string out;
  add(out, mark_of_model(model));
  for (const auto& [key, value] : metadata.items()) add(out, mark_of(key, value.get<std::string>()));
  return out;
}

// Nothing: no completion has as many.
std::optional<std::vector<Mark>> wanted_marks(const wire::Request& request) {
  constexpr std::string_view kMetadata = "metadata[";
  std::vector<Mark> out;
  if (const std::string model = request.query_value("model"); !model.empty()) out.push_back(mark_of_model(model));
  for (std::string_view rest = request.query(); !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const auto name = base::percent_decode(pair.substr(0, pair.find('=')));
    if (!name || !name->starts_with(kMetadata) || !name->ends_with(']')) continue;
    if (out.size() == kMostWanted) return std::nullopt;
    const std::string key = name->substr(kMetadata.size(), name->size() - kMetadata.size() - 1);
    out.push_back(mark_of(key, request.query_value(*name)));
  }
  return out;
}

bool has_all(std::string_view marks, const std::vector<Mark>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](Mark one) {
    for (std::string_view rest = marks; rest.size() >= sizeof one; rest.remove_prefix(sizeof one))
      if (std::memcmp(rest.data(), &one, sizeof one) == 0) return true;
    return false;
  });
}

struct Found {
  std::vector<std::pair<std::string, base::Bytes>> chats;
  bool more = false;
};
// A page is no longer than the largest completion, whatever its limit. Nothing: none has the id that it is behind.
std::optional<Found> find_page(OpenAiState& state, const Exchange& exchange, const Page& page) {
  using responses::StoredResponses;
  const auto wanted = wanted_marks(exchange.request());
  if (!wanted) return Found();
  const auto order = page.order == jobs::ListOrder::kNewestFirst ? StoredResponses::Order::kNewestFirst
                                                                 : StoredResponses::Order::kOldestFirst;
  Found out;
  size_t bytes = 0;
  const bool known = state.options.stored->each_chat(
      marshal::tenant_of(exchange.request()), state.bus.env().now(), page.after, order,
      [&](const std::string& id, const StoredResponse& chat) {
        if (!has_all(chat.about, *wanted)) return true;
        bytes += chat.response.size();
        out.more = out.chats.size() == page.limit || bytes > StoredResponses::kMostBytes;
        if (!out.more) out.chats.emplace_back(id, chat.response);
        return !out.more;
      });
  return known ? std::optional(std::move(out)) : std::nullopt;
}

OrderedJson message_of(const OrderedJson& said, std::string id) {
  OrderedJson out{
      {"id", std::move(id)}, {"role", nullptr}, {"content", nullptr}, {"name", nullptr}, {"content_parts", nullptr}};
  if (!said.is_object()) return out;
  for (const auto& [name, value] : said.items())
    if (name != "id") out[name == "content" && value.is_array() ? "content_parts" : name] = value;
  return out;
}

}  // namespace

ApiError check_stored(const Request& request) {
  if (request.metadata.empty()) return {};
  return translate(R"({"metadata":)" + std::string(request.metadata) + '}',
                   [](const OrderedJson& body) { return responses::check_metadata(member(body, "metadata")); });
}

bool are_kept(const OpenAiState& state, const Request& request, uint64_t bytes) {
  const auto* stored = state.options.stored;
  return request.store && stored && stored->stores() && bytes <= responses::StoredResponses::kMostBytes;
}

void keep(OpenAiState& state, const Exchange& exchange, const Request& request, const std::string& id,
          std::string_view model, std::string_view completion) {
  if (!state.options.stored || !state.options.stored->stores()) return;
  // Between clients that cannot be told apart an id has to be a secret, and one that was chosen is none.
  if (!request.request_id.empty() && marshal::asks_for_many(exchange.request())) return;
  const OrderedJson said = OrderedJson::parse(request.metadata, nullptr, false);
  const OrderedJson metadata = said.is_object() ? said : OrderedJson::object();
  StoredResponse stored;
  stored.kind = StoredKind::kChat;
  stored.turns = base::Bytes::copy_of(request.messages.substr(1, request.messages.size() - 2));
  stored.response = base::Bytes::adopt(responses::with_metadata(completion, metadata.dump()));
  stored.about = about(model, metadata);
  (void)responses::keep_here(state, marshal::tenant_of(exchange.request()), id, std::move(stored));
}

void show(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto found = responses::find_stored(state, exchange, std::string(args["completion"]), StoredKind::kChat);
  found ? respond_json(exchange, std::move(found->response)) : respond(exchange, no_such_completion());
}

void update(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  read_document<std::string>(
      state, exchange,
      [](std::string_view body, std::string& metadata) { return responses::read_metadata(body, metadata); },
      [id = std::string(args["completion"])](OpenAiState& there, Exchange& x, std::string&& metadata) {
        auto json = std::make_shared<base::Bytes>();
        const auto change = [json, metadata](StoredResponse& stored) {
          stored.response = *json = base::Bytes::adopt(responses::with_metadata(stored.response.view(), metadata));
          stored.about.resize(sizeof(Mark));
          stored.about += about({}, OrderedJson::parse(metadata)).substr(sizeof(Mark));
          return ApiError{};
        };
        edit_stored(there, x, id, StoredKind::kChat, change, [&x, json](ApiError bad) {
          bad.ok() ? respond_json(x, std::move(*json)) : respond(x, in_words(std::move(bad)));
        });
      });
}

void forget(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const std::string id(args["completion"]);
  if (!responses::remove_stored(state, exchange, id, StoredKind::kChat)) return respond(exchange, no_such_completion());
  std::string out = "{\"object\":\"chat.completion.deleted\",\"id\":";
  marshal::write_string(out, id);
  respond_json(exchange, out += ",\"deleted\":true}");
}

// An address that stands for many clients has no list: ids are secrets between them.
void list(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  auto page = responses::read_page(exchange, jobs::ListOrder::kOldestFirst);
  if (!page) return;
  std::optional<Found> found = Found();
  if (state.options.stored && !marshal::asks_for_many(exchange.request())) found = find_page(state, exchange, *page);
  if (!found) return respond(exchange, refuse("after", "after: there is no such chat completion"));
  responses::Objects objects;
  for (auto& [id, json] : found->chats) objects.emplace_back(std::move(id), json.view());
  const size_t shown = objects.size();
  if (found->more) objects.emplace_back();
  respond_json(exchange, batches::list_json(objects, shown));
}

void list_messages(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto page = responses::read_page(exchange, jobs::ListOrder::kOldestFirst);
  if (!page) return;
  const std::string id(args["completion"]);
  auto found = responses::find_stored(state, exchange, id, StoredKind::kChat);
  if (!found) return respond(exchange, no_such_completion());
  base::Bytes messages = std::move(found->turns);
  if (!base::charge(exchange.memory(), base::MemoryKind::kInput, messages))
    return respond(exchange, refuse(wire::no_room_for_answer()));
  const size_t work = wire::work_of_document(messages.size());
  responses::answer_json(state, exchange, work, [id, messages, page = *std::move(page)] {
    responses::Objects all;
    const OrderedJson said = OrderedJson::parse('[' + std::string(messages.view()) + ']', nullptr, false);
    for (size_t i = 0; i < said.size(); ++i) {
      const std::string own = id + '-' + std::to_string(i);
      all.emplace_back(own, message_of(said[i], own).dump());
    }
    return responses::make_page(std::move(all), page);
  });
}

}  // namespace weir::openai::chats
