#include "cluster/cluster.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/log.h"
#include "cluster/loop.h"
#include "cluster/membership.h"
#include "cluster/nats_bucket.h"
#include "cluster/parted_bucket.h"
#include "cluster/peer_answers.h"
#include "cluster/posted_bucket.h"
#include "cluster/posted_peers.h"
#include "cluster/relayed_bucket.h"

namespace weir::cluster {

using base::Status;

namespace {

constexpr auto kLeave = std::chrono::seconds(2);  // to erase this node's entry

constexpr auto kTellEvery = std::chrono::milliseconds(100);
constexpr size_t kMostSessions = 1 << 18;         // that this node has in the bucket
constexpr auto kSlack = std::chrono::minutes(1);  // a session expires here before it does in the bucket

void family(std::string& out, std::string_view name, std::string_view type, std::string_view help, uint64_t value) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ");
  out.append(type).append("\n").append(name).append(" ").append(std::to_string(value)).append("\n");
}

std::string drawn_name(Loop& loop) {
  const uint64_t bits = loop.random();
  return base::hex({reinterpret_cast<const char*>(&bits), sizeof bits});
}

bool is_wildcard(const std::string& host) { return host.empty() || host == "0.0.0.0" || host == "::" || host == "*"; }

std::string address_of(const Settings& settings, const Listening& listening, const std::string& seen) {
  if (!settings.address.empty()) return settings.address;
  std::string host = is_wildcard(listening.host) ? seen : listening.host;
  if (host.empty() || listening.port == 0) return "";
  if (host.find(':') != host.npos && host[0] != '[') host = '[' + host + ']';
  return (listening.tls == Listening::Tls::kYes ? "https://" : "http://") + host + ':' + std::to_string(listening.port);
}

}  // namespace

struct Cluster::Parts {
  Parts(const Settings& s, Callbacks c)
      : settings(s),
        callbacks(std::move(c)),
        secrets(Secrets::derive(s.secret)),
        name(s.name.empty() ? drawn_name(loop) : s.name),
        peers(loop, callbacks.ask) {}

  Membership::Listener membership_listener();
  NatsBucket::Listener bucket_listener();
  void connected();
  void disconnected(const std::string& why);
  void changed();
  void tell();
  void tell_of(const std::string& node);
  void report_load();
  void claim(base::Time until);
  void make_rules();
  std::vector<std::string> addresses() const;
  NatsBucket::Options session_options() const;
  void write_session_families(std::string& out) const;

  const Settings settings;
  const Callbacks callbacks;
  const Secrets secrets;
  Loop loop;
  const std::string name;
  Listening listening;
  // On the loop's thread.
  PostedPeers peers;
  std::optional<NatsBucket> bucket;
  std::optional<RelayedBucket> relayed_bucket, relayed_sessions;
  std::optional<PartedBucket> parted_sessions;
  std::optional<Membership> membership;
  Loop session_loop;  // that requests for sessions block
  std::optional<NatsBucket> session_bucket;
  std::optional<PostedBucket> posted_bucket;
  std::optional<Ownership> ownership;
  std::optional<KeptSessions> kept;
  std::optional<PeerAnswers> peer_answers;
  base::Duration session_life = std::chrono::minutes(30);
  base::TimerId load_timer = base::TimerId::kNone, tell_timer = base::TimerId::kNone;
  base::Time told{};  // Callbacks::changed has returned
  bool stopped = false;
  // For any thread.
  std::atomic<size_t> nodes{0};
  std::atomic<uint64_t> refused{0}, joins{0}, leaves{0}, fences{0}, losses{0};
  std::atomic<base::Time> away_since{base::Time()};  // Time(): it is there
  std::atomic<base::Time> lease_until{base::Time()};
  std::atomic<uint64_t> incarnation{0};
  std::atomic<bool> by_another{false};  // node's way to the bucket
  std::atomic<size_t> named{0};         // Membership::named()
  std::atomic<uint64_t> owned{0}, unkept{0}, taken{0}, refused_sessions{0}, lost_turns{0};
};

Membership::Listener Cluster::Parts::membership_listener() {
  Membership::Listener out;
  out.changed = [this] { changed(); };
  out.joined = [this](const Node& node) {
    ++joins;
    base::log::info("a node has joined", {{"node", node.id},
                                          {"address", node.address},
                                          {"models", node.models.size()},
                                          {"nodes", membership->nodes().size() + 1}});
  };
  out.left = [this](const Node& node) {
    ++leaves;
    base::log::warning("a node has left", {{"node", node.id}, {"nodes", membership->nodes().size() + 1}});
  };
  out.leased = [this](base::Time until) { claim(until); };
  out.fenced = [this] {
    ++fences;
    kept->drop_all();
    claim({});
    base::log::warning("this node was silent too long, and joins anew", {{"node", name}});
  };
  out.refused = [](const std::string& key, const std::string& why) {
    base::log::warning("an entry of the cluster's bucket is refused",
                       {{"key", base::presentable(key, 160)}, {"reason", base::presentable(why, 300)}});
  };
  return out;
}

NatsBucket::Listener Cluster::Parts::bucket_listener() {
  return {[this] { connected(); }, [this](const std::string& why) { disconnected(why); },
          [this](const Bucket::KeyValue& entry) {
            membership->on_entry(entry);
            refused = membership->others().refused();
          }};
}

void Cluster::Parts::connected() {
  const bool was_away = away_since.exchange(base::Time()) != base::Time();
  membership->self().address = address_of(settings, listening, bucket->client_ip());
  if (was_away) base::log::info("NATS is there", {{"node", name}, {"address", membership->self().address}});
  membership->connected();
  changed();
}

void Cluster::Parts::disconnected(const std::string& why) {
  ++losses;
  if (away_since.load() == base::Time()) away_since = loop.now();
  base::log::warning("NATS is away: the nodes that are known stay", {{"reason", why}, {"nodes", nodes.load() + 1}});
  membership->disconnected();
}

// Whatever changes meanwhile is told at once: a thousand nodes may say something else of themselves in one turn.
void Cluster::Parts::changed() {
  if (tell_timer != base::TimerId::kNone) return;
  tell_timer = loop.at(std::max(loop.now(), told + kTellEvery), [this] { tell(); });
}

void Cluster::Parts::tell() {
  tell_timer = base::TimerId::kNone;
  auto members = std::make_shared<Members>();
  for (const Node* node : membership->others().tell()) members->nodes.push_back(*node);
  nodes = members->nodes.size();
  if (callbacks.changed) callbacks.changed(std::move(members));
  told = loop.now();
}

// Whoever is sent to a node knows it: news of one that has just joined do not wait then.
void Cluster::Parts::tell_of(const std::string& node) {
  if (node.empty() || tell_timer == base::TimerId::kNone || membership->others().told(node)) return;
  loop.cancel(tell_timer);
  tell();
}

NatsBucket::Options Cluster::Parts::session_options() const {
  NatsBucket::Options out{settings.nats, settings.bucket + "-sessions", name};
  out.life = session_life + kSlack;
  out.most_bytes = settings.session_bytes;
  out.store = NatsBucket::Options::Store::kFile;
  out.watch = "";
  return out;
}

// Sets what epoch() reads. The lease goes first where it gets shorter, and last where it gets longer.
void Cluster::Parts::claim(base::Time until) {
  if (until < lease_until.load()) lease_until = until;
  incarnation = membership->self().incarnation;
  lease_until = until;
}

void Cluster::Parts::report_load() {
  by_another = membership->reaches_bucket() && !relayed_bucket->way().empty();
  named = membership->named();
  owned = kept->owned(), unkept = kept->unkept(), taken = kept->taken();
  refused_sessions = kept->refused(), lost_turns = kept->lost_turns();
  load_timer = loop.at(loop.now() + Rules().beat, [this] { report_load(); });
  if (callbacks.load) membership->self().load = callbacks.load();
}

std::vector<std::string> Cluster::Parts::addresses() const {
  std::vector<std::string> out;
  for (const Node* node : membership->nodes())
    if (!node->address.empty()) out.push_back(node->address);
  return out;
}

// The pure part, over both buckets.
void Cluster::Parts::make_rules() {
  // Where nobody can prove to be a node, nobody writes for another one.
  Peers* relays = settings.secret.empty() ? nullptr : &peers;
  auto others = [this] { return addresses(); };
  relayed_bucket.emplace(*bucket, relays, others), relayed_sessions.emplace(*posted_bucket, relays, others);
  Node self;
  self.id = name;
  Rules rules;
  rules.alone = settings.alone;
  membership.emplace(loop, *relayed_bucket, rules, secrets.entry_key, std::move(self), membership_listener(), &peers);
  parted_sessions.emplace(loop, *relayed_sessions);
  ownership.emplace(*parted_sessions, *membership, kMostSessions, secrets.entry_key);
  auto can_take = [this](const std::string& state) { return callbacks.can_take(state); };
  kept.emplace(loop, *membership, *ownership, can_take, KeptSessions::Limits());
  peer_answers.emplace(*membership, *bucket, *posted_bucket,
                       relays ? PeerAnswers::Relays::kYes : PeerAnswers::Relays::kNo);
}

Cluster::Cluster(const Settings& settings, Callbacks callbacks)
    : parts_(std::make_unique<Parts>(settings, std::move(callbacks))) {}

Cluster::~Cluster() { stop(); }

void Cluster::start(const Listening& listening) {
  Parts& p = *parts_;
  p.listening = listening;
  p.away_since = p.loop.now();
  NatsBucket::Options members{p.settings.nats, p.settings.bucket, p.name};
  members.watch = std::string(Membership::kPrefix) + '*', members.largest = kLargestNode;
  p.bucket.emplace(p.loop, std::move(members), p.bucket_listener());
  p.session_bucket.emplace(p.session_loop, p.session_options(), NatsBucket::Listener{[] {}, [](const auto&) {}, {}});
  p.posted_bucket.emplace(p.loop, *p.session_bucket);
  p.make_rules();
  p.claim({});
  p.session_loop.post([&p] { p.session_bucket->start(); });
  p.session_loop.start();
  p.loop.post([&p] {
    p.report_load();
    p.bucket->start();
  });
  p.loop.start();
}

void Cluster::stop() {
  Parts& p = *parts_;
  if (!p.bucket || std::exchange(p.stopped, true)) return;
  auto left = std::make_shared<std::promise<void>>();
  auto done = left->get_future();
  p.loop.post([&p, left] {
    p.claim({});
    p.membership->leave([left] { left->set_value(); });
  });
  done.wait_for(kLeave);
  auto ended = std::make_shared<std::promise<void>>();
  done = ended->get_future();
  p.loop.post([&p, ended] {
    p.bucket->stop();
    ended->set_value();
  });
  done.wait();
  ended = std::make_shared<std::promise<void>>();
  done = ended->get_future();
  p.session_loop.post([&p, ended] {
    p.session_bucket->stop();
    ended->set_value();
  });
  done.wait();
  p.session_loop.stop();
  p.loop.stop();
}

void Cluster::serve(std::vector<NodeModel> models) {
  parts_->loop.post([p = parts_.get(), models = std::move(models)]() mutable {
    if (p->membership->self().models == models) return;
    p->membership->self().models = std::move(models);
    p->membership->beat_now();
  });
}

void Cluster::drain() {
  parts_->loop.post([p = parts_.get()] {
    p->membership->self().phase = Node::Phase::kDraining;
    p->membership->beat_now();
    p->kept->release_all();
  });
}

void Cluster::keep_sessions_for(base::Duration life) { parts_->session_life = life; }

bool Cluster::save_session(const std::string& id, std::string state, Ownership::Done then) {
  return parts_->loop.post([p = parts_.get(), id, state = std::move(state), then = std::move(then)]() mutable {
    p->kept->save(id, std::move(state), std::move(then));
  });
}

bool Cluster::find_session(const std::string& id, std::string unreachable, KeptSessions::Found then) {
  return parts_->loop.post([p = parts_.get(), id, unreachable = std::move(unreachable), then = std::move(then)] {
    p->kept->find(id, unreachable, [p, then](base::Result<KeptSessions::Place> place) {
      if (place) p->tell_of(place->node);
      then(std::move(place));
    });
  });
}

void Cluster::end_session(const std::string& id) {
  parts_->loop.post([p = parts_.get(), id] { p->kept->end(id); });
}

bool Cluster::answer_peer(std::string request, std::function<void(std::string)> then) {
  return parts_->loop.post([p = parts_.get(), request = std::move(request), then = std::move(then)] {
    if (p->peer_answers) p->peer_answers->answer(request, then);
  });
}

uint64_t Cluster::epoch() const {
  return base::steady_now() < parts_->lease_until.load() ? parts_->incarnation.load() : 0;
}

const std::string& Cluster::name() const { return parts_->name; }

std::string Cluster::detail() const {
  const size_t count = parts_->nodes.load() + 1;
  const std::string nodes = std::to_string(count) + (count == 1 ? " node" : " nodes");
  const base::Time since = parts_->away_since.load();
  if (since == base::Time()) return nodes;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(base::steady_now() - since).count();
  const bool leased = epoch() != 0;
  return "NATS is away since " + std::to_string(seconds) + " s, " + nodes + " known: " +
         (!leased              ? "kept sessions are refused, since another node may have them"
          : parts_->by_another ? "another node writes for this one"
                               : "nobody else that is known reaches it");
}

void Cluster::Parts::write_session_families(std::string& out) const {
  family(out, "weir_cluster_sessions", "gauge", "Sessions of this node that another one could go on with.", owned);
  family(out, "weir_cluster_unkept_sessions", "gauge", "Sessions whose last turn waits for NATS to be there.", unkept);
  family(out, "weir_cluster_taken_sessions_total", "counter", "Sessions of other nodes that this one has taken.",
         taken);
  family(out, "weir_cluster_refused_sessions_total", "counter", "Records of sessions that cannot be read.",
         refused_sessions);
  family(out, "weir_cluster_lost_turns_total", "counter",
         "Turns that are not kept: another node had the session, or there was no room for it.", lost_turns);
}

void Cluster::write_families(std::string& out) const {
  const Parts& p = *parts_;
  family(out, "weir_cluster_nodes", "gauge", "Nodes that are there, this one among them.", p.nodes + 1);
  family(out, "weir_cluster_connected", "gauge", "1 while the bucket in NATS can be reached.",
         p.away_since.load() == base::Time());
  family(out, "weir_cluster_leased", "gauge", "1 while this node may answer for sessions that are kept.", epoch() != 0);
  family(out, "weir_cluster_relayed", "gauge", "1 while another node writes for this one.", p.by_another);
  family(out, "weir_cluster_named_nodes", "gauge",
         "Nodes that this one's entry names; sooner than others they may take its sessions.", p.named);
  family(out, "weir_cluster_joins_total", "counter", "Nodes that have joined.", p.joins);
  family(out, "weir_cluster_leaves_total", "counter", "Nodes that have left, or fell silent.", p.leaves);
  family(out, "weir_cluster_losses_total", "counter", "Times that NATS went away.", p.losses);
  family(out, "weir_cluster_fences_total", "counter", "Times that this node was silent too long, and joined anew.",
         p.fences);
  p.write_session_families(out);
  family(out, "weir_cluster_refused_entries_total", "counter", "Entries of the bucket that were not taken.", p.refused);
}

}  // namespace weir::cluster
