#include <algorithm>
#include <memory>
#include <utility>

#include "base/attempt.h"
#include "base/memory_ledger.h"
#include "base/units.h"
#include "dialects/openai/conversations/conversations.h"
#include "dialects/openai/count.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/continuations.h"
#include "dialects/openai/responses/listing.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/replay.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/answer_flow.h"
#include "wire/offload.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

// Charges a text of this node's store for as long as the request uses it; one from another node is charged already.
// False: there is no room.
bool charge(Exchange& exchange, base::Bytes& text) {
  return base::charge(exchange.memory(), base::MemoryKind::kInput, text);
}

void go_on(OpenAiState& state, Exchange& exchange, Request&& request, RequestSteps steps,
           std::optional<base::Bytes> conversation);

void read(OpenAiState& state, Exchange& exchange, const StoredView& view, RequestSteps steps, size_t more = 0) {
  read_document<Request>(
      state, exchange,
      [view, steps](std::string_view body, Request& request) { return steps.read(body, view, request); },
      [steps, conversation = view.conversation](OpenAiState& there, Exchange& x, Request&& request) {
        go_on(there, x, std::move(request), steps, conversation);
      },
      more);
}

// The search for the responses that items of a body refer to.
struct Lookup {
  RequestSteps steps;
  std::optional<base::Bytes> conversation;
  std::vector<std::string> wanted;
  Referenced found;
  size_t bytes = 0;
};

void read_again(OpenAiState& state, Exchange& exchange, const std::shared_ptr<Lookup>& lookup) {
  StoredView view = stored_view(state, exchange);
  if (!lookup->found.empty()) view.referenced = {lookup, &lookup->found};
  view.conversation = lookup->conversation;
  read(state, exchange, std::move(view), lookup->steps, lookup->bytes);
}

// Finds them one after the other, so that a request asks the other nodes one question at a time.
void find_referenced(OpenAiState& state, Exchange& exchange, std::shared_ptr<Lookup> lookup) {
  if (lookup->wanted.empty()) return read_again(state, exchange, lookup);
  const std::string id = std::move(lookup->wanted.back());
  lookup->wanted.pop_back();
  find_turns(state, exchange, id, [&state, &exchange, id, lookup](base::Result<std::optional<StoredResponse>> found) {
    if (!found) return respond(exchange, {found.error(), "input", {}});
    base::Bytes& response = lookup->found[id];
    if (*found) response = std::move((*found)->response);
    if (!charge(exchange, response)) return respond(exchange, refuse(wire::no_room_for_answer()));
    if ((lookup->bytes += response.size()) > kMostReferencedBytes)
      return respond(exchange, refuse("input", "input: the responses that it refers to are too long"));
    find_referenced(state, exchange, lookup);
  });
}

// The items of a stored conversation. Nothing: there is none, or no room to read it, and the request is answered.
std::optional<base::Bytes> items_of_conversation(OpenAiState& state, Exchange& exchange, const std::string& id) {
  const StoredView view = stored_view(state, exchange);
  auto found = view.stored ? view.stored->find(view.tenant, id, view.now, StoredKind::kConversation) : std::nullopt;
  if (!found) return respond(exchange, conversations::no_such_conversation()), std::nullopt;
  if (charge(exchange, found->turns)) return std::move(found->turns);
  return respond(exchange, refuse(wire::no_room_for_answer())), std::nullopt;
}

// Goes on when a body was read. If it names a conversation or responses, these are found first, and it is read again.
void go_on(OpenAiState& state, Exchange& exchange, Request&& request, RequestSteps steps,
           std::optional<base::Bytes> conversation) {
  if (!request.conversation.empty() && !conversation) {
    auto lookup = std::make_shared<Lookup>();
    lookup->steps = steps;
    lookup->conversation = items_of_conversation(state, exchange, request.conversation);
    if (!lookup->conversation) return;
    lookup->bytes = lookup->conversation->size();
    return read_again(state, exchange, lookup);
  }
  if (!request.references.empty()) {
    auto lookup = std::make_shared<Lookup>();
    lookup->steps = steps;
    lookup->bytes = conversation ? conversation->size() : 0;
    lookup->conversation = std::move(conversation);
    lookup->wanted = std::move(request.references);
    return find_referenced(state, exchange, std::move(lookup));
  }
  if (request.previous.empty()) return steps.next(state, exchange, std::move(request));
  auto waiting = std::make_shared<Request>(std::move(request));
  const std::string id = waiting->previous;
  find_turns(state, exchange, id,
             [&state, &exchange, waiting, steps](base::Result<std::optional<StoredResponse>> found) {
               if (!found) return respond(exchange, {found.error(), "previous_response_id", {}});
               if (ApiError bad = check_previous(*found); !bad.ok()) return respond(exchange, bad);
               waiting->earlier = std::move((*found)->turns);
               if (!charge(exchange, waiting->earlier)) return respond(exchange, refuse(wire::no_room_for_answer()));
               steps.next(state, exchange, std::move(*waiting));
             });
}

std::optional<std::string> stop_in_background(OpenAiState& state, const Exchange& exchange, const std::string& id,
                                              BackgroundResponses::Ending ending) {
  auto* all = state.options.background;
  return all ? all->stop(marshal::tenant_of(exchange.request()), id, ending) : std::nullopt;
}

bool was_in_background(std::string_view response) {
  bool background = false;
  marshal::JsonCursor json(response);
  (void)json.object([&](std::string_view name) {
    if (name != "background") return json.skip();
    return json.boolean(background), false;
  });
  return background;
}

ApiError is_under_way() { return refuse("response_id", "the items of its input are there once the response is over"); }

}  // namespace

ApiError no_such_response() {
  return {base::failure(base::Code::kNotFound, "there is no such response, or no more"), "response_id",
          "response_not_found"};
}

StoredView stored_view(const OpenAiState& state, const Exchange& exchange) {
  const Continuations* of_connection = continuations_of(exchange);
  return {state.options.stored,
          marshal::tenant_of(exchange.request()),
          state.bus.env().now(),
          state.options.records,
          nullptr,
          std::nullopt,
          of_connection ? std::optional(of_connection->ids()) : std::nullopt,
          random_id(state.bus, kIdDigits)};
}

// The process that made it may have died when all nodes found it, and before the journal knew: it is not made again,
// for its client may have read it.
void answer_job(OpenAiState& state, Exchange& exchange, Request&& request) {
  if (!state.options.records || !is_job_of_response(state, exchange))
    return answer(state, exchange, Kind::kChat, std::move(request), response_answer);
  const std::string id = request.response_id;
  auto waiting = std::make_shared<Request>(std::move(request));
  find_response(state, exchange, id, [&state, &exchange, waiting](base::Result<std::optional<StoredResponse>> found) {
    if (found && *found) return respond_json(exchange, outcome_of(state, **found));
    answer(state, exchange, Kind::kChat, std::move(*waiting), response_answer);
  });
}

void read_with_references(OpenAiState& state, Exchange& exchange, RequestSteps steps) {
  read(state, exchange, stored_view(state, exchange), steps);
}

void create(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_with_references(
      state, exchange,
      {read_response, [](OpenAiState& there, Exchange& x, Request&& request) {
         auto [served, error] = find_model(there, x, request.model, bus::Needs::kTokens);
         if (!error.ok()) return respond(x, error);
         if (!request.conversation.empty())
           if (ApiError bad = conversations::check_room(there, x, request.conversation, request.new_items); !bad.ok())
             return respond(x, bad);
         repeat_defaults(served->spec.text->defaults, request);
         if (request.background) request.response_id = background_id(x);
         if (request.background && request.response_id.empty()) return begin_in_background(there, x, request);
         if (request.background) request.stream = false;  // its client's stream is replay.h's
         if (request.background) return answer_job(there, x, std::move(request));
         answer(there, x, Kind::kChat, std::move(request), response_answer);
       }});
}

void count_input(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_with_references(state, exchange, {read_response, [](OpenAiState& there, Exchange& x, Request&& request) {
                                           count_prompt(there, x, std::move(request), [](size_t tokens) {
                                             return R"({"object":"response.input_tokens","input_tokens":)" +
                                                    std::to_string(tokens) + '}';
                                           });
                                         }});
}

void show(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const std::string id(args["response"]);
  if (exchange.request().query_value("stream") == "true") {
    const std::string said = exchange.request().query_value("starting_after");
    const auto after = base::parse_count(said, INT32_MAX);
    if (!said.empty() && !after)
      return respond(exchange, refuse("starting_after", "starting_after must be the number of an event"));
    return replay(state, exchange, id, said.empty() ? -1 : int64_t(*after));
  }
  if (auto* background = state.options.background)
    if (auto so_far = background->find(marshal::tenant_of(exchange.request()), id))
      return respond_json(exchange, *std::move(so_far));
  find_known(state, exchange, id, [&exchange](auto found) {
    if (!found) return respond(exchange, refuse(found.error()));
    if (!*found) return respond(exchange, no_such_response());
    respond_json(exchange, std::move((*found)->stored.response));
  });
}

// One that is over stays as it is. The journal comes first: what is stored meanwhile has left it.
void cancel(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const std::string id(args["response"]);
  if (auto stopped = stop_in_background(state, exchange, id, BackgroundResponses::Ending::kCancelled))
    return cancel_put_off(state, exchange, id, [&exchange, stopped = *std::move(stopped)](auto&&) {
      respond_json(exchange, stopped);  // whether or not others know of it
    });
  cancel_put_off(state, exchange, id, [&state, &exchange, id](base::Result<FoundInJournal> there) {
    if (!there) return respond(exchange, refuse(there.error()));
    if (*there) return respond_json(exchange, std::move((*there)->stored.response));
    find_response(state, exchange, id, [&exchange](auto found) {
      if (!found) return respond(exchange, refuse(found.error()));
      if (!*found) return respond(exchange, no_such_response());
      if (!was_in_background((*found)->response.view()))
        return respond(exchange, refuse("response_id", "only a response that is made in the background is cancelled"));
      respond_json(exchange, std::move((*found)->response));
    });
  });
}

void list_input_items(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto page = read_page(exchange, jobs::ListOrder::kNewestFirst);
  if (!page) return;
  const std::string id(args["response"]);
  if (state.options.background && state.options.background->has(marshal::tenant_of(exchange.request()), id))
    return respond(exchange, is_under_way());
  find_known(state, exchange, id, [&state, &exchange, id, page = *std::move(page)](auto found) {
    if (!found) return respond(exchange, refuse(found.error()));
    if (!*found) return respond(exchange, no_such_response());
    if ((*found)->progress == KnownResponse::Progress::kUnderWay) return respond(exchange, is_under_way());
    StoredResponse stored = std::move((*found)->stored);
    if (!charge(exchange, stored.turns) || !charge(exchange, stored.response))
      return respond(exchange, refuse(wire::no_room_for_answer()));
    const size_t work = wire::work_of_document(stored.turns.size() + stored.response.size());
    answer_json(state, exchange, work, [id, stored, page] {
      return make_page(input_items(id, stored.turns.view(), stored.response.view()), page);
    });
  });
}

void forget(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const std::string id(args["response"]);
  const auto tell = [&exchange, id] {
    std::string out = "{\"id\":";
    marshal::write_string(out, id);
    respond_json(exchange, out += R"(,"object":"response","deleted":true})");
  };
  if (stop_in_background(state, exchange, id, BackgroundResponses::Ending::kForgotten))
    return delete_put_off(state, exchange, id, [&exchange, tell](base::Result<bool> there) {
      there ? tell() : respond(exchange, refuse(there.error()));
    });
  // In the journal first: what is stored meanwhile has left it, or its maker finds that it is deleted.
  delete_put_off(state, exchange, id, [&state, &exchange, id, tell](base::Result<bool> there) {
    const base::Status bad = there ? base::Status() : there.error();
    const bool deleted = there && *there;
    delete_response(state, exchange, id, [&exchange, tell, bad, deleted](base::Result<bool> here) {
      if (!here || !bad.ok()) return respond(exchange, refuse(here ? bad : here.error()));
      deleted || *here ? tell() : respond(exchange, no_such_response());
    });
  });
}

}  // namespace weir::openai::responses
