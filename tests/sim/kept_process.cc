#include "kept_process.h"

#include "cluster/peers.h"

namespace weir::sim {

namespace {

constexpr int64_t kRequest = kSecond;  // that one to NATS or to another node may take
constexpr int64_t kBetweenSaves = 100 * kMs;
constexpr uint64_t kMostBytes = uint64_t(1) << 40;

}  // namespace

std::string text_of(const std::set<std::string>& items) {
  std::string out;
  for (const auto& item : items) out += item + ',';
  return out;
}

std::set<std::string> items_of(const std::string& text) {
  std::set<std::string> out;
  for (size_t at = 0, end = 0; (end = text.find(',', at)) != text.npos; at = end + 1)
    out.insert(text.substr(at, end - at));
  return out;
}

// --- Env ------------------------------------------------------------------------------------------------------------

void KeptWorld::Env::fire_or_wait(uint64_t id) {
  if (!alive_) return;
  if (!stopped() && waiting_.empty()) return fire(id);
  waiting_.push_back(id);
  go_on();
}

// Work that has waited runs in its order.
void KeptWorld::Env::go_on() {
  while (!waiting_.empty() && !stopped()) {
    const uint64_t id = waiting_.front();
    waiting_.pop_front();
    fire(id);
  }
  if (!waiting_.empty()) world_.at(stopped_until_, [this] { go_on(); });
}

void KeptWorld::Env::fire(uint64_t id) {
  auto run = timers_.extract(id);
  if (!run.empty()) run.mapped()();
}

// --- Link -----------------------------------------------------------------------------------------------------------

void KeptWorld::Link::connect() {
  if (!env_.alive()) return;
  auto again = [this] { world_.in(1 + Real(world_.draw(uint64_t(world_.faults_.reconnect))), [this] { connect(); }); };
  if (!world_.nats_) return again();
  life_ = world_.nats_life_;
  world_.in(world_.delay(), [this, again] {
    env_.deliver([this, again] {
      if (!world_.nats_ || life_ != world_.nats_life_) return again();
      up_ = true;
      if (connected) connected();
    });
  });
}

// NATS is gone.
void KeptWorld::Link::lost() {
  world_.in(world_.delay() / 4, [this] {
    env_.deliver([this] {
      if (std::exchange(up_, false) && disconnected) disconnected();
      world_.in(1 + Real(world_.draw(uint64_t(world_.faults_.reconnect))), [this] { connect(); });
    });
  });
}

void KeptWorld::Link::read(const std::string& key, OnRead then) {
  auto look = [this, key]() -> base::Result<KeyValue> {
    const auto& table = world_.tables_[size_t(table_)];
    auto found = table.find(key);
    if (found == table.end()) return failure(Code::kNotFound, "nothing there");
    return found->second;
  };
  request<KeyValue>(look, std::move(then));
}

void KeptWorld::Link::next() {
  if (busy_ || requests_.empty()) return;
  busy_ = true;
  auto run = std::move(requests_.front());
  requests_.pop_front();
  run();
}

// A request that NATS has done, and not answered before it was killed, is done all the same.
template <class Answer>
void KeptWorld::Link::request(std::function<base::Result<Answer>()> execute,
                              std::function<void(base::Result<Answer>)> then) {
  requests_.push_back([this, execute = std::move(execute), then = std::move(then)] {
    auto told = std::make_shared<bool>(false);
    auto tell = [this, told, then](base::Result<Answer> answer) {
      env_.deliver([this, told, then, answer] {
        if (std::exchange(*told, true)) return;
        busy_ = false;
        then(answer);
        next();
      });
    };
    if (!up_) return tell(failure(Code::kUnavailable, "NATS is away"));
    const uint64_t life = life_;
    auto there = [this, life] { return world_.nats_ && world_.nats_life_ == life; };
    world_.in(kRequest, [tell] { tell(failure(Code::kUnavailable, "no answer")); });
    world_.in(world_.delay(), [this, execute, tell, there] {
      if (!there()) return;
      auto answer = execute();
      world_.in(world_.delay(), [tell, there, answer] {
        if (there()) tell(answer);
      });
    });
  });
  world_.in(world_.delay() / 8, [this] { env_.deliver([this] { next(); }); });
}

// --- Process --------------------------------------------------------------------------------------------------------

KeptWorld::Process::Process(KeptWorld& its_world, std::string its_name)
    : world(its_world),
      name(std::move(its_name)),
      env(world),
      nodes(world, env, Table::kNodes),
      records(world, env, Table::kSessions),
      membership(env, nodes, cluster::Rules(), "", described(name), listener(), this),
      parted(env, records),
      ownership(parted, membership, 1000),
      kept(
          env, membership, ownership, [](const std::string&) { return Status(); }, cluster::KeptSessions::Limits()),
      answers(membership, nodes, records, cluster::PeerAnswers::Relays::kNo,
              [this](const std::string& id, const std::string& whose, std::function<void(Status)> then) {
                handover.leave(id, whose,
                               [this, then](const Status& status) { hop([then, status] { then(status); }); });
              }) {
  wire();
  nodes.start(), records.start();
}

void KeptWorld::Process::wire() {
  calls.post = [this](std::function<void()> work) { return hop(std::move(work)), true; };
  calls.later = [this](base::Duration time, std::function<void()> work) {
    hop([this, when = env.now() + time, work = std::move(work)] { env.at(when, work); });
    return true;
  };
  calls.claimed = [this] { return env.now() < claimed_until_ ? claimed_ : 0; };
  calls.kept = &kept;
  calls.mover = [this](const std::string& id, const std::string& whose) {
    cluster::KeptSessions::Mover mover;
    mover.accept = [whose](const std::string& state) { return app::ClusterHandover::accept(state, whose); };
    mover.ask = [this, id, whose](const std::string& owner, const cluster::Ownership::Done& then) {
      ask_owner(owner, id, whose, then);
    };
    return mover;
  };
  handover.attach(calls, kMostBytes);
  handover.post_by([this](base::ShardId, std::function<void()> work) { hop(std::move(work)); });
  handover.keep_for(std::chrono::hours(1));
  nodes.connected = [this] {
    membership.connected();
    for (const auto& [key, entry] : world.tables_[size_t(Table::kNodes)])
      world.in(world.delay(), [this, entry = entry] {
        env.deliver([this, entry] {
          if (nodes.up()) membership.on_entry(entry);
        });
      });
  };
  nodes.disconnected = [this] { membership.disconnected(); };
}

cluster::Node KeptWorld::Process::described(const std::string& name) {
  cluster::Node node;
  node.id = name, node.address = "http://" + name;
  return node;
}

cluster::Membership::Listener KeptWorld::Process::listener() {
  cluster::Membership::Listener out;
  auto claim = [this](base::Time until) { claimed_ = membership.self().incarnation, claimed_until_ = until; };
  out.leased = claim;
  out.fenced = [this, claim] {
    world.note(name + " was fenced");
    kept.drop_all();
    claim({});
  };
  return out;
}

void KeptWorld::Process::hop(std::function<void()> work) {
  const Real most = world.faults_.delay / 10 + 1;
  last_hop_ = std::max(last_hop_, world.now_ + Real(world.draw(uint64_t(most))));
  world.at(last_hop_, [this, work = std::move(work)] { env.deliver(work); });
}

void KeptWorld::Process::ask(const std::string& address, std::string request, Then then) {
  auto told = std::make_shared<bool>(false);
  auto tell = [this, told, then](base::Result<std::string> answer) {
    env.deliver([told, then, answer] {
      if (!std::exchange(*told, true)) then(answer);
    });
  };
  world.in(kRequest, [tell] { tell(failure(Code::kUnavailable, "no answer")); });
  Process* to = world.process_at(address);
  if (!to) return;
  world.in(world.delay(), [this, to, request, tell] {
    to->env.deliver([this, to, request, tell] {
      to->answers.answer(request, [this, tell](const std::string& answer) {
        world.in(world.delay(), [tell, answer] { tell(answer); });
      });
    });
  });
}

void KeptWorld::Process::ask_owner(const std::string& owner, const std::string& id, const std::string& whose,
                                   const cluster::Ownership::Done& then) {
  std::string address;
  for (const auto* node : membership.nodes())
    if (node->id == owner) address = node->address;
  if (address.empty()) return then(failure(Code::kUnavailable, "its address is not known"));
  ask(address, cluster::write_request({cluster::PeerRequest::What::kLeave, id, 0, whose}),
      [then](const base::Result<std::string>& answer) {
        if (!answer) return then(answer.error());
        auto read = cluster::read_answer(*answer);
        then(read ? Status() : read.error());
      });
}

// --- sessions -------------------------------------------------------------------------------------------------------

bool KeptWorld::Attended::lost() const { return held && process.handover.epoch() != epoch; }

std::shared_ptr<KeptWorld::Attended> KeptWorld::Process::attend() {
  auto out = std::make_shared<Attended>(*this);
  sessions[out.get()] = out;
  return out;
}

void KeptWorld::Process::hold(Attended& s) {
  s.held = true;
  handover.hold(s.id, "ann", base::ShardId{0}, [this, keep = sessions.at(&s)] {
    if (!keep->over) end(*keep, failure(Code::kAborted, "it goes on elsewhere"), Save::kLast);
  });
}

void KeptWorld::Process::save(Attended& s) {
  s.due = s.awaited = s.changed = false;
  s.last_begun = world.now_;
  world.note(name + " saves " + text_of(s.items));
  handover.save(s.id, text_of(s.items), base::ShardId{0},
                [this, keep = sessions.at(&s), number = ++s.begun](const Status& status) {
                  if (!keep->over) saved(*keep, number, status);
                });
}

void KeptWorld::Process::saved(Attended& s, uint64_t number, const Status& status) {
  s.done = number, s.last_save = status;
  world.note(name + " has saved: " + (status.ok() ? "ok" : status.text));
  if (status.code == Code::kAborted) return end(s, status, Save::kLast);
  for (auto& [save, then] : std::exchange(s.keeps, {})) {
    if (s.done >= save)
      then(status);
    else
      s.keeps.emplace_back(save, std::move(then));
  }
  settle(s);
}

void KeptWorld::Process::settle(Attended& s) {
  if (s.over) return;
  if (s.lost()) return end(s, failure(Code::kUnavailable, "cut off"), Save::kLast);
  if (!s.held || !s.due || s.begun != s.done) return;
  if (s.awaited || world.now_ - s.last_begun >= kBetweenSaves) return save(s);
  env.at(env.now() + base::Duration(kBetweenSaves), [this, keep = sessions.at(&s)] { settle(*keep); });
}

void KeptWorld::Process::end(Attended& s, const Status& why, Save last) {
  if (s.over) return;
  const auto keep = sessions.at(&s);
  const bool ours = !s.lost() && s.last_save.code != Code::kAborted;
  if (s.held && ours && last == Save::kLast && (s.changed || s.due)) save(s);
  s.over = true;
  if (s.held) {
    world.note(name + " lets go");
    handover.let_go(s.id);
  }
  s.held = false;
  if (auto told = std::exchange(s.on_over, nullptr)) told(why);
  world.in(0, [this, gone = &s] { sessions.erase(gone); });
}

}  // namespace weir::sim
