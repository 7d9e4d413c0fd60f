#include "app/shard_server.h"

#include <algorithm>

#include "app/version.h"
#include "net/fetch.h"

namespace weir::app {
namespace {

constexpr std::string_view kModelPrefix = "model:";
constexpr uint64_t kLeastCalls = 16;  // every client may have so many calls in flight on a shard

base::ShareRule share_of(const Config& config, uint64_t least) { return {config.limits.client_share, least}; }

wire::BodyMemory::Rules body_rules(const ServerState& state) {
  wire::BodyMemory::Rules rules;
  rules.wait = state.config.limits.memory_wait;
  rules.share = share_of(state.config, 0);
  rules.budget = state.slabs.budget();
  return rules;
}

bus::BusLimits bus_limits(ServerState& state) {
  return {state.config.in_flight, &state.memory, share_of(state.config, kLeastCalls), state.config.anonymous};
}

wire::RpcOptions rpc_options(const Config& config, wire::BodyMemory& bodies) {
  wire::RpcOptions options;
  options.max_message = config.limits.message;
  options.inflate_ratio = config.limits.inflate_ratio;
  options.min_body_rate = config.limits.min_body_rate, options.grace = config.limits.grace;
  options.bodies = &bodies;
  return options;
}

// The links of the dialects that are on, and those of the server itself.
std::vector<dialects::FrontPageLink> front_page_links(const Config& config) {
  std::vector<dialects::FrontPageLink> links;
  for (const auto* dialect : config.served())
    for (const auto& link : dialect->links()) links.push_back(link);
  links.insert(links.end(),
               {{"metrics", "/metrics", "Counters and histograms for Prometheus"},
                {"health", "/v2/health/ready", "Whether requests are welcome, by the Open Inference Protocol"},
                {"live", "/livez", "Whether the process is alive"},
                {"ready", "/readyz", "Whether requests are welcome; if not, why"},
                {"openapi", "/openapi.json", "All of it as OpenAPI 3.1, for tools"},
                {"docs", "/docs", "The reference of this API; as text, the manual of this version"}});
  return links;
}

// How the dialects that are on describe their routes.
std::vector<std::string> api_texts(const Config& config) {
  std::vector<std::string> texts;
  for (const auto* dialect : config.served())
    if (std::string text = dialect->openapi(); !text.empty()) texts.push_back(std::move(text));
  return texts;
}

ops::ConsoleOptions console_options(const Config& config) {
  ops::ConsoleOptions options = config.console;
  options.settings = show_json(config);
  return options;
}

// Collects the values that the console shows, as they are now. Any thread.
ops::LiveState::Source live_source(ServerState& state) {
  ops::LiveState::Source now{std::chrono::system_clock::now(), state.metrics.text(), "", nullptr,
                             base::log::recent_warnings()};
  if (!state.catalog) return now;
  now.catalog = state.catalog();
  now.not_ready = why_not_ready(state, *now.catalog);
  return now;
}

// For strangers, who are told no paths.
std::string trouble_of_folders(const ServerState& state) {
  if (!state.repository || state.repository->trouble().empty()) return {};
  return "the model repository could not be read at the last look: what was loaded stays, and the log says why";
}

// Null where the rules name no scheme.
base::Result<std::unique_ptr<wire::Fetcher>> make_fetcher(net::Shard& shard, const wire::FetchRules& rules,
                                                          uint64_t max_bytes) {
  std::unique_ptr<wire::Fetcher> fetcher;
  if (rules.schemes.empty()) return fetcher;
  auto made = net::WebFetcher::make(shard, rules, max_bytes);
  if (!made) return made.error();
  fetcher = std::move(*made);
  return fetcher;
}

// Nothing where everybody may do everything.
std::optional<BackgroundCallers> make_callers(ShardAccess& access) {
  if (auto* authenticator = access.authenticator())
    return std::optional<BackgroundCallers>(std::in_place, *authenticator);
  return std::nullopt;
}

jobs::ShardJobs::Surroundings job_surroundings(net::Shard& shard, ServerState& state, uint32_t shards,
                                               wire::Router& router, std::optional<BackgroundCallers>& callers) {
  using Hosts = jobs::ShardJobs::Surroundings::Hosts;
  return {shard.env(),
          shard.id(),
          shards,
          router,
          &state.memory,
          callers ? &*callers : nullptr,
          [&shard](std::function<void()> work) { shard.post(std::move(work)); },
          state.config.anonymous == msg::Anonymous::kShared ? Hosts::kTogether : Hosts::kApart};
}

}  // namespace

std::vector<std::string> services(const Config& config) {
  std::vector<std::string> out{std::string(ops::Health::kService)};
  for (const auto* dialect : config.served())
    for (auto name : dialect->services()) out.emplace_back(name);
  return out;
}

base::Status open_dialects(ServerState& state, uint32_t shards,
                           std::function<void(base::ShardId, std::function<void()>)> post) {
  const Config& config = state.config;
  if (auto s = state.access.open(); !s.ok()) return s;
  if (state.others) state.others->post_by(post);
  state.feed = std::make_unique<ops::RequestFeed>(shards, post);
  state.live = std::make_unique<ops::LiveFeed>(shards, post, [&state] { return live_source(state); });
  state.recent = std::make_unique<ops::RecentRequests>(shards, post, config.recent);
  const dialects::ServerServices services{
      config.server_name, kVersion,     config.limits, config.conn_calls, config.anonymous,
      state.metrics,      state.memory, shards,        std::move(post),   [&state] { return state.gpus.latest(); },
      state.jobs,         state.others, state.others};
  state.jobs.count_in(state.metrics);
  for (auto* dialect : config.served())
    if (auto s = dialect->open(services); !s.ok()) return s;
  return {};
}

std::string why_not_ready(ServerState& state, const bus::Catalog& catalog) {
  const auto phase = state.phase.load();
  const auto rule = state.config.readiness;
  if (phase == ServerState::Phase::kDraining) return "the server is shutting down";
  if (state.memory.update_overload() >= base::Overload::kRefuse)
    return state.memory.shortage() + ", and requests are refused (overload.refuse)";
  if (phase == ServerState::Phase::kLoading && rule != bus::ReadinessRule::kAny) return "models are loading";
  return bus::why_not_ready(catalog, rule, state.said().get());
}

// An empty post makes the loop turn, and each turn delivers the bus's mail.
ShardServer::ShardServer(net::Shard& shard, ServerState& state, uint32_t shards)
    : shard_(shard),
      state_(state),
      bus_(
          shard.env(), shard.id(), [&shard] { shard.post([] {}); }, bus_limits(state)),
      bodies_(shard.env(), state.body_need, body_rules(state)),
      router_(shard.env(), wire::Cors{state.config.cors_origins}, wire::TrustedHosts{state.config.http_hosts}),
      access_(shard, state.access),
      callers_(make_callers(access_)),
      jobs_(state.jobs, job_surroundings(shard, state, shards, router_, callers_)),
      rpcs_(router_, shard.env(), state.slabs, &state.json, rpc_options(state.config, bodies_)),
      services_(state.reflection.services()),
      health_(*this),
      pages_(router_, state.metrics, offload_,
             {[this] { return why_not_ready(); }, state.cluster, [&state] { return trouble_of_folders(state); }}),
      console_(router_, bus_, shard.env(), *this, console_options(state.config)),
      front_page_(router_, kVersion, front_page_links(state.config), console_.page()),
      api_docs_(router_, bus_, offload_, kVersion, api_texts(state.config)),
      request_metrics_(state.metrics, [this](const auto& model) { return bus_.catalog().models.contains(model); }) {
  if (callers_) router_.authenticate(*callers_);
  if (state.others) {
    router_.authenticate(node_callers_.emplace(
        shard.env(), callers_ ? &*callers_ : nullptr, access_.authenticator(), state.clients,
        state.others->targets().key(),
        state.config.cluster.listen.empty() ? NodeCallers::Shows::kKey : NodeCallers::Shows::kCertificate));
    relay_.emplace(
        shard, state.slabs, state.others->targets(),
        [this](const wire::Request& request, wire::Fields& fields) { node_callers_->introduce(request, fields); });
    const std::string& key = state.others->targets().key();
    state.others->peers().ask_by(shard, *relay_, key);
    peer_method_.emplace(shard, state.others->cluster(), key).add_to(rpcs_);
  }
  bus_.set_worker_pool(*state.offload);
  rpcs_.set_worker_pool(offload_);
  health_.add_to(rpcs_);
  state.reflection.add_to(rpcs_);
  router_.observe(request_metrics_);
  if (state.access_log) router_.observe(shard_log_.emplace(*state.access_log, shard.env()));
  feed_ = state.feed->on_shard(shard.id(), shard.env(), router_);
  if (const auto& rules = state.config.recent; rules.bodies > 0 && rules.kept > 0)
    starts_.emplace(rules.bodies, &state.memory);
  recent_ = state.recent->on_shard(shard.id(), shard.env(), router_, starts_ ? &*starts_ : nullptr);
  live_ = state.live->on_shard(shard.id(), router_);
  if (state_.tracing) {
    const TracingConfig& tracing = state_.tracing->config();
    spans_.emplace(state_.tracing->exporter(), shard.env(), tracing.baggage);
    router_.observe(*spans_);
    router_.trace(tracer_.emplace(shard.env(), tracing.rules, *spans_));
  }
  shard.at_turn_end([this, long_enough = std::function<bool()>([&shard] { return shard.turn_is_long(); })] {
    wakes_.use();
    wakes_.flush();
    bus_.turn(long_enough);
    wakes_.flush();
    if (shard_log_) shard_log_->flush();
    if (spans_) spans_->flush();
  });
}

base::Status ShardServer::mount_dialects() {
  const dialects::ShardServices services{
      shard_.id(),
      shard_.env(),
      bus_,
      router_,
      rpcs_,
      state_.slabs,
      bodies_,
      offload_,
      jobs_,
      *this,
      [this](const wire::FetchRules& rules, uint64_t max_bytes) { return make_fetcher(shard_, rules, max_bytes); },
      relay_ ? &*relay_ : nullptr};
  for (auto* dialect : state_.config.served()) {
    auto mounted = dialect->mount(services);
    if (!mounted) return mounted.error();
    dialects_.push_back(std::move(*mounted));
  }
  watch_readiness();
  if (state_.audit_log)
    router_.observe(shard_audit_.emplace(*state_.audit_log, shard_.env(), router_, access_.authenticator()));
  return {};
}

void ShardServer::publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> done) {
  shard_.post([this, catalog = std::move(catalog), done = std::move(done)]() mutable {
    bus_.publish(std::move(catalog));
    if (readiness_watch_) readiness_watch_->look_at(bus_.catalog());
    request_metrics_.catalog_changed();
    health_.changed();
    done();
  });
}

// One asks for all shards.
void ShardServer::watch_readiness() {
  if (shard_.id() != base::ShardId(0) || state_.config.readiness == bus::ReadinessRule::kProcess) return;
  readiness_watch_.emplace(
      shard_.env(), [this](std::function<void()> work) { shard_.post(std::move(work)); },
      [this](std::shared_ptr<const bus::SaidReadiness> said) {
        state_.set_said(std::move(said));
        if (state_.readiness_changed) state_.readiness_changed();
      });
}

void ShardServer::phase_changed() {
  shard_.post([this] {
    if (state_.phase.load() == ServerState::Phase::kServing) jobs_.start();
    if (state_.phase.load() == ServerState::Phase::kDraining) drain();
    health_.changed();
  });
}

void ShardServer::readiness_changed() {
  shard_.post([this] { health_.changed(); });
}

void ShardServer::end_jobs() {
  shard_.post([this] { jobs_.end(); });
}

// Dialects end their endless streams when the Server stops taking connections: at the end of drain_delay.
void ShardServer::drain() {
  health_.drain();
  jobs_.drain();
  base::Env& env = shard_.env();
  const base::Duration grace = std::min<base::Duration>(std::chrono::seconds(5), state_.config.drain_timeout / 2);
  env.at(env.now() + state_.config.drain_delay, [this, grace] {
    for (auto& dialect : dialects_) dialect->drain(grace);
    feed_->drain();
    live_->drain();
  });
}

void ShardServer::load(const std::string& model, LoadParameters parameters, Done done) {
  state_.repository->load(model, std::move(parameters), [this, done = std::move(done)](base::Status status) {
    shard_.post([done, status = std::move(status)] { done(status); });
  });
}

void ShardServer::unload(const std::string& model, Dependents dependents, Done done) {
  using Theirs = models::Repository::Dependents;
  state_.repository->unload(model, dependents == Dependents::kUnload ? Theirs::kUnload : Theirs::kKeep,
                            [this, done = std::move(done)](base::Status status) {
                              shard_.post([done, status = std::move(status)] { done(status); });
                            });
}

// With readiness `any` a model takes requests while others still load.
bool ShardServer::accepting() const {
  const auto phase = state_.phase.load();
  if (state_.config.readiness == bus::ReadinessRule::kAny) return phase != ServerState::Phase::kDraining;
  return phase == ServerState::Phase::kServing;
}

std::string ShardServer::why_not_ready() const { return app::why_not_ready(state_, bus_.catalog()); }

ops::Serving ShardServer::serving(std::string_view name) const {
  auto as = [](bool ready) { return ready ? ops::Serving::kServing : ops::Serving::kNotServing; };
  if (name.empty()) return as(ready());
  if (std::find(services_.begin(), services_.end(), name) != services_.end()) return as(ready());
  if (!name.starts_with(kModelPrefix)) return ops::Serving::kServiceUnknown;
  name.remove_prefix(kModelPrefix.size());
  const auto& catalog = bus_.catalog();
  name = catalog.own_name(name);
  if (catalog.models.contains(name)) {
    const bool asked = state_.config.readiness != bus::ReadinessRule::kProcess;
    return as(bus::why_model_not_ready(catalog, name, asked ? state_.said().get() : nullptr).empty());
  }
  for (const auto& row : catalog.index)
    if (row.name == name) return ops::Serving::kNotServing;
  return ops::Serving::kServiceUnknown;
}

std::string ShardServer::own_name(std::string_view name) const {
  if (!name.starts_with(kModelPrefix)) return std::string(name);
  return std::string(kModelPrefix) + std::string(bus_.catalog().own_name(name.substr(kModelPrefix.size())));
}

std::vector<std::string> ShardServer::names() const {
  std::vector<std::string> out{""};
  out.insert(out.end(), services_.begin(), services_.end());
  for (const auto& row : bus_.catalog().index)
    if (std::string name = std::string(kModelPrefix) + row.name; out.back() != name) out.push_back(std::move(name));
  return out;
}

}  // namespace weir::app
