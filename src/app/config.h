// Config: everything that can be set, and where it came from: flag > WEIR_… environment > OpenTelemetry's variables
// (app/otel_variables.h) > file > default.
//
// One table (app/settings.h, with the rows of every dialect) drives the key in the file, the variable's name, the flag
// and the help text. A mistake in the file is an error with file:line:column; all mistakes are told at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/tracing.h"
#include "auth/certificate_rules.h"
#include "auth/jwt_settings.h"
#include "base/log.h"
#include "base/overload.h"
#include "base/text_file.h"
#include "bus/readiness.h"
#include "device/devices.h"
#include "dialects/dialect.h"
#include "dialects/ops/console/console.h"
#include "dialects/ops/recent_requests.h"
#include "engines/process/engine.h"
#include "jobs/store.h"
#include "models/repository.h"
#include "msg/call.h"
#include "net/server.h"
#include "net/tls.h"
#include "wire/forwarded.h"
#include "wire/limits.h"

namespace weir::app {

struct OnnxConfig {
  std::string library;  // empty = looked for in the usual places
  uint32_t intra_op_threads = 1, inter_op_threads = 1;
  std::string graph_optimization = "all";
  bool memory_arena = true;
  std::vector<std::string> custom_ops;  // libraries
};

// A protocol, and whether it is served.
struct ServedDialect {
  std::unique_ptr<dialects::Dialect> dialect;
  bool on = true;
};

// Every protocol that weir speaks. A new one is one line in app/dialects.cc.
std::vector<ServedDialect> all_dialects();

// The settings of src/cluster/: other nodes.
struct ClusterConfig {
  std::string nats;  // empty: this node is alone
  std::string name, address, bucket = "weir";
  std::string secret;  // a file
  std::string listen;  // where other nodes reach this one, with `tls`
  net::TlsContext::Mutual tls;
  uint64_t session_bytes = uint64_t(1) << 30;
  base::Duration alone = std::chrono::minutes(5);
};

// The settings of src/auth/: who may do what.
struct AuthConfig {
  std::string keys_file;
  std::vector<std::string> anonymous{"auto"};  // roles, or "auto" or "none" alone
  enum class Admin : uint8_t { kGuarded, kOpen } admin = Admin::kGuarded;
  auth::JwtSettings jwt;
  auth::CertificateRules certificates;
};

// Settings of work that outlives its request: src/jobs/.
struct JobsConfig {
  std::string path;  // a folder; off; empty: in the state directory that systemd names, and off without one
  jobs::Limits limits;
};
// The folder of the journal; empty: there is none. `environment` as of Sources.
std::string jobs_folder(const JobsConfig& config, const std::function<const char*(const char* name)>& environment);

struct Config {
  std::vector<std::string> listen{"127.0.0.1:8080"};
  std::vector<std::string> admin_listen;  // not empty: admin methods are served there and nowhere else
  std::string server_name = "weir";       // as metadata of the Open Inference Protocol and GraphPipe says it
  uint32_t shards = 0;                    // 0 = one per core
  bool pin = true;
  base::Duration spin{0};  // of a shard, before it sleeps
  net::TlsOptions tls;
  AuthConfig auth;
  ClusterConfig cluster;

  models::RepositoryOptions models;
  bus::ReadinessRule readiness = bus::ReadinessRule::kStrict;
  OnnxConfig onnx;
  process::Options processes;                            // of models with code of their own
  std::vector<ServedDialect> dialects = all_dialects();  // in the order of their settings; each holds its own
  msg::Anonymous anonymous = msg::Anonymous::kPerAddress;

  JobsConfig jobs;
  wire::Limits limits;
  uint32_t connections = 10000;
  uint32_t in_flight = 1024;                 // Calls of one shard
  uint32_t conn_calls = 512;                 // unanswered requests of all gRPC streams of one connection
  uint64_t slab_budget = uint64_t(2) << 30;  // all that peers cause: bodies, batches, answers, sessions
  base::OverloadShares overload;             // of slab_budget, or of pinned_pool
  device::DeviceOptions device;
  uint64_t pinned_pool = uint64_t(1) << 30;  // with CUDA, in place of slab_budget

  std::vector<std::string> trusted_proxies, proxy_protocol;  // networks and "unix": base::NetworkList
  wire::TrustedProxies::Field client_field = wire::TrustedProxies::Field::kXForwardedFor;
  std::vector<std::string> cors_origins;
  std::vector<std::string> http_hosts;      // names that browsers may ask for, beside the loopback ones
  std::vector<std::string> metrics_compat;  // "triton", "vllm"
  bool metrics_summaries = false;
  std::vector<std::string> metrics_quantiles{"0.5", "0.9", "0.95", "0.99", "0.999"};
  base::log::Level log_level = base::log::Level::kInfo;
  base::log::Format log_format = base::log::Format::kText;
  std::string audit_log;  // off, empty (the server's log), - (standard output), or a file
  TracingConfig tracing;
  std::string access_log = "off";  // off, - (standard output), or a file
  ops::ConsoleOptions console;     // without its `settings`
  ops::RecentRules recent;
  base::Duration drain_delay{0};
  base::Duration drain_timeout = std::chrono::seconds(30);

  // The dialects that are on, in their order.
  std::vector<dialects::Dialect*> served() const;

  // Where each key's value came from: "flag", "WEIR_LISTEN", "weir.yaml:3"; keys with their default are not here.
  std::map<std::string, std::string, std::less<>> origins;

  Config();
};

// The values from the command line, by key ("limits.body"), and how the environment is read.
struct Sources {
  std::string file;  // path of the configuration; empty = none
  base::Pipes pipes = base::Pipes::kRead;
  std::map<std::string, std::vector<std::string>, std::less<>> flags;
  std::function<const char*(const char* name)> environment;  // ::getenv in production
};

// Errors: INVALID_ARGUMENT with one line per mistake, NOT_FOUND for a file that cannot be read.
base::Result<Config> resolve(const Sources& sources);
// The file's part alone: `text` as if read from `file`; relative paths in it are relative to the file's folder.
base::Status read_file_text(std::string_view text, const std::string& file, Config& config);

// The resolved configuration as YAML, each line with its origin: what `weir check` prints.
std::string show(const Config& config);
// The same for the console: {"settings":[{"key","value":[…],"origin","flag","variable","help"}]}; `origin` is empty for
// a default, secrets are not shown.
std::string show_json(const Config& config);

}  // namespace weir::app
