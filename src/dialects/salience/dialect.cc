#include "dialects/dialect.h"

#include <algorithm>
#include <optional>

#include "dialects/salience/salience.h"
#include "marshal/secrets.h"
#include "session/sessions.h"

namespace weir::salience {
namespace {

namespace setting = base::setting;

constexpr size_t kTenantsWithKeys = 4096;  // that have quotas of their own

struct MountedSalience final : dialects::Mounted {
  MountedSalience(const dialects::ShardServices& shard, session::Homes& homes, session::Quota& quota,
                  const session::SessionLimits& limits, base::Metrics& metrics, Options options,
                  session::OtherNodes* others)
      : sessions(shard.bus, shard.id, homes, quota, limits, metrics, others),
        salience(shard.bus, shard.rpcs, sessions, with_relay(std::move(options), shard.relay)) {}
  static Options with_relay(Options options, wire::Relay* relay) {
    options.relay = relay;
    return options;
  }

  session::Sessions sessions;
  Salience salience;
};

class SalienceDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "salience"; }
  std::string_view title() const override { return "Salience"; }
  void add_settings(std::vector<base::Setting>& rows) override;
  std::vector<std::string_view> services() const override { return {Salience::kService}; }
  base::Status open(const dialects::ServerServices& services) override;
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    return std::make_unique<MountedSalience>(shard, *homes_, *quota_, limits_, *metrics_, options_, others_);
  }
  base::Result<dialects::OwnKeys> own_keys(base::Pipes pipes) const override;

 private:
  void add_session_settings(std::vector<base::Setting>& rows);

  Options options_;
  session::SessionLimits limits_;
  std::string token_, tokens_file_;  // as they are set
  std::optional<session::Homes> homes_;
  std::optional<session::Quota> quota_;
  base::Metrics* metrics_ = nullptr;
  session::OtherNodes* others_ = nullptr;
};

void SalienceDialect::add_settings(std::vector<base::Setting>& rows) {
  rows.push_back(
      setting::secret(setting::text("salience.bearer_token", "SECRET", "a key for this protocol alone", token_)));
  rows.push_back(setting::path("salience.bearer_token_file", "several, one per line; each is a tenant", tokens_file_));
  add_session_settings(rows);
  rows.push_back(setting::replaced("salience.default_model", "models.default"));
}

void SalienceDialect::add_session_settings(std::vector<base::Setting>& rows) {
  using std::chrono::milliseconds;
  rows.push_back(
      setting::duration("sessions.idle", "how long a session lives without use", limits_.idle, milliseconds(1)));
  rows.push_back(setting::duration("sessions.lifetime", "and how long at most", limits_.lifetime, milliseconds(1)));
  rows.push_back(setting::count("sessions.per_tenant", "sessions of one tenant", limits_.per_tenant, 1));
  rows.push_back(setting::count("sessions.depth", "forks of forks", limits_.depth, 0, 1000000));
  rows.push_back(setting::count("sessions.children", "forks of one session that live", limits_.children, 0));
  rows.push_back(
      setting::size("sessions.bytes", "tokens and images of one session", limits_.bytes, 1 << 10, uint64_t(1) << 40));
  rows.push_back(setting::size("sessions.tenant_bytes", "and of all sessions of one tenant, where there are several",
                               limits_.tenant_bytes, 1 << 10, uint64_t(1) << 44));
  rows.push_back(
      setting::size("sessions.total_bytes", "and of all sessions", limits_.total_bytes, 1 << 20, uint64_t(1) << 44));
}

base::Result<dialects::OwnKeys> SalienceDialect::own_keys(base::Pipes pipes) const {
  constexpr std::string_view kSetting = "salience.bearer_token";
  std::vector<std::string> tokens;
  if (!token_.empty()) tokens.push_back(token_);
  auto all = marshal::read_secrets(std::string(kSetting), std::move(tokens), tokens_file_, pipes);
  if (!all) return all.error();
  return dialects::OwnKeys{kSetting, "salience", std::move(*all)};
}

base::Status SalienceDialect::open(const dialects::ServerServices& services) {
  options_.anonymous = services.anonymous;
  limits_.share.percent = services.limits.client_share;
  quota_.emplace(1, &services.memory, kTenantsWithKeys);
  options_.quota = &*quota_;
  homes_.emplace(services.shards, services.post);
  metrics_ = &services.metrics;
  others_ = services.others;
  if (others_) others_->keep_for(limits_.idle);
  // An eighth of what KeptSessions looks for at once is for one client, however many shards it comes to.
  options_.most_searches = std::max<size_t>(options_.most_searches / services.shards, 1);
  return {};
}

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<SalienceDialect>(); }

}  // namespace weir::salience
