#include "app/shard_server.h"

#include <algorithm>

#include "app/version.h"

namespace weir::app {
namespace {

constexpr std::string_view kModelPrefix = "model:";
constexpr uint64_t kLeastCalls = 16;  // in flight, that every client may have on a shard

oip::OipOptions oip_options(const Config& config) {
  oip::OipOptions options;
  options.server_version = kVersion;
  options.max_body = config.limits.body;
  options.conn_calls = config.conn_calls;
  return options;
}

graphpipe::GraphPipeOptions graphpipe_options(const Config& config, std::function<bool()> ready,
                                              wire::Offload& offload) {
  using RootPost = graphpipe::GraphPipeOptions::RootPost;
  const GraphPipeConfig& c = config.graphpipe;
  return {"weir",
          std::string(kVersion),
          c.prefix,
          c.default_model,
          c.root_post ? RootPost::kOn : RootPost::kOff,
          config.limits.body,
          std::move(ready),
          &offload};
}

grps::Options grps_options(const Config& config, wire::Offload& offload) {
  grps::Options options = config.grps;
  options.server_version = kVersion;
  options.max_body = config.limits.body;
  options.offload = &offload;
  return options;
}

openai::Options openai_options(const ServerState& state, std::function<bool()> ready, wire::Offload& offload) {
  const OpenaiConfig& c = state.config.openai;
  return {std::string(kVersion), c.prefixes, c.default_model, state.api_keys, c.max_body, std::move(ready), &offload};
}

// A session that ends by itself can say so; one that the wire ends cannot.
evergreen::Options evergreen_options(const Config& config, wire::BodyMemory& bodies, wire::Offload& offload) {
  evergreen::Options options = config.evergreen;
  options.idle = std::min(options.idle, config.limits.stream_idle / 10 * 9);
  options.bodies = &bodies;
  options.offload = &offload;
  return options;
}

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

session::SessionLimits session_limits(const Config& config) {
  session::SessionLimits limits = config.sessions;
  limits.share.percent = config.limits.client_share;
  return limits;
}

wire::RpcOptions rpc_options(const Config& config, wire::BodyMemory& bodies) {
  wire::RpcOptions options;
  options.max_message = config.limits.message;
  options.inflate_ratio = config.limits.inflate_ratio;
  options.min_body_rate = config.limits.min_body_rate, options.grace = config.limits.grace;
  options.bodies = &bodies;
  return options;
}

// The pages and documents that the configuration turns on.
std::vector<ops::FrontPageLink> front_page_links(const Config& config) {
  std::vector<ops::FrontPageLink> links{{"models", "/v2/models", "The models that are served"},
                                        {"server", "/v2", "The server's name, version and extensions"}};
  if (config.openai.on) links.push_back({"openai", "/v1/models", "The models of text, as OpenAI's clients list them"});
  if (config.grps_on) links.push_back({"monitor", "/grps/v1/", "Charts: requests, latency, memory, batches"});
  links.insert(links.end(),
               {{"metrics", "/metrics", "Counters and histograms for Prometheus"},
                {"health", "/v2/health/ready", "Whether requests are welcome, by the Open Inference Protocol"},
                {"live", "/livez", "Whether the process is alive"},
                {"ready", "/readyz", "Whether requests are welcome; if not, why"},
                {"docs", "/docs", "The manual of this version"}});
  return links;
}

}  // namespace

std::vector<std::string> services(const Config& config) {
  std::vector<std::string> out{"inference.GRPCInferenceService", std::string(ops::Health::kService)};
  if (config.grps_on) out.emplace_back(grps::Grps::kService);
  if (config.salience.on) out.emplace_back(salience::Salience::kService);
  if (config.evergreen_on) out.emplace_back(evergreen::Evergreen::kService);
  return out;
}

// An empty post makes the loop turn, and each turn delivers the bus's mail.
ShardServer::ShardServer(net::Shard& shard, ServerState& state, std::unique_ptr<net::WebFetcher> fetcher)
    : shard_(shard),
      state_(state),
      bus_(
          shard.env(), shard.id(), [&shard] { shard.post([] {}); }, bus_limits(state)),
      bodies_(shard.env(), state.body_need, body_rules(state)),
      router_(shard.env(), wire::Cors{state.config.cors_origins}, wire::TrustedHosts{state.config.http_hosts}),
      rpcs_(router_, shard.env(), state.slabs, &state.json, rpc_options(state.config, bodies_)),
      oip_(bus_, router_, rpcs_, state.slabs, *this, state.traces, oip_options(state.config)),
      fetcher_(std::move(fetcher)),
      services_(state.reflection.services()),
      health_(*this),
      pages_(router_, state.metrics, {[this] { return why_not_ready(); }}),
      front_page_(router_, kVersion, front_page_links(state.config)),
      request_metrics_(state.metrics) {
  bus_.set_worker_pool(*state.offload);
  rpcs_.set_worker_pool(offload_);
  if (state.config.graphpipe.on)
    graphpipe_.emplace(bus_, router_, state.slabs,
                       graphpipe_options(
                           state.config, [this] { return ready(); }, offload_));
  if (state.config.grps_on)
    grps_.emplace(
        bus_, router_, rpcs_, state.slabs, state.presence, state.monitor, [this] { return ready(); },
        grps_options(state.config, offload_));
  if (state.config.salience.on) {
    sessions_.emplace(bus_, shard.id(), *state.homes, *state.quota, session_limits(state.config), state.metrics);
    salience_.emplace(bus_, rpcs_, *sessions_, state.salience);
  }
  if (state.config.openai.on)
    openai_.emplace(bus_, router_, state.text_load,
                    openai_options(
                        state, [this] { return ready(); }, offload_));
  if (state.config.evergreen_on)
    evergreen_.emplace(bus_, router_, rpcs_, state.slabs, state.camel_json,
                       evergreen_options(state.config, bodies_, offload_), fetcher_.get(), &*state.byte_quota);
  health_.add_to(rpcs_);
  state.reflection.add_to(rpcs_);
  router_.observe(request_metrics_);
  if (state.access_log) router_.observe(shard_log_.emplace(*state.access_log, shard.env()));
  shard.at_turn_end([this, long_enough = std::function<bool()>([&shard] { return shard.turn_is_long(); })] {
    bus_.turn(long_enough);
    if (shard_log_) shard_log_->flush();
  });
}

void ShardServer::publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> done) {
  shard_.post([this, catalog = std::move(catalog), done = std::move(done)]() mutable {
    bus_.publish(std::move(catalog));
    health_.changed();
    done();
  });
}

void ShardServer::phase_changed() {
  shard_.post([this] {
    if (state_.phase.load() == ServerState::Phase::kDraining) drain();
    health_.changed();
  });
}

void ShardServer::readiness_changed() {
  shard_.post([this] { health_.changed(); });
}

// Streams that could go on for ever are told when the Server announces the end: at the end of drain_delay.
void ShardServer::drain() {
  health_.drain();
  if (!evergreen_) return;
  base::Env& env = shard_.env();
  const base::Duration grace = std::min<base::Duration>(std::chrono::seconds(5), state_.config.drain_timeout / 2);
  env.at(env.now() + state_.config.drain_delay, [this, grace] { evergreen_->drain(grace); });
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

// While other models load a model can be asked already, unless readiness waits for all of them.
bool ShardServer::accepting() const {
  const auto phase = state_.phase.load();
  if (state_.config.readiness == bus::ReadinessRule::kAny) return phase != ServerState::Phase::kDraining;
  return phase == ServerState::Phase::kServing;
}

std::string ShardServer::why_not_ready() const {
  const auto phase = state_.phase.load();
  const auto rule = state_.config.readiness;
  if (phase == ServerState::Phase::kDraining) return "the server is shutting down";
  if (state_.memory.look() >= base::Overload::kRefuse)
    return state_.memory.shortage() + ", and requests are refused (overload.refuse)";
  if (phase == ServerState::Phase::kLoading && rule != bus::ReadinessRule::kAny) return "models are loading";
  return bus::why_not_ready(bus_.catalog(), rule);
}

ops::Serving ShardServer::serving(std::string_view name) const {
  auto as = [](bool ready) { return ready ? ops::Serving::kServing : ops::Serving::kNotServing; };
  if (name.empty()) return as(ready());
  if (std::find(services_.begin(), services_.end(), name) != services_.end()) return as(ready());
  if (!name.starts_with(kModelPrefix)) return ops::Serving::kServiceUnknown;
  name.remove_prefix(kModelPrefix.size());
  const auto& catalog = bus_.catalog();
  if (catalog.models.contains(name)) return ops::Serving::kServing;
  for (const auto& row : catalog.index)
    if (row.name == name) return ops::Serving::kNotServing;
  return ops::Serving::kServiceUnknown;
}

std::vector<std::string> ShardServer::names() const {
  std::vector<std::string> out{""};
  out.insert(out.end(), services_.begin(), services_.end());
  for (const auto& row : bus_.catalog().index)
    if (std::string name = std::string(kModelPrefix) + row.name; out.back() != name) out.push_back(std::move(name));
  return out;
}

}  // namespace weir::app
