// Dialect: a protocol as the server sees it. The folder of a protocol makes one (make_dialect() in its header), and one
// line in app/dialects.cc adds it to the server: its settings, its gRPC services for reflection, its links on the front
// page, its routes on every shard.
//
//   make_dialect() -> add_settings() -> the configuration is read -> open() once -> mount() once per shard, before the
//   shards start -> … -> Mounted::drain() when the server ends -> the Mounted go, then the Dialect
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clients.h"
#include "base/env.h"
#include "base/gpu.h"
#include "base/ids.h"
#include "base/memory_ledger.h"
#include "base/metrics.h"
#include "base/setting.h"
#include "base/status.h"
#include "base/text_file.h"
#include "bus/bus.h"
#include "jobs/shard_jobs.h"
#include "jobs/store.h"
#include "msg/call.h"
#include "session/other_nodes.h"
#include "session/shared_records.h"
#include "wire/body_memory.h"
#include "wire/fetcher.h"
#include "wire/limits.h"
#include "wire/offload.h"
#include "wire/relay.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::dialects {

// The server as a whole, as protocols see it. Called on the shard's thread.
class ServerControl {
 public:
  using Done = std::function<void(base::Status)>;
  using LoadParameters = std::map<std::string, std::string>;  // "config", "file:1/model.onnx" -> raw bytes

  // The server takes requests: it has started, and is not draining.
  virtual bool accepting() const = 0;
  // Says why the server is not ready, in words for a person; empty when it is.
  virtual std::string why_not_ready() const = 0;
  // `done` is called once, later, on this shard's thread, and not after the Mounted is gone.
  virtual void load(const std::string& model, LoadParameters parameters, Done done) = 0;
  enum class Dependents : uint8_t { kKeep, kUnload };
  virtual void unload(const std::string& model, Dependents dependents, Done done) = 0;

  // An admin method has changed settings; `change` names them with their new values, for the audit log.
  virtual void settings_changed(const wire::Exchange& exchange, std::string change) = 0;

  bool ready() const { return why_not_ready().empty(); }

 protected:
  ~ServerControl() = default;
};

// The services for a Dialect on all shards. Its references are good until the Mounted have gone, not longer; any
// thread.
struct ServerServices {
  std::string_view name;     // server.name
  std::string_view version;  // of weir
  const wire::Limits& limits;
  uint32_t conn_calls;       // limits.conn_calls
  msg::Anonymous anonymous;  // how clients without a secret are told apart
  base::Metrics& metrics;
  base::MemoryLedger& memory;  // all that peers cause
  uint32_t shards;
  std::function<void(base::ShardId, std::function<void()>)> post;  // runs work on a shard's thread, in order
  std::function<std::vector<base::Gpu>()> gpus;                    // as they were last seen
  jobs::Store& jobs;                                               // files and jobs that outlive their requests
  session::OtherNodes* others = nullptr;                           // null: this node is alone, as the next
  session::SharedRecords* records = nullptr;
};

// The services for a Dialect on one shard, on its thread. The references outlive the Mounted.
struct ShardServices {
  base::ShardId id;
  base::Env& env;
  bus::Bus& bus;
  wire::Router& router;
  wire::RpcServer& rpcs;
  base::SlabSource& slabs;
  wire::BodyMemory& bodies;
  wire::Offload& offload;  // for work that is too long for the shard
  jobs::ShardJobs& jobs;   // its requests go to `router`
  ServerControl& control;
  // Makes a Fetcher; null where the rules name no scheme. Errors: what is wrong with the rules.
  std::function<base::Result<std::unique_ptr<wire::Fetcher>>(const wire::FetchRules&, uint64_t max_bytes)> make_fetcher;
  wire::Relay* relay = nullptr;  // to the other nodes; null: this node is alone
};

// A protocol on one shard, on its thread; destroyed after the shard has been joined.
class Mounted {
 public:
  virtual ~Mounted() = default;
  // The server is going: streams that could go on for ever end within `grace`.
  virtual void drain(base::Duration /*grace*/) {}
};

// Keys for the routes of one dialect alone, each a tenant of its own. auth.keys_file has keys for all.
struct OwnKeys {
  std::string_view setting;   // that names them, a literal
  std::string_view protocol;  // all of the routes (wire::Route::protocol), as words; a literal
  std::vector<std::string> secrets;
};

// A link on the server's front page. The texts are literals.
struct FrontPageLink {
  std::string_view key;   // its name in the JSON's `links`
  std::string_view path;  // of this server
  std::string_view text;  // what a person finds there
};

class Dialect {
 public:
  enum class Switch : uint8_t { kAlwaysOn, kSetting };  // kSetting: "protocols.<name>" turns it off

  virtual ~Dialect() = default;

  virtual std::string_view name() const = 0;   // of its settings: "grps"
  virtual std::string_view title() const = 0;  // for a person: "GRPS"
  virtual Switch switched() const { return Switch::kSetting; }
  // Rows that borrow this.
  virtual void add_settings(std::vector<base::Setting>& /*rows*/) {}
  // Full names of its gRPC services, "grps.protos.v1.GrpsService".
  virtual std::vector<std::string_view> services() const { return {}; }
  virtual std::vector<FrontPageLink> links() const { return {}; }
  // Summaries and schemas of its routes, in the form of dialects/ops/openapi.h; empty: the routes alone are listed.
  virtual std::string openapi() const { return {}; }

  // Once, when all settings have their values; `services` is gone afterwards: copy from it. Errors: INVALID_ARGUMENT
  // names the setting.
  virtual base::Status open(const ServerServices& services) = 0;
  // Adds its routes to the shard's router. Errors: as of open().
  virtual base::Result<std::unique_ptr<Mounted>> mount(const ShardServices& shard) = 0;
  // The keys that its own settings name. At start, and again when the server reads its files anew; not on a shard.
  // Errors: INVALID_ARGUMENT names the setting; FAILED_PRECONDITION for a pipe that is refused, as after the start.
  virtual base::Result<OwnKeys> own_keys(base::Pipes /*pipes*/) const { return OwnKeys(); }
  // Files of logs were moved away, and begin anew under their names (SIGUSR1). While the shards run, on one of them.
  virtual void reopen_files() {}
  // The rules that mount() makes a Fetcher with; null: it makes none.
  virtual const wire::FetchRules* fetch_rules() const { return nullptr; }
  // Names what its settings ask for and `catalog` does not have, a line for each.
  virtual std::vector<std::string> missing(const bus::Catalog& /*catalog*/) const { return {}; }
};

}  // namespace weir::dialects
