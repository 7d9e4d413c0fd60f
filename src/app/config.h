// Config: everything that can be set, and where it came from: flag > WEIR_… environment > file > default.
//
// One table (app/settings.h) drives the key in the file, the variable's name, the flag and the help text. A mistake in
// the file is an error with file:line:column; all mistakes are told at once.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/overload.h"
#include "bus/readiness.h"
#include "device/devices.h"
#include "dialects/evergreen/options.h"
#include "dialects/grps/options.h"
#include "models/repository.h"
#include "msg/call.h"
#include "net/reach.h"
#include "net/server.h"
#include "session/session_table.h"
#include "wire/forwarded.h"
#include "wire/limits.h"

namespace weir::app {

struct OnnxConfig {
  std::string library;  // empty = looked for in the usual places
  uint32_t intra_op_threads = 1, inter_op_threads = 1;
  std::string graph_optimization = "all";
  bool memory_arena = true;
};

struct GraphPipeConfig {
  bool on = true;
  std::string prefix = "/graphpipe";
  bool root_post = true;      // POST / as well
  std::string default_model;  // empty: the only one, when there is but one
};

struct OpenaiConfig {
  bool on = true;
  std::vector<std::string> prefixes{"/v1", "/openai/v1", "/v3"};
  std::string default_model;          // empty: the only model of text, when there is but one
  std::vector<std::string> api_keys;  // empty, and no file: everybody may ask
  std::string api_keys_file;          // one per line
  uint64_t max_body = 4 << 20;
};

struct SalienceConfig {
  bool on = true;
  std::string default_model;
  std::string bearer_token;
  std::string bearer_token_file;  // one per line
};

struct Config {
  std::vector<std::string> listen{"127.0.0.1:8080"};
  std::vector<std::string> admin_listen;  // not empty: admin methods are served there and nowhere else
  uint32_t shards = 0;                    // 0 = one per core
  bool pin = true;
  base::Duration spin{0};  // of a shard, before it sleeps
  net::TlsOptions tls;

  models::RepositoryOptions models;
  bus::ReadinessRule readiness = bus::ReadinessRule::kStrict;
  OnnxConfig onnx;
  GraphPipeConfig graphpipe;
  bool grps_on = true;
  grps::Options grps;  // server_version and max_body come from elsewhere

  OpenaiConfig openai;
  SalienceConfig salience;
  session::SessionLimits sessions;
  msg::Anonymous anonymous = msg::Anonymous::kPerAddress;
  bool evergreen_on = true;
  evergreen::Options evergreen;
  net::FetchRules fetch;  // of references

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
  base::log::Level log_level = base::log::Level::kInfo;
  base::log::Format log_format = base::log::Format::kText;
  std::string access_log = "off";  // off, - (standard output), or a file
  base::Duration drain_delay{0};
  base::Duration drain_timeout = std::chrono::seconds(30);

  // Where each key's value came from: "flag", "WEIR_LISTEN", "weir.yaml:3"; keys with their default are not here.
  std::map<std::string, std::string, std::less<>> origins;

  Config();
};

// What came on the command line, by key ("limits.body"), and how the environment is read.
struct Sources {
  std::string file;  // path of the configuration; empty = none
  std::map<std::string, std::vector<std::string>, std::less<>> flags;
  std::function<const char*(const char* name)> environment;  // ::getenv in production
};

// Errors: INVALID_ARGUMENT with one line per mistake, NOT_FOUND for a file that cannot be read.
base::Result<Config> resolve(const Sources& sources);
// The file's part alone: `text` as if read from `file`; relative paths in it are relative to the file's folder.
base::Status read_file_text(std::string_view text, const std::string& file, Config& config);

// The resolved configuration as YAML, each line with its origin: what `weir check` prints.
std::string show(const Config& config);

}  // namespace weir::app
