#include "app/front.h"

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
                                              wire::Errands& errands) {
  using RootPost = graphpipe::GraphPipeOptions::RootPost;
  const GraphPipeConfig& c = config.graphpipe;
  return {"weir",
          std::string(kVersion),
          c.prefix,
          c.default_model,
          c.root_post ? RootPost::kOn : RootPost::kOff,
          config.limits.body,
          std::move(ready),
          &errands};
}

grps::Options grps_options(const Config& config, wire::Errands& errands) {
  grps::Options options = config.grps;
  options.server_version = kVersion;
  options.max_body = config.limits.body;
  options.errands = &errands;
  return options;
}

openai::Options openai_options(const Commons& commons, std::function<bool()> ready, wire::Errands& errands) {
  const OpenaiConfig& c = commons.config.openai;
  return {std::string(kVersion), c.prefixes, c.default_model, commons.api_keys, c.max_body, std::move(ready), &errands};
}

// A session that ends by itself can say so; one that the wire ends cannot.
evergreen::Options evergreen_options(const Config& config, wire::BodyMemory& bodies, wire::Errands& errands) {
  evergreen::Options options = config.evergreen;
  options.idle = std::min(options.idle, config.limits.stream_idle / 10 * 9);
  options.bodies = &bodies;
  options.errands = &errands;
  return options;
}

base::ShareRule share_of(const Config& config, uint64_t least) { return {config.limits.client_share, least}; }

wire::BodyMemory::Rules body_rules(const Commons& commons) {
  wire::BodyMemory::Rules rules;
  rules.wait = commons.config.limits.memory_wait;
  rules.share = share_of(commons.config, 0);
  rules.budget = commons.slabs.budget();
  return rules;
}

bus::BusLimits bus_limits(Commons& commons) {
  return {commons.config.in_flight, &commons.memory, share_of(commons.config, kLeastCalls), commons.config.anonymous};
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
Front::Front(net::Shard& shard, Commons& commons, std::unique_ptr<net::WebFetcher> fetcher)
    : shard_(shard),
      commons_(commons),
      bus_(
          shard.env(), shard.id(), [&shard] { shard.post([] {}); }, bus_limits(commons)),
      bodies_(shard.env(), commons.body_need, body_rules(commons)),
      router_(shard.env(), wire::Cors{commons.config.cors_origins}, wire::TrustedHosts{commons.config.http_hosts}),
      rpcs_(router_, shard.env(), commons.slabs, &commons.json, rpc_options(commons.config, bodies_)),
      oip_(bus_, router_, rpcs_, commons.slabs, *this, commons.traces, oip_options(commons.config)),
      fetcher_(std::move(fetcher)),
      services_(commons.reflection.services()),
      health_(*this),
      pages_(router_, commons.metrics, {[this] { return why_not_ready(); }}),
      front_page_(router_, kVersion, front_page_links(commons.config)),
      tally_(commons.metrics) {
  bus_.employ(*commons.errands);
  rpcs_.employ(errands_);
  if (commons.config.graphpipe.on)
    graphpipe_.emplace(bus_, router_, commons.slabs,
                       graphpipe_options(
                           commons.config, [this] { return ready(); }, errands_));
  if (commons.config.grps_on)
    grps_.emplace(
        bus_, router_, rpcs_, commons.slabs, commons.presence, commons.monitor, [this] { return ready(); },
        grps_options(commons.config, errands_));
  if (commons.config.salience.on) {
    sessions_.emplace(bus_, shard.id(), *commons.homes, *commons.quota, session_limits(commons.config),
                      commons.metrics);
    salience_.emplace(bus_, rpcs_, *sessions_, commons.salience);
  }
  if (commons.config.openai.on)
    openai_.emplace(bus_, router_, commons.text_load,
                    openai_options(
                        commons, [this] { return ready(); }, errands_));
  if (commons.config.evergreen_on)
    evergreen_.emplace(bus_, router_, rpcs_, commons.slabs, commons.camel_json,
                       evergreen_options(commons.config, bodies_, errands_), fetcher_.get(), &*commons.purse);
  health_.add_to(rpcs_);
  commons.reflection.add_to(rpcs_);
  router_.observe(tally_);
  if (commons.access_log) router_.observe(pen_.emplace(*commons.access_log, shard.env()));
  shard.at_turn_end([this, long_enough = std::function<bool()>([&shard] { return shard.turn_is_long(); })] {
    bus_.turn(long_enough);
    if (pen_) pen_->flush();
  });
}

void Front::publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> done) {
  shard_.post([this, catalog = std::move(catalog), done = std::move(done)]() mutable {
    bus_.publish(std::move(catalog));
    health_.changed();
    done();
  });
}

void Front::phase_changed() {
  shard_.post([this] {
    if (commons_.phase.load() == Commons::Phase::kDraining) drain();
    health_.changed();
  });
}

void Front::readiness_changed() {
  shard_.post([this] { health_.changed(); });
}

// Streams that could go on for ever are told when the Server announces the end: at the end of drain_delay.
void Front::drain() {
  health_.drain();
  if (!evergreen_) return;
  base::Env& env = shard_.env();
  const base::Duration grace = std::min<base::Duration>(std::chrono::seconds(5), commons_.config.drain_timeout / 2);
  env.at(env.now() + commons_.config.drain_delay, [this, grace] { evergreen_->drain(grace); });
}

void Front::load(const std::string& model, LoadParameters parameters, Done done) {
  commons_.repository->load(model, std::move(parameters), [this, done = std::move(done)](base::Status status) {
    shard_.post([done, status = std::move(status)] { done(status); });
  });
}

void Front::unload(const std::string& model, Dependents dependents, Done done) {
  using Theirs = models::Repository::Dependents;
  commons_.repository->unload(model, dependents == Dependents::kUnload ? Theirs::kUnload : Theirs::kKeep,
                              [this, done = std::move(done)](base::Status status) {
                                shard_.post([done, status = std::move(status)] { done(status); });
                              });
}

// While other models load a model can be asked already, unless readiness waits for all of them.
bool Front::accepting() const {
  const auto phase = commons_.phase.load();
  if (commons_.config.readiness == bus::ReadinessRule::kAny) return phase != Commons::Phase::kDraining;
  return phase == Commons::Phase::kServing;
}

std::string Front::why_not_ready() const {
  const auto phase = commons_.phase.load();
  const auto rule = commons_.config.readiness;
  if (phase == Commons::Phase::kDraining) return "the server is shutting down";
  if (commons_.memory.look() >= base::Overload::kRefuse)
    return commons_.memory.shortage() + ", and requests are refused (overload.refuse)";
  if (phase == Commons::Phase::kLoading && rule != bus::ReadinessRule::kAny) return "models are loading";
  return bus::why_not_ready(bus_.catalog(), rule);
}

ops::Serving Front::serving(std::string_view name) const {
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

std::vector<std::string> Front::names() const {
  std::vector<std::string> out{""};
  out.insert(out.end(), services_.begin(), services_.end());
  for (const auto& row : bus_.catalog().index)
    if (std::string name = std::string(kModelPrefix) + row.name; out.back() != name) out.push_back(std::move(name));
  return out;
}

}  // namespace weir::app
