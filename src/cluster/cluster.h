// Cluster: this node among others, on a thread of its own: its membership over NATS, and what of it the rest of the
// server is told. Nothing that is called here blocks but stop().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "bus/catalog.h"
#include "cluster/kept_records.h"
#include "cluster/kept_sessions.h"
#include "cluster/node.h"
#include "cluster/peer_answers.h"
#include "cluster/peers.h"

namespace weir::cluster {

struct Settings {
  std::string nats;     // cluster.nats; empty: this node is alone
  std::string name;     // cluster.name; empty: one is drawn
  std::string address;  // cluster.address; empty: where this server listens
  std::string secret;   // the content of cluster.secret; empty: none
  std::string bucket = "weir";
  uint64_t session_bytes = uint64_t(1) << 30;      // of all sessions in JetStream, and of all stored responses
  base::Duration alone = std::chrono::minutes(5);  // Rules::alone
  bool on() const { return !nats.empty(); }
};
// Errors: INVALID_ARGUMENT naming the setting; UNIMPLEMENTED: this build has no NATS.
base::Status check(const Settings& settings);

// The other nodes that are there, as of one moment. Immutable.
struct Members {
  std::vector<Node> nodes;
};

// Where this server listens, if cluster.address does not say it.
struct Listening {
  std::string host;  // "" or a wildcard: the address that NATS sees
  uint16_t port = 0;
  enum class Tls : uint8_t { kNo, kYes } tls = Tls::kNo;
};

class Cluster {
 public:
  struct Callbacks {
    // On the cluster's thread.
    std::function<void(std::shared_ptr<const Members>)> changed;
    std::function<uint32_t()> load;  // calls under way
    KeptSessions::CanTake can_take;
    // Asks another node (peers.h); `then` on any thread, or never.
    std::function<void(const std::string& address, std::string request, Peers::Then then)> ask;
    // --- Sessions that go where their client is; null where there are none. `accept`: whether the state is that of
    // `whose` session. `leave`: lets go of a session of this node, `then` on any thread. `holds`: somebody here has it.
    std::function<base::Status(const std::string& state, const std::string& whose)> accept;
    PeerAnswers::Leave leave;
    KeptSessions::Holds holds;
  };

  // `memory`: charged with stored responses that are read; it outlives this. Null: nobody is charged.
  Cluster(const Settings& settings, Callbacks callbacks, base::MemoryLedger* memory = nullptr);
  ~Cluster();
  Cluster(const Cluster&) = delete;

  void start(const Listening& listening);
  // Leaves, so that the others know at once. Nothing is called afterwards.
  void stop();

  // Any thread from here on.
  // The models that other nodes may send calls for.
  void serve(std::vector<NodeModel> models);
  // The others send no new calls from now on.
  void drain();
  // --- Sessions: KeptSessions for any thread. The answers come on the cluster's thread; false: it has stopped, and
  // none comes. How long a session may be without use, the longest that is said: before start().
  void keep_sessions_for(base::Duration life);
  // For how long a session's record is in the bucket once nobody writes it any more: for all kinds alike. Once it has
  // been started; any thread.
  base::Duration sessions_last() const;
  bool save_session(const std::string& id, std::string state, Ownership::Done then,
                    KeptSessions::Tells tells = KeptSessions::Tells::kWhetherToAnswer);
  bool find_session(const std::string& id, std::string unreachable, KeptSessions::Found then);
  void end_session(const std::string& id);
  // To this node: Callbacks::accept is asked for `whose` it is.
  bool move_session(const std::string& id, const std::string& whose, KeptSessions::Found then);
  bool release_session(const std::string& id, Ownership::Done then);
  // On the cluster's thread, unless this has been stopped before.
  bool after(base::Duration time, std::function<void()> work);
  // --- Stored responses. How long they are there: before start(); else there are none. `what` runs on the cluster's
  // thread, with null where there are none; false: it has stopped.
  void keep_records_for(base::Duration life);
  bool use_records(std::function<void(KeptRecords*)> what);
  // OtherNodes::epoch().
  uint64_t epoch() const;
  // This node is one of them, and nothing keeps the bucket's news from it: whoever is not among Members is not there.
  bool knows_nodes() const;

  // Answers what another node asks (peers.h). False: it has stopped.
  bool answer_peer(std::string request, std::function<void(std::string)> then);

  // For people: "3 nodes", "NATS is away since 12 s, 2 nodes known: …".
  std::string detail() const;
  void write_families(std::string& out) const;

  const std::string& name() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// The models of a catalog that this node runs itself, or hands on to servers that are no nodes.
std::vector<NodeModel> own_models(const bus::Catalog& catalog);

}  // namespace weir::cluster
