// Stored responses that every node of a cluster finds. What the others read:
//
//   record = "weir-response " ("1 " number | "2 " number " " cuts) LF turns response
//            the number: bytes of the turns; cuts: of its stream (replay.h)
//
// The client's own node asks the others' bucket, too: whoever has deleted a response may have done so at another one.
#include <charconv>
#include <memory>
#include <utility>

#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/tenant.h"
#include "marshal/tenant_name.h"
#include "wire/service_guard.h"

namespace weir::openai::responses {
namespace {

using base::Code;
using base::Status;
using session::SharedRecords;
using wire::Exchange;
using Found = SharedRecords::Found;

constexpr std::string_view kSharedHead = "weir-response 1 ", kStreamedHead = "weir-response 2 ";

// Notes that the client has left while other nodes are asked. The ExchangeListener that is attached next replaces it.
class AwaitsNodes final : public wire::ExchangeListener {
 public:
  explicit AwaitsNodes(std::shared_ptr<bool> over) : over_(std::move(over)) {}
  void on_close(Exchange&, bool) override { *over_ = true; }

 private:
  const std::shared_ptr<bool> over_;
};

// Calls `work` with what comes, unless the exchange is over by then.
template <class T, class Work>
std::function<void(T)> while_open(Exchange& exchange, Work work) {
  auto over = std::make_shared<bool>(false);
  exchange.attach(std::make_unique<AwaitsNodes>(over));
  return [&exchange, over, work = std::move(work)](T what) {
    if (!*over) wire::guarded(exchange, [&] { work(std::move(what)); });
  };
}

// Sets the shard's one timer to the time at which the next stored response expires.
void arm_forgetting(OpenAiState& state) {
  if (state.forgets != base::TimerId::kNone) return;
  base::Env& env = state.bus.env();
  const base::Time next = state.options.stored->expire(env.now());
  if (next == base::kNever) return;
  state.forgets = env.at(next, [&state] {
    state.forgets = base::TimerId::kNone;
    arm_forgetting(state);
  });
}

std::optional<StoredResponse> find_here(const StoredView& view, const std::string& id) {
  return view.stored ? view.stored->find(view.tenant, id, view.now) : std::nullopt;
}

base::Result<std::optional<StoredResponse>> choose(const StoredView& view, const std::string& id,
                                                   base::Result<Found> found) {
  auto here = find_here(view, id);
  if (!found) return here ? base::Result<std::optional<StoredResponse>>(std::move(here)) : found.error();
  if (found->state == Found::State::kErased && here) view.stored->remove(view.tenant, id, view.now);
  if (found->state == Found::State::kErased) return std::optional<StoredResponse>();
  if (found->state == Found::State::kUnknown) return here;
  // Where two nodes have made one in the background, the copy of all nodes counts.
  auto there = read_shared(found->record);
  if (!there && here) return here;
  if (!there) return base::failure(Code::kDataLoss, "what was kept of the response cannot be read");
  return there;
}

}  // namespace

std::string write_shared(const StoredResponse& stored) {
  std::string out(stored.about.empty() ? kSharedHead : kStreamedHead);
  out += std::to_string(stored.turns.size());
  if (!stored.about.empty()) (out += ' ') += stored.about;
  out += '\n';
  out.reserve(out.size() + stored.turns.size() + stored.response.size());
  out += stored.turns.view();
  return out += stored.response.view();
}

std::optional<StoredResponse> read_shared(const base::Bytes& record) {
  std::string_view text = record.view();
  const bool streamed = text.starts_with(kStreamedHead);
  if (!streamed && !text.starts_with(kSharedHead)) return std::nullopt;
  text.remove_prefix(kSharedHead.size());
  size_t turns = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), turns);
  text.remove_prefix(size_t(end - text.data()));
  if (error != std::errc() || !text.starts_with(streamed ? ' ' : '\n')) return std::nullopt;
  const size_t line = text.find('\n');
  if (line == text.npos) return std::nullopt;
  StoredResponse out;
  out.about = text.substr(streamed ? 1 : 0, line - (streamed ? 1 : 0));
  text.remove_prefix(line + 1);
  if (turns >= text.size()) return std::nullopt;
  out.turns = record.slice(text.substr(0, turns));
  out.response = record.slice(text.substr(turns));
  return out;
}

void find_response(OpenAiState& state, Exchange& exchange, const std::string& id, FoundResponse then) {
  const StoredView view = stored_view(state, exchange);
  if (!view.records) return then(find_here(view, id));
  auto back = while_open<base::Result<Found>>(
      exchange, [&state, &exchange, id, then = std::move(then)](base::Result<Found> found) {
        then(choose(stored_view(state, exchange), id, std::move(found)));
      });
  view.records->read_record(marshal::name_of_tenant(exchange.request()), id, state.options.shard, std::move(back));
}

void delete_response(OpenAiState& state, Exchange& exchange, const std::string& id,
                     std::function<void(base::Result<bool>)> then) {
  const StoredView view = stored_view(state, exchange);
  if (!view.records) return then(view.stored && view.stored->remove(view.tenant, id, view.now));
  auto erased = [&state, &exchange, id, then](const Status& status) {
    if (!status.ok()) return then(status);
    const StoredView now = stored_view(state, exchange);
    now.stored->remove(now.tenant, id, now.now);
    then(true);
  };
  find_response(state, exchange, id, [&state, &exchange, id, then, erased](auto found) {
    if (!found) return then(found.error());
    if (!*found) return then(false);
    auto back = while_open<Status>(exchange, erased);
    state.options.records->erase_record(marshal::name_of_tenant(exchange.request()), id, state.options.shard,
                                        std::move(back));
  });
}

// One that a job of the journal makes may have been stopped at any node.
void store_response(OpenAiState& state, Exchange& exchange, const std::string& id, StoredResponse stored,
                    std::function<void()> then) {
  const std::string owner = marshal::name_of_tenant(exchange.request());
  const uint64_t tenant = marshal::tenant_of(exchange.request());
  if (state.options.records) stored.owner = owner;
  std::function<void()> done = std::move(then);
  if (is_job_of_response(state, exchange))
    done = [&state, id, owner, tenant, told = std::move(done)] {
      check_put_off(state, id, [options = &state.options, id, owner, tenant, now = state.bus.env().now()] {
        forget_everywhere(*options, tenant, owner, id, now);
      });
      told();
    };
  if (!keep_response(state, tenant, id, std::move(stored), done)) done();
}

bool keep_here(OpenAiState& state, uint64_t tenant, const std::string& id, StoredResponse stored) {
  const bool fits = state.options.stored->put(tenant, id, std::move(stored), state.bus.env().now());
  arm_forgetting(state);
  return fits;
}

bool keep_response(OpenAiState& state, uint64_t tenant, const std::string& id, StoredResponse stored,
                   std::function<void()> then) {
  session::SharedRecords* records = state.options.records;
  if (!keep_here(state, tenant, id, stored)) return false;
  if (!records) return then(), true;
  records->keep_record(stored.owner, id, write_shared(stored), state.options.shard,
                       [then = std::move(then)](const Status&) { then(); });
  return true;
}

void forget_everywhere(const Options& options, uint64_t tenant, const std::string& owner, const std::string& id,
                       base::Time now) {
  options.stored->remove(tenant, id, now);
  if (options.records) options.records->erase_record(owner, id, options.shard, [](const Status&) {});
}

void find_known(OpenAiState& state, Exchange& exchange, const std::string& id, FoundKnown then) {
  using Found = base::Result<std::optional<StoredResponse>>;
  const auto known = [](Found found) -> base::Result<std::optional<KnownResponse>> {
    if (!found) return found.error();
    if (!*found) return std::optional<KnownResponse>();
    return std::optional(KnownResponse{std::move(**found)});
  };
  find_response(state, exchange, id, [&state, &exchange, id, known, then = std::move(then)](Found found) {
    if (!found || *found || !journal_of(state)) return then(known(std::move(found)));
    find_in_journal(state, exchange, id, [&state, &exchange, id, known, then](base::Result<FoundInJournal> there) {
      if (!there) return then(there.error());
      // It may have come to its end in between.
      if (!*there)
        return find_response(state, exchange, id, [known, then](Found again) { then(known(std::move(again))); });
      KnownResponse out;
      out.stored = std::move((*there)->stored);
      if ((*there)->progress == JournalResponse::Progress::kUnderWay) out.progress = KnownResponse::Progress::kUnderWay;
      then(std::optional(std::move(out)));
    });
  });
}

void find_turns(OpenAiState& state, Exchange& exchange, const std::string& id, FoundResponse then) {
  find_known(state, exchange, id, [then = std::move(then)](base::Result<std::optional<KnownResponse>> found) {
    if (!found) return then(found.error());
    then(*found ? std::optional(std::move((*found)->stored)) : std::nullopt);
  });
}

}  // namespace weir::openai::responses
