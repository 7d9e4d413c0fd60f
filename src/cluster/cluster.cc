#include "cluster/cluster.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/log.h"
#include "cluster/figures.h"
#include "cluster/file_bucket.h"
#include "cluster/lease_view.h"
#include "cluster/loop.h"
#include "cluster/membership.h"
#include "cluster/movers.h"
#include "cluster/nats_bucket.h"
#include "cluster/parted_bucket.h"
#include "cluster/peer_answers.h"
#include "cluster/posted_peers.h"
#include "cluster/relayed_bucket.h"

namespace weir::cluster {

using base::Status;

namespace {

constexpr auto kLastSaves = std::chrono::seconds(2);  // of sessions that have ended in the drain
constexpr auto kLeave = std::chrono::seconds(2);      // to erase this node's entry

constexpr auto kTellEvery = std::chrono::milliseconds(100);
constexpr size_t kMostSessions = 1 << 18;  // that this node has in the bucket
constexpr base::Duration kSessionLife = std::chrono::minutes(30);
constexpr auto kSlack = std::chrono::minutes(1);  // a session expires here before it does in the bucket

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
  Parts(const Settings& s, Callbacks c, base::MemoryLedger* m)
      : settings(s),
        callbacks(std::move(c)),
        memory(m),
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
  void say_name_taken(const Node& other);
  void make_rules();
  std::vector<std::string> addresses() const;
  NatsBucket::Options file_options(const char* suffix, base::Duration life) const;

  const Settings settings;
  const Callbacks callbacks;
  base::MemoryLedger* const memory;
  const Secrets secrets;
  Loop loop;
  const std::string name;
  Listening listening;
  // On the loop's thread.
  PostedPeers peers;
  std::optional<NatsBucket> bucket;
  std::optional<RelayedBucket> relayed_bucket, relayed_sessions;
  std::optional<PartedBucket> parted_sessions, parted_responses;
  std::optional<Membership> membership;
  std::optional<FileBucket> session_bucket, response_bucket;
  std::optional<Ownership> ownership;
  std::optional<KeptSessions> kept;
  std::optional<KeptRecords> records;
  std::optional<PeerAnswers> peer_answers;
  base::Duration session_life{};  // 0: nobody has said it
  base::Duration record_life{};   // 0: there are none
  base::TimerId load_timer = base::TimerId::kNone, tell_timer = base::TimerId::kNone;
  base::Time told{};                 // Callbacks::changed has returned
  size_t saves = 0;                  // of sessions, under way
  std::function<void()> when_saved;  // null: nobody waits for them
  bool stopped = false;
  // For any thread.
  std::atomic<size_t> nodes{0};
  Figures figures;
  std::atomic<base::Time> away_since{base::Time()};  // Time(): it is there
  std::atomic<bool> reaches_nats{false};             // as of the last second
  LeaseView lease;
};

Membership::Listener Cluster::Parts::membership_listener() {
  Membership::Listener out;
  out.changed = [this] { changed(); };
  out.joined = [this](const Node& node) {
    ++figures.joins;
    base::log::info("a node has joined", {{"node", node.id},
                                          {"address", node.address},
                                          {"models", node.models.size()},
                                          {"nodes", membership->nodes().size() + 1}});
  };
  out.left = [this](const Node& node) {
    ++figures.leaves;
    base::log::warning("a node has left", {{"node", node.id}, {"nodes", membership->nodes().size() + 1}});
  };
  out.leased = [this](base::Time until) { claim(until); };
  out.name_taken = [this](const Node& other) { say_name_taken(other); };
  out.fenced = [this] {
    ++figures.fences;
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
            figures.refused = membership->others().refused();
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
  ++figures.losses;
  reaches_nats = false;
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

NatsBucket::Options Cluster::Parts::file_options(const char* suffix, base::Duration life) const {
  NatsBucket::Options out{settings.nats, settings.bucket + suffix, name};
  out.life = life;
  out.most_bytes = settings.session_bytes;
  return out;
}

void Cluster::Parts::claim(base::Time until) { lease.claim(until, membership->self().incarnation); }

void Cluster::Parts::say_name_taken(const Node& other) {
  base::log::error(
      "another process has this node's name: until it has gone, no node sends calls here, and kept sessions are "
      "refused",
      {{"node", name}, {"address", base::presentable(other.address, 160)}, {"setting", "cluster.name"}});
  lease.name_taken();
}

void Cluster::Parts::report_load() {
  reaches_nats = !membership->away() && relayed_bucket->way().empty();
  figures.by_another = membership->reaches_bucket() && !relayed_bucket->way().empty();
  figures.named = membership->named();
  figures.owned = kept->owned(), figures.unkept = kept->unkept(), figures.taken = kept->taken();
  figures.refused_sessions = kept->refused(), figures.lost_turns = kept->lost_turns();
  if (records)
    figures.unkept_responses = records->unkept(), figures.lost_responses = records->lost(),
    figures.refused_responses = records->refused(), figures.left_responses = records->left();
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
  relayed_bucket.emplace(*bucket, relays, others), relayed_sessions.emplace(*session_bucket, relays, others);
  Node self;
  self.id = name;
  Rules rules;
  rules.alone = settings.alone;
  membership.emplace(loop, *relayed_bucket, rules, secrets.entry_key, std::move(self), membership_listener(), &peers);
  parted_sessions.emplace(loop, *relayed_sessions);
  ownership.emplace(*parted_sessions, *membership, kMostSessions, secrets.entry_key);
  auto can_take = [this](const std::string& state) { return callbacks.can_take(state); };
  kept.emplace(loop, *membership, *ownership, can_take, KeptSessions::Limits());
  if (response_bucket) {
    parted_responses.emplace(loop, *response_bucket, KeptRecords::kLargestValue);
    records.emplace(
        loop, *parted_responses, name, secrets.entry_key, [this] { return !membership->away(); }, KeptRecords::Limits(),
        memory);
  }
  peer_answers.emplace(*membership, *bucket, *session_bucket,
                       relays ? PeerAnswers::Relays::kYes : PeerAnswers::Relays::kNo, leave_on(loop, callbacks.leave));
}

Cluster::Cluster(const Settings& settings, Callbacks callbacks, base::MemoryLedger* memory)
    : parts_(std::make_unique<Parts>(settings, std::move(callbacks), memory)) {}

Cluster::~Cluster() { stop(); }

void Cluster::start(const Listening& listening) {
  Parts& p = *parts_;
  p.listening = listening;
  p.away_since = p.loop.now();
  NatsBucket::Options members{p.settings.nats, p.settings.bucket, p.name};
  members.watch = std::string(Membership::kPrefix) + '*', members.largest = kLargestNode;
  p.bucket.emplace(p.loop, std::move(members), p.bucket_listener());
  if (p.session_life == base::Duration(0)) p.session_life = kSessionLife;
  p.session_bucket.emplace(p.loop, p.file_options("-sessions", sessions_last()));
  if (p.record_life > base::Duration(0)) p.response_bucket.emplace(p.loop, p.file_options("-responses", p.record_life));
  p.make_rules();
  p.claim({});
  p.session_bucket->start();
  if (p.response_bucket) p.response_bucket->start();
  p.loop.post([&p] {
    p.report_load();
    p.bucket->start();
  });
  p.loop.start();
}

void Cluster::stop() {
  Parts& p = *parts_;
  if (!p.bucket || std::exchange(p.stopped, true)) return;
  auto saved = std::make_shared<std::promise<void>>(), left = std::make_shared<std::promise<void>>();
  auto done = saved->get_future();
  p.loop.post([&p, saved] {
    auto over = [saved] { saved->set_value(); };
    p.saves == 0 ? over() : void(p.when_saved = over);
  });
  (void)done.wait_for(kLastSaves);
  done = left->get_future();
  p.loop.post([&p, left] {
    p.when_saved = nullptr;
    p.claim({});
    p.membership->leave([left] { left->set_value(); });
  });
  if (done.wait_for(kLeave) != std::future_status::ready) p.bucket->abandon();
  auto ended = std::make_shared<std::promise<void>>();
  done = ended->get_future();
  p.loop.post([&p, ended] {
    p.bucket->stop();
    ended->set_value();
  });
  done.wait();
  p.session_bucket->stop();
  if (p.response_bucket) p.response_bucket->stop();
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
    p->kept->release_all(p->callbacks.holds);
  });
}

void Cluster::keep_sessions_for(base::Duration life) { parts_->session_life = std::max(parts_->session_life, life); }

base::Duration Cluster::sessions_last() const { return parts_->session_life + kSlack; }

bool Cluster::save_session(const std::string& id, std::string state, Ownership::Done then, KeptSessions::Tells tells) {
  return parts_->loop.post([p = parts_.get(), id, state = std::move(state), then = std::move(then), tells]() mutable {
    ++p->saves;
    auto saved = [p, then = std::move(then)](const Status& status) {
      then(status);
      if (--p->saves == 0 && p->when_saved) std::exchange(p->when_saved, nullptr)();
    };
    p->kept->save(id, std::move(state), std::move(saved), tells);
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

bool Cluster::move_session(const std::string& id, const std::string& whose, KeptSessions::Found then) {
  return parts_->loop.post([p = parts_.get(), id, whose, then = std::move(then)] {
    p->kept->find(id, "", then, make_mover(*p->membership, p->peers, p->callbacks.accept, id, whose));
  });
}

bool Cluster::release_session(const std::string& id, Ownership::Done then) {
  return parts_->loop.post([p = parts_.get(), id, then = std::move(then)] { p->kept->release(id, then); });
}

bool Cluster::after(base::Duration time, std::function<void()> work) {
  return parts_->loop.post([p = parts_.get(), when = parts_->loop.now() + time, work = std::move(work)]() mutable {
    p->loop.at(when, std::move(work));
  });
}

void Cluster::keep_records_for(base::Duration life) { parts_->record_life = life; }

bool Cluster::use_records(std::function<void(KeptRecords*)> what) {
  return parts_->loop.post([p = parts_.get(), what = std::move(what)] { what(p->records ? &*p->records : nullptr); });
}

bool Cluster::answer_peer(std::string request, std::function<void(std::string)> then) {
  return parts_->loop.post([p = parts_.get(), request = std::move(request), then = std::move(then)] {
    if (p->peer_answers) p->peer_answers->answer(request, then);
  });
}

uint64_t Cluster::epoch() const { return parts_->lease.epoch(); }

bool Cluster::knows_nodes() const { return parts_->reaches_nats.load() && epoch() != 0; }

const std::string& Cluster::name() const { return parts_->name; }

std::string Cluster::detail() const {
  const size_t count = parts_->nodes.load() + 1;
  const std::string nodes = std::to_string(count) + (count == 1 ? " node" : " nodes");
  const base::Time since = parts_->away_since.load();
  const bool leased = epoch() != 0;
  if (since == base::Time()) return leased ? nodes : nodes + ", " + parts_->lease.why_none(parts_->name);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(base::steady_now() - since).count();
  return "NATS is away since " + std::to_string(seconds) + " s, " + nodes + " known: " +
         (!leased                      ? "kept sessions are refused, since another node may have them"
          : parts_->figures.by_another ? "another node writes for this one"
                                       : "nobody else that is known reaches it");
}

void Cluster::write_families(std::string& out) const {
  const Parts& p = *parts_;
  p.figures.write(out, {p.nodes + 1, p.away_since.load() == base::Time(), epoch() != 0});
}

}  // namespace weir::cluster
