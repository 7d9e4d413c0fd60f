#include "app/cluster_node.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "base/text_file.h"
#include "base/units.h"

namespace weir::app {
namespace {

base::Result<std::string> read_secret(const std::string& file) {
  auto text = base::read_text_file(file);
  if (!text) return base::invalid("cluster.secret: " + text.error().text);
  std::string line = text->substr(0, text->find('\n'));
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  if (line.empty()) return base::invalid("cluster.secret: the first line of '" + file + "' is empty");
  return line;
}

// The first address that other machines may know.
cluster::Listening listening(const std::vector<std::string>& bound, const Config& config) {
  cluster::Listening out;
  const auto& certificate = config.cluster.listen.empty() ? config.tls.certificate : config.cluster.tls.certificate;
  out.tls = certificate.empty() ? cluster::Listening::Tls::kNo : cluster::Listening::Tls::kYes;
  for (const auto& address : bound) {
    const size_t colon = address.rfind(':');
    if (address.starts_with("unix:") || colon == address.npos) continue;
    auto port = base::parse_count(address.substr(colon + 1), 65535);
    if (!port) continue;
    out.host = address.substr(0, colon), out.port = uint16_t(*port);
    break;
  }
  return out;
}

uint32_t calls_under_way(const bus::Catalog& catalog) {
  int64_t calls = 0;
  for (const auto& [name, model] : catalog.models)
    for (const auto& [version, served] : model.versions)
      for (const auto& cell : served->in_flight) calls += cell.calls.load(std::memory_order_relaxed);
  return uint32_t(std::clamp<int64_t>(calls, 0, UINT32_MAX));
}

base::Result<std::shared_ptr<const net::TlsContext>> tls_of(const Config& config) {
  auto made = net::TlsContext::for_member(config.cluster.tls, net::TlsContext::Offer::kHttp2);
  if (!made) return base::failure(made.error().code, "cluster.tls: " + made.error().text);
  return made;
}

}  // namespace

base::Result<cluster::Settings> cluster_settings(const Config& config) {
  const ClusterConfig& c = config.cluster;
  cluster::Settings out{c.nats, c.name, c.address, "", c.bucket, c.session_bytes, c.alone};
  if (out.on() && !c.secret.empty()) {
    auto secret = read_secret(c.secret);
    if (!secret) return secret.error();
    out.secret = std::move(*secret);
  }
  if (auto s = cluster::check(out); !s.ok()) return s;
  return out;
}

std::unique_ptr<ClusterNode> ClusterNode::make(const Config& config, forward::Directory& directory,
                                               base::MemoryLedger& memory, GetCatalog catalog) {
  auto settings = cluster_settings(config);
  if (!settings) throw std::runtime_error(settings.error().text);
  if (!settings->on()) return nullptr;
  std::shared_ptr<net::LiveTls> tls;
  if (!config.cluster.tls.certificate.empty()) {
    auto made = tls_of(config);
    if (!made) throw std::runtime_error(made.error().text);
    directory.set_tls(tls = std::make_shared<net::LiveTls>(std::move(*made)));
  }
  std::error_code error;
  std::string root = (std::filesystem::temp_directory_path(error) / "weir-cluster-XXXXXX").string();
  if (error || !::mkdtemp(root.data())) throw std::runtime_error("there is no place for the models of other nodes");
  return std::unique_ptr<ClusterNode>(new ClusterNode(config, std::move(*settings), std::move(root), directory,
                                                      std::move(tls), std::move(catalog), memory));
}

ClusterNode::ClusterNode(const Config& config, cluster::Settings settings, std::string root,
                         forward::Directory& directory, std::shared_ptr<net::LiveTls> tls, GetCatalog catalog,
                         base::MemoryLedger& memory)
    : config_(config),
      root_(std::move(root)),
      catalog_(std::move(catalog)),
      tls_(std::move(tls)),
      remote_(root_, directory,
              [this](std::vector<std::string> models) { repository_->refresh(root_, std::move(models)); }) {
  const std::string call_key = cluster::Secrets::derive(settings.secret).call_key;
  if (settings.secret.empty() && !tls_)
    base::log::warning("without cluster.secret whoever writes to NATS says where calls go", {{"nats", "cluster.nats"}});
  else if (!settings.secret.empty())
    directory.set_key(call_key);
  cluster::Cluster::Callbacks callbacks;
  callbacks.changed = [this](std::shared_ptr<const cluster::Members> members) {
    sessions_->update(*members);
    remote_.update(*members);
    std::set<std::string> names;
    for (const cluster::Node& node : members->nodes) names.insert(node.id);
    if (store_) store_->set_nodes(std::move(names));
  };
  callbacks.can_take = [this](const std::string& state) { return sessions_->can_take(state); };
  callbacks.load = [this] { return calls_under_way(*catalog_()); };
  callbacks.ask = [this](const std::string& address, std::string request, cluster::Peers::Then then) {
    sessions_->peers().ask(address, std::move(request), std::move(then));
  };
  callbacks.accept = &ClusterHandover::accept;
  callbacks.leave = [this](const std::string& id, const std::string& whose, std::function<void(base::Status)> then) {
    sessions_->handover().leave(id, whose, std::move(then));
  };
  callbacks.holds = [this](const std::string& id) { return sessions_->handover().holds(id); };
  cluster_ = std::make_unique<cluster::Cluster>(settings, std::move(callbacks), &memory);
  sessions_ = std::make_unique<ClusterSessions>(cluster_->name(), call_key, tls_);
  sessions_->attach(*cluster_, catalog_, settings.session_bytes);
}

base::Status ClusterNode::reload_tls() {
  if (!tls_) return {};
  auto made = tls_of(config_);
  if (!made) return base::failure(made.error().code, "for connections to other nodes: " + made.error().text);
  tls_->set(std::move(*made));
  return {};
}

ClusterNode::~ClusterNode() {
  if (jobs_) jobs_->stop();
  cluster_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

void ClusterNode::start(models::Repository& repository, const net::Server& server) {
  using net::ListensFor;
  repository_ = &repository;
  if (jobs_)
    if (auto s = jobs_->start(); !s.ok()) base::log::error("the jobs' log cannot be had", {{"reason", s.text}});
  const auto whom = config_.cluster.listen.empty() ? ListensFor::kClients : ListensFor::kNodes;
  cluster_->start(listening(server.bound(whom), config_));
}

void ClusterNode::share(jobs::Store& store) {
  auto settings = cluster_settings(config_);
  if (!settings) throw std::runtime_error(settings.error().text);
  const jobs::Limits& limits = config_.jobs.limits;
  if (!jobs_folder(config_.jobs, ::getenv).empty() &&
      std::max(limits.max_line, limits.max_result) > ClusterJobs::kLongest)
    throw std::runtime_error("jobs.max_line, jobs.max_result: in a cluster at most " +
                             base::show_size(ClusterJobs::kLongest) + ", which one entry of its log holds");
  store_ = &store;
  jobs_.emplace(store, *settings, cluster_->name(), config_.jobs.limits.disk,
                [this] { return cluster_->knows_nodes(); });
}

std::string ClusterNode::detail() const {
  const std::string jobs = store_ ? store_->detail() : std::string();
  return cluster_->detail() + (jobs.empty() ? "" : "; " + jobs);
}

void ClusterNode::serve(const bus::Catalog& catalog) { cluster_->serve(cluster::own_models(catalog)); }

void ClusterNode::stop() { cluster_->stop(); }

models::RepositoryOptions with_cluster(models::RepositoryOptions options, const ClusterNode* node) {
  if (node) options.roots.push_back(node->root());
  return options;
}

}  // namespace weir::app
