#include "dialects/openai/responses/background.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/attempt.h"
#include "base/encoding.h"
#include "base/memory_ledger.h"
#include "base/sip_hash.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/replay.h"
#include "dialects/openai/responses/responses.h"
#include "jobs/shard_jobs.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "marshal/tenant_name.h"
#include "wire/answer_flow.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

constexpr std::string_view kTokenField = "weir-background";
constexpr char kTooMany[] = "too many responses are made in the background; try again later";

// The beginning of a response that has just been asked for, up to what its client has sent.
std::string head_of_response(OpenAiState& state, const std::string& id, std::string_view model) {
  const auto since = state.bus.env().wall().time_since_epoch();
  std::string out = "{\"id\":\"" + id + "\",\"object\":\"response\",\"created_at\":";
  out += std::to_string(std::chrono::duration_cast<std::chrono::seconds>(since).count());
  out += R"(,"completed_at":null,"status":"queued","error":null,"incomplete_details":null,"model":)";
  marshal::write_string(out, model);
  return out;
}

std::string token_of(std::string_view id) {
  const std::string text = "background response " + std::string(id);
  const auto mac = base::hash128(base::process_key(), std::as_bytes(std::span<const char>(text)));
  const uint64_t words[2] = {mac.high, mac.low};
  return std::string(id) + '.' + base::hex({reinterpret_cast<const char*>(words), sizeof words});
}

// A run without what its client sent: that may be too large to be kept.
std::string without_echo(const BackgroundResponses::Run& run, std::string_view status, std::string_view error) {
  std::string response = with_status(run.queued.view().substr(0, run.head), status, error);
  return response += R"(,"background":true,"tools":[],"metadata":{},"output":[],"usage":null})";
}

// `then`: other nodes find it, or cannot for now.
void keep_ended(OpenAiState& state, const std::string& id, const BackgroundResponses::Run& run,
                const jobs::Outcome& outcome, const std::function<void()>& then) {
  const auto keep = [&](std::string response) {
    StoredResponse stored;
    stored.owner = run.owner;
    stored.response = base::Bytes::adopt(std::move(response));
    return keep_response(state, run.tenant, id, std::move(stored), then);
  };
  const std::string_view status = run.cancelled ? "cancelled" : "failed";
  if (outcome.status != 200) {
    const std::string error = run.cancelled ? "null" : error_of(outcome);
    if (keep(with_status(run.queued.view(), status, error)) || keep(without_echo(run, status, error))) return;
  } else if (keep(without_echo(run, "failed",
                               R"({"code":"server_error","message":"the response was too large to be kept"})"))) {
    return;
  }
  then();
}

// Known as one that is under way until here.
void end_kept_run(OpenAiState& state, const std::string& id, const std::string& owner, LiveEnd::How how) {
  auto run = state.options.background->end(id);
  if (!run) return;
  const base::Time now = state.bus.env().now();
  // It may wait for the journal for long: the request goes now.
  const auto forget = [options = &state.options, tenant = run->tenant, kept_by = run->owner, id, now] {
    forget_everywhere(*options, tenant, kept_by, id, now);
  };
  if (run->forgotten) forget();
  if (how != LiveEnd::How::kProcessEnds) end_live(state, {id, owner, how, forget});
}

// A response that was made has been stored by whoever made it, if there was room.
void end_run(OpenAiState& state, const std::string& id, const std::string& owner, const jobs::Outcome& outcome) {
  using How = LiveEnd::How;
  const auto run = state.options.background->run(id);
  if (!run) return;
  if (run->forgotten || state.options.stored->find(run->tenant, id, state.bus.env().now()))
    return end_kept_run(state, id, owner, How::kOther);
  const bool process_ends = outcome.status == 0 && state.options.jobs->draining();
  const How how = run->cancelled ? How::kCancelled : process_ends ? How::kProcessEnds : How::kOther;
  keep_ended(state, id, *run, outcome, [&state, id, owner, how] { end_kept_run(state, id, owner, how); });
}

jobs::ShardJobs::Aside second_request(OpenAiState& state, const Exchange& exchange, const std::string& id,
                                      const std::string& model, const BackgroundResponses::Run& run) {
  jobs::ShardJobs::Aside out;
  out.job.target = std::string(exchange.request().path());
  out.job.id = {id, 0};
  out.job.model = model;
  out.job.fields = "content-type: application/json\n" + token_field(id);
  out.job.body = std::string(exchange.content().view());
  out.job.requester = state.options.jobs->requester_of(exchange.request());
  out.job.requester.owner = marshal::name_of_tenant(exchange.request());
  // The tenant's number has a mark where it stands for many clients.
  const wire::PeerInfo* peer = exchange.request().peer;
  if (peer && peer->client && marshal::asks_for_many(exchange.request())) out.client = peer->client;
  // One that has been stored is not made again for want of memory to copy it.
  out.again = [&state, id, tenant = run.tenant] {
    return state.options.background->goes_on(id) &&
           !state.options.stored->find(tenant, id, state.bus.env().now()).has_value();
  };
  out.until = state.bus.env().now() + state.options.stored->ttl();
  // The journal does not know of many clients, and the response would be another one's.
  if (!out.client) out.put_off = [&state, id, requester = out.job.requester] { return put_off(state, id, requester); };
  out.cancel = [all = state.options.background, id, tenant = run.tenant] {
    all->stop(tenant, id, BackgroundResponses::Ending::kCancelled);
  };
  out.done = [&state, id, owner = out.job.requester.owner](const jobs::Outcome& outcome) {
    end_run(state, id, owner, outcome);
  };
  return out;
}

// A response whose client does not know its id yet. Where that leaves before, nobody else could stop it.
class Untold {
 public:
  Untold(BackgroundResponses& all, uint64_t tenant, std::string id) : all_(all), tenant_(tenant), id_(std::move(id)) {}
  Untold(const Untold&) = delete;
  ~Untold() {
    if (!told_) (void)base::attempt("a background response", [this] { stop(); });
  }
  void told() { told_ = true; }
  // False: it is over already.
  bool stop() { return all_.stop(tenant_, id_, BackgroundResponses::Ending::kForgotten).has_value(); }

 private:
  BackgroundResponses& all_;
  const uint64_t tenant_;
  const std::string id_;
  bool told_ = false;
};

}  // namespace

bool BackgroundResponses::begin(const std::string& id, Run run) {
  std::lock_guard lock(mutex_);
  const auto own =
      std::count_if(runs_.begin(), runs_.end(), [&](const auto& other) { return other.second.tenant == run.tenant; });
  if (runs_.size() >= kMost || size_t(own) >= kMost / 4) return false;
  return runs_.emplace(id, std::move(run)).second;
}

void BackgroundResponses::set_stop(const std::string& id, std::function<void()> stop) {
  std::lock_guard lock(mutex_);
  if (auto at = runs_.find(id); at != runs_.end()) at->second.stop = std::move(stop);
}

void BackgroundResponses::set_record(const std::string& id, std::shared_ptr<void> record) {
  std::lock_guard lock(mutex_);  // ends first: the record that goes gives memory back, and wakes who waits for some
  if (auto at = runs_.find(id); at != runs_.end()) at->second.record.swap(record);
}

std::string BackgroundResponses::queued(const std::string& id) const {
  std::lock_guard lock(mutex_);
  auto at = runs_.find(id);
  return at == runs_.end() ? std::string() : std::string(at->second.queued.view());
}

std::string BackgroundResponses::brief(const std::string& id) const {
  std::lock_guard lock(mutex_);
  auto at = runs_.find(id);
  return at == runs_.end() ? std::string() : without_echo(at->second, "queued", "null");
}

std::optional<BackgroundResponses::Run> BackgroundResponses::run(const std::string& id) const {
  std::lock_guard lock(mutex_);
  auto at = runs_.find(id);
  return at == runs_.end() ? std::nullopt : std::optional(at->second);
}

bool BackgroundResponses::goes_on(const std::string& id) const {
  std::lock_guard lock(mutex_);
  auto at = runs_.find(id);
  return at != runs_.end() && !at->second.cancelled;
}

bool BackgroundResponses::has(uint64_t tenant, const std::string& id) const {
  std::lock_guard lock(mutex_);
  auto at = runs_.find(id);
  return at != runs_.end() && at->second.tenant == tenant && !at->second.forgotten;
}

std::optional<std::string> BackgroundResponses::find(uint64_t tenant, const std::string& id) const {
  std::lock_guard lock(mutex_);
  auto at = runs_.find(id);
  if (at == runs_.end() || at->second.tenant != tenant || at->second.forgotten) return std::nullopt;
  return with_status(at->second.queued.view(), at->second.cancelled ? "cancelled" : "in_progress", "null");
}

std::optional<std::string> BackgroundResponses::stop(uint64_t tenant, const std::string& id, Ending ending) {
  std::function<void()> stop;
  base::Bytes queued;
  {
    std::lock_guard lock(mutex_);
    auto at = runs_.find(id);
    if (at == runs_.end() || at->second.tenant != tenant || at->second.forgotten) return std::nullopt;
    at->second.cancelled = true;
    at->second.forgotten = ending == Ending::kForgotten;
    stop = at->second.stop, queued = at->second.queued;
  }
  if (stop) stop();
  return with_status(queued.view(), "cancelled", "null");
}

std::optional<BackgroundResponses::Run> BackgroundResponses::end(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto node = runs_.extract(id);
  return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
}

void begin_in_background(OpenAiState& state, Exchange& exchange, const Request& request) {
  if (!state.options.background || !state.options.jobs)
    return respond(exchange, refuse("background", "background: not offered"));
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  const std::string id = "resp_" + random_id(state.bus, kIdDigits);
  BackgroundResponses::Run run;
  const uint64_t tenant = run.tenant = marshal::tenant_of(exchange.request());
  if (state.options.records) run.owner = marshal::name_of_tenant(exchange.request());
  std::string queued = head_of_response(state, id, name_in_answer(request.model, served->spec.name));
  run.head = queued.size();
  queued += ',' + request.echoed + ",\"output\":[],\"usage\":null}";
  run.queued = base::Bytes::copy_of(queued);
  if (!base::charge(exchange.memory(), base::MemoryKind::kInput, run.queued))
    return respond(exchange, refuse(wire::no_room_for_answer()));
  auto aside = second_request(state, exchange, id, request.model, run);
  std::optional<jobs::Job> live;
  if (journal_of(state)) live = aside.job;
  if (live && !aside.put_off) live->body.clear();
  if (!state.options.background->begin(id, std::move(run)))
    return respond(exchange, {base::try_again(base::Code::kResourceExhausted, kTooMany), "background", {}});
  auto stop = state.options.jobs->run_aside(std::move(aside));
  if (!stop) {
    state.options.background->end(id);
    return respond(exchange, refuse(base::try_again(base::Code::kUnavailable,
                                                    "no response begins in the background now; try again later")));
  }
  state.options.background->set_stop(id, std::move(stop));
  // Where this process dies as soon as the client knows the id, the journal has it, or the response is over.
  const auto tell = [&state, &exchange, id, untold = std::make_shared<Untold>(*state.options.background, tenant, id),
                     begun = base::Bytes::adopt(std::move(queued)),
                     stream = request.stream](const base::Status& written) {
    if (!written.ok() && untold->stop()) return respond(exchange, refuse(written));
    stream ? replay(state, exchange, id, -1) : respond_json(exchange, begun);
    untold->told();
  };
  live ? begin_live(state, exchange, *std::move(live), tell) : tell({});
}

std::string token_field(const std::string& id) { return std::string(kTokenField) + ": " + token_of(id) + '\n'; }

std::string background_id(const Exchange& exchange) {
  const std::string_view token = exchange.request().fields.find(kTokenField);
  const std::string_view id = token.substr(0, token.find('.'));
  return !id.empty() && token == token_of(id) ? std::string(id) : std::string();
}

std::string with_status(std::string_view queued, std::string_view status, std::string_view error) {
  constexpr std::string_view kQueued = R"("status":"queued","error":null)";
  const std::string now = "\"status\":\"" + std::string(status) + "\",\"error\":" + std::string(error);
  std::string response(queued);
  const size_t at = response.find(kQueued);
  return at == response.npos ? response : response.replace(at, kQueued.size(), now);
}

std::string error_of(const jobs::Outcome& outcome) {
  const auto said = nlohmann::json::parse(outcome.body, nullptr, false);
  std::string message = "the server ended the request";
  if (said.is_object() && said.contains("error") && said["error"].is_object())
    message = said["error"].value("message", message);
  if (outcome.status == 429 || outcome.status == 503)
    message = "it was refused until its time was over (openai.response_ttl): " + message;
  std::string out = R"({"code":")";
  const bool request_was_wrong = outcome.status >= 400 && outcome.status < 500;
  out += outcome.status == 429 ? "rate_limit_exceeded" : request_was_wrong ? "invalid_prompt" : "server_error";
  out += R"(","message":)";
  marshal::write_string(out, message);
  return out += '}';
}

}  // namespace weir::openai::responses
