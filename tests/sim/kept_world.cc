#include "kept_world.h"

#include <algorithm>
#include <utility>

#include "kept_process.h"
#include "session/session_id.h"

namespace weir::sim {

namespace {

constexpr int64_t kBegin = 6 * kSecond, kFirstFault = 8 * kSecond, kEnd = 90 * kSecond;
constexpr size_t kClients = 3, kTrace = 400;
constexpr size_t kMostItems = 12;            // of a session, before its client begins another one
constexpr int64_t kPatience = 20 * kSecond;  // of a client
constexpr int64_t kStopped = 1500 * kMs;     // for how long a process is
constexpr int64_t kLooks = 20 * kMs;         // how often a client looks whether its connection is there

}  // namespace

// A client and its session.
struct KeptWorld::Client {
  void visit();

  KeptWorld& world;
  base::SessionId id{};
  std::set<std::string> acknowledged = {};  // items that it was told to be kept
  int visits = 0;
};

// A client's connection to a node: it resumes the session, adds an item, has it kept, and leaves. What it has sent goes
// on at the node when it has gone.
struct KeptWorld::Visit final : std::enable_shared_from_this<KeptWorld::Visit> {
  Visit(Client& its_client, Process& its_process, int number)
      : client(its_client),
        world(its_client.world),
        process(its_process),
        item("y" + std::to_string(number)),
        until(world.now_ + kPatience) {}

  void begin();

 private:
  void watch();
  void fail(const std::string& why);
  void leave();
  void arrive();
  void resumed(base::Result<std::optional<std::string>> state);
  void add_item();
  void keep();
  void kept(bool fresh, const Status& status);
  void confirmed();
  void end(const Status& why, Process::Save save) { process.end(*session, why, save); }
  static Status cut_off() { return failure(Code::kUnavailable, "cut off"); }
  // Runs `what` at the node, unless the session is over by then.
  void there(Real after, void (Visit::*what)()) {
    world.in(after, [self = shared_from_this(), what] {
      self->process.env.deliver([self, what] {
        if (!self->session || !self->session->over) ((*self).*what)();
      });
    });
  }

  Client& client;
  KeptWorld& world;
  Process& process;
  const std::string item;
  Real until;
  std::shared_ptr<Attended> session;
  bool over = false;  // for the client
};

void KeptWorld::Client::visit() {
  Process& process = *world.processes_[world.draw(world.processes_.size())];
  ++visits;
  world.note("a client comes to " + process.name + ", visit " + std::to_string(visits));
  std::make_shared<Visit>(*this, process, visits)->begin();
}

void KeptWorld::Visit::begin() {
  if (world.chance(0.1)) until = world.now_ + Real(world.draw(3000)) * kMs;
  watch();
  there(world.delay(), &Visit::arrive);
}

// The connection ends with the process, and with the client's patience.
void KeptWorld::Visit::watch() {
  if (over) return;
  if (!process.env.alive()) return fail("its connection is lost");
  if (world.now_ > until) {
    there(world.delay(), &Visit::leave);
    return fail("it gives up");
  }
  world.in(kLooks, [self = shared_from_this()] { self->watch(); });
}

void KeptWorld::Visit::fail(const std::string& why) {
  if (std::exchange(over, true)) return;
  world.note("a client: " + why);
  world.in(250 * kMs, [c = &client] { c->visit(); });
}

void KeptWorld::Visit::leave() {
  if (!session) return;
  session->on_over = nullptr;
  end(failure(Code::kCancelled, "the client has left"), Process::Save::kLast);
}

void KeptWorld::Visit::arrive() {
  if (over) return;
  session = process.attend();
  session->on_over = [self = shared_from_this()](const Status& why) {
    self->world.in(self->world.delay(), [self, why] { self->fail("its session is over: " + why.text); });
  };
  if (!client.id) return add_item();
  session->epoch = process.handover.epoch();
  if (session->epoch == 0) return end(cut_off(), Process::Save::kNo);
  session->id = client.id;
  process.handover.take(client.id, "ann", base::ShardId{0}, [self = shared_from_this()](auto state) {
    if (!self->session->over) return self->resumed(std::move(state));
    if (state && *state) self->process.handover.let_go(self->session->id);
  });
}

void KeptWorld::Visit::resumed(base::Result<std::optional<std::string>> state) {
  if (!state) return end(state.error(), Process::Save::kNo);
  if (!*state) return void(world.broken_ = "a session that is kept is not found");
  process.hold(*session);
  if (session->lost()) return end(cut_off(), Process::Save::kNo);
  session->items = items_of((*state)->substr((*state)->rfind('\n') + 1));
  session->last_begun = world.now_;
  world.note(process.name + " has resumed " + text_of(session->items));
  ++world.resumed_;
  for (const auto& each : client.acknowledged)
    if (!over && !session->items.contains(each)) world.broken_ = "what a client resumes lacks " + each;
  add_item();
}

void KeptWorld::Visit::add_item() {
  session->items.insert(item);
  session->due = session->changed = true;
  process.settle(*session);
  if (!session->over) there(3 * world.delay() + Real(world.draw(3)) * 60 * kMs, &Visit::keep);
}

void KeptWorld::Visit::keep() {
  const bool fresh = !session->held;
  if (fresh) {
    session->epoch = process.handover.epoch();
    if (session->epoch == 0) return end(cut_off(), Process::Save::kNo);
    session->id = session::make_session_id(process.env, base::ShardId{0}, 1);
    process.hold(*session);
  }
  session->due = session->awaited = true;
  session->keeps.emplace_back(session->begun + 1,
                              [self = shared_from_this(), fresh](const Status& status) { self->kept(fresh, status); });
  process.settle(*session);
}

void KeptWorld::Visit::kept(bool fresh, const Status& status) {
  if (!status.ok()) {
    if (fresh) {  // its id is not said to anybody
      session->held = false;
      process.handover.end(session->id);
    }
    return end(status, Process::Save::kLast);
  }
  if (session->lost()) return end(cut_off(), Process::Save::kLast);
  session->due = session->changed = true;
  session->items.insert("told" + item);
  world.in(world.delay(), [self = shared_from_this()] {
    if (!self->over) self->confirmed();
  });
}

void KeptWorld::Visit::confirmed() {
  over = true;
  client.id = session->id;
  client.acknowledged.insert(item);
  ++world.confirmed_;
  world.note("a client is told that " + item + " is kept");
  if (client.acknowledged.size() > kMostItems) client.acknowledged.clear(), client.id = {};
  there(world.delay(), &Visit::leave);
  world.in(world.chance(0.5) ? 1 : Real(world.draw(500)) * kMs, [c = &client] { c->visit(); });
}

// --- the world ------------------------------------------------------------------------------------------------------

KeptWorld::KeptWorld(uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15u + 1) {
  constexpr Real kDelays[] = {kMs, 10 * kMs, 60 * kMs, 300 * kMs};
  faults_.delay = kDelays[draw(4)];
  faults_.every = (chance(0.5) ? 2000 : 500 + Real(draw(3000))) * kMs;
  faults_.outage = (200 + Real(draw(2500))) * kMs;
  faults_.reconnect = (50 + Real(draw(3000))) * kMs;
  faults_.kill = chance(0.5) ? 0.33 : 0, faults_.stop = chance(0.5) ? 0.33 : 0;
  faults_.cut = 0.33 + 0.3 * double(draw(100)) / 100;
  for (size_t i = 0, n = 2 + draw(4); i < n; ++i) start();
  for (size_t i = 0; i < kClients; ++i) {
    Client& client = *clients_.emplace_back(std::make_unique<Client>(Client{*this}));
    at(kBegin, [&client] { client.visit(); });
  }
}

// Events of the queue must not find processes that are gone.
KeptWorld::~KeptWorld() {
  for (auto& process : processes_) process->env.kill();
  while (!queue_.empty()) queue_.pop();
}

void KeptWorld::at(Real when, std::function<void()> run) {
  queue_.push({std::max(when, now_), ++events_, std::move(run)});
}

void KeptWorld::note(const std::string& what) {
  for (char c : what) hash_ = (hash_ ^ uint8_t(c)) * 1099511628211u;
  hash_ = (hash_ ^ uint64_t(now_)) * 1099511628211u;
  trace_.push_back(std::to_string(double(now_) / kSecond) + " " + what);
  if (trace_.size() > kTrace) trace_.pop_front();
}

void KeptWorld::start() { processes_.push_back(std::make_unique<Process>(*this, "n" + std::to_string(++started_))); }

KeptWorld::Process* KeptWorld::process_at(const std::string& address) const {
  for (const auto& process : processes_)
    if (process->membership.self().address == address) return process.get();
  return nullptr;
}

base::Result<uint64_t> KeptWorld::put(Table table, const std::string& key, const std::string& value, uint64_t expected,
                                      bool erased) {
  auto& entries = tables_[size_t(table)];
  const auto found = entries.find(key);
  const uint64_t is = found == entries.end() ? 0 : found->second.revision;
  if (is != expected && expected != Bucket::kAny) return failure(Code::kAborted, "another revision");
  const Bucket::KeyValue entry{key, value, ++revisions_[size_t(table)], erased};
  entries[key] = entry;
  if (table == Table::kSessions) {
    if (!erased) check_record(key, value);
    return entry.revision;
  }
  for (auto& process : processes_)
    in(delay(), [to = process.get(), entry] {
      to->env.deliver([to, entry] {
        if (to->nodes.up()) to->membership.on_entry(entry);
      });
    });
  return entry.revision;
}

// The state is the record's last line.
void KeptWorld::check_record(const std::string& key, const std::string& value) {
  std::string line = value;
  std::replace(line.begin(), line.end(), '\n', '|');
  note("  bucket: " + line);
  const auto items = items_of(value.substr(value.rfind('\n') + 1));
  for (const auto& client : clients_) {
    if (!client->id || !key.ends_with(session::text(client->id))) continue;
    for (const auto& item : client->acknowledged)
      if (!items.contains(item)) broken_ = "a record was written that lacks " + item + ", which was acknowledged";
  }
}

void KeptWorld::check() {
  std::map<std::string, const Process*> owners;
  for (const auto& process : processes_)
    for (const auto& [at, session] : process->sessions) {
      if (!session->held || session->over || session->lost()) continue;
      auto [owner, first] = owners.try_emplace(session::text(session->id), process.get());
      if (!first)
        broken_ = owner->second->name + " and " + process->name + " both answer for " + session::text(session->id);
    }
}

// The nodes' bucket is in memory, that of the sessions in files.
void KeptWorld::kill_nats() {
  if (!nats_) return;
  note("NATS is killed");
  nats_ = false, ++nats_life_;
  tables_[size_t(Table::kNodes)].clear(), revisions_[size_t(Table::kNodes)] = 0;
  for (auto& process : processes_) process->nodes.lost(), process->records.lost();
  in(faults_.outage, [this] {
    note("NATS is back");
    nats_ = true;
  });
}

void KeptWorld::misfortune() {
  const double which = double(draw(1000)) / 1000;
  if (which < faults_.cut) {
    kill_nats();
  } else if (which < faults_.cut + faults_.kill) {
    const size_t i = draw(processes_.size());
    note("kill " + processes_[i]->name);
    processes_[i]->env.kill();
    dead_.push_back(std::move(processes_[i]));
    processes_.erase(processes_.begin() + ptrdiff_t(i));
    start();
  } else if (which < faults_.cut + faults_.kill + faults_.stop) {
    Process& process = *processes_[draw(processes_.size())];
    note("stop " + process.name);
    process.env.stop_until(now_ + kStopped);
  }
  in(faults_.every, [this] { misfortune(); });
}

std::string KeptWorld::run() {
  at(kFirstFault, [this] { misfortune(); });
  while (!queue_.empty() && broken_.empty() && queue_.top().when < kEnd) {
    auto run = std::move(const_cast<Event&>(queue_.top()).run);  // the order does not look at it
    now_ = std::max(now_, queue_.top().when);
    queue_.pop();
    run();
    check();
  }
  return broken_;
}

}  // namespace weir::sim
