#include "session_clients.h"

#include <algorithm>
#include <new>
#include <utility>

#include "../generation/fake_engine.h"
#include "session/session_id.h"

namespace weir::sim {

using base::Code;
using session::Outcome;
using namespace std::chrono_literals;

namespace {

constexpr auto kMe = session::Tenant{0};

session::SessionLimits few() {
  session::SessionLimits limits;
  limits.per_tenant = 6, limits.children = 3, limits.bytes = 1200, limits.total_bytes = 4000;
  limits.idle = 40ms, limits.lifetime = 150ms;
  return limits;
}

}  // namespace

// A session as clients know it.
struct SessionClients::Known {
  base::SessionId id;
  std::vector<uint32_t> tokens;
  base::Time created, used;
  uint64_t version = 0;  // counts the Generates that have ended
  uint64_t asks = 0;     // counts those that were asked for; one that has ended may still be lent
  bool closed = false;
};

struct SessionClients::Door {
  Door(SessionClients& owner, uint16_t n)
      : id(n),
        bus(*owner.deps_.buses[n]),
        sessions(bus, base::ShardId(n), owner.homes_, owner.quota_, owner.limits_, owner.metrics_) {}
  uint16_t id;
  bus::Bus& bus;
  session::Sessions sessions;
  std::deque<std::function<void()>> posts;
};

// One Generate, as salience::Turn does it.
struct SessionClients::SessionClient final : session::Borrower, msg::Sink {
  SessionClient(SessionClients& g, Door& d, Known& k) : owner(g), door(d), known(k) {}
  void granted(base::Result<session::Lease> lease) override;
  void revoked() override {
    closed = true;
    cancel();
  }
  void on(msg::Call& heard, msg::Event&& event) override;
  void submit();
  void process_event(const msg::Event& event);
  void finish(msg::Call& heard, const msg::Event& event);
  void give_back(Outcome outcome);
  void cancel() {
    if (call) door.bus.cancel(call);
  }

  SessionClients& owner;
  Door& door;
  Known& known;
  session::Append append;
  uint64_t version = 0;
  std::unique_ptr<msg::Generation> generation;
  std::optional<session::Lease> lease;
  msg::Call* call = nullptr;
  std::vector<std::string> expected;
  size_t at = 0;
  std::vector<uint32_t> generated;
  int32_t granted_credit = 0;
  bool left = false, closed = false, short_of_memory = false, over = false;
};

SessionClients::SessionClients(Deps deps)
    : deps_(std::move(deps)),
      homes_(deps_.buses.size(),
             [this](base::ShardId to, std::function<void()> work) {
               doors_[size_t(to)].posts.push_back(std::move(work));
               deps_.wake(size_t(to));
             }),
      limits_(few()) {
  for (uint16_t i = 0; i < deps_.buses.size(); ++i) doors_.emplace_back(*this, i);
}
SessionClients::~SessionClients() = default;

void SessionClients::turn(size_t shard) {
  auto posts = std::exchange(doors_[shard].posts, {});
  for (auto& work : posts) work();
}

bool SessionClients::quiet() const {
  return asked_ == 0 && std::all_of(clients_.begin(), clients_.end(), [](auto& client) { return client.over; }) &&
         std::all_of(doors_.begin(), doors_.end(), [](auto& door) { return door.posts.empty(); });
}

void SessionClients::wind_up() {
  deps_.env.advance(limits_.lifetime + 1ms);
  for (size_t i = 0; i < doors_.size(); ++i) deps_.wake(i);
}

void SessionClients::check_end() {
  for (auto& door : doors_)
    if (door.sessions.table().sessions() > 0) deps_.broken("I7: a session outlives its time");
  if (quota_.bytes() > 0 || quota_.taken(kMe) > 0) deps_.broken("I7: sessions that are over are charged");
}

uint16_t SessionClients::shard() { return uint16_t(deps_.draw(uint32_t(doors_.size()))); }

SessionClients::Known* SessionClients::any() {
  if (known_.empty()) return nullptr;
  size_t latest = std::min<size_t>(known_.size(), 8);
  return &known_[known_.size() - 1 - deps_.draw(uint32_t(latest))];
}

void SessionClients::act() {
  auto* known = any();
  switch (deps_.draw(12)) {
    case 0: return open();
    case 1: return known ? fork(*known) : void();
    case 2: return known && deps_.draw(3) == 0 ? close(*known) : void();
    case 3: return known ? dump(*known) : void();
    case 4: return leave();
    default: return known ? generate(*known) : open();
  }
}

bool SessionClients::expired(const Known& known) const {
  return std::min(known.used + limits_.idle, known.created + limits_.lifetime) <= deps_.env.now();
}

void SessionClients::judge_refusal(const Known& known, uint64_t version, const base::Status& status) {
  deps_.note("refused: " + std::string(base::name(status.code)));
  bool gone = known.closed || expired(known), moved = known.version != version;
  bool busy = known.asks > 1;
  bool right = status.code == Code::kResourceExhausted || (status.code == Code::kNotFound && gone) ||
               (status.code == Code::kAborted && busy) || (status.code == Code::kFailedPrecondition && moved);
  if (!right) deps_.broken("I8: a session is refused: " + status.text);
}

void SessionClients::open() {
  auto& door = doors_[shard()];
  auto id = door.sessions.open(kMe, {deps_.served.spec.name, deps_.served.spec.version, deps_.served.spec.text});
  deps_.note(id ? "a session opens" : "no session opens");
  if (!id) return id.error().code == Code::kResourceExhausted ? void() : deps_.broken("I8: " + id.error().text);
  known_.push_back({.id = *id, .created = deps_.env.now(), .used = deps_.env.now()});
}

// A fork has what the session had before it, whoever generates meanwhile.
void SessionClients::fork(Known& known) {
  auto at = uint32_t(known.tokens.empty() ? 0 : deps_.draw(uint32_t(known.tokens.size()) + 1));
  ++asked_;
  std::vector<uint32_t> tokens(known.tokens.begin(), known.tokens.begin() + at);
  auto now = deps_.env.now();
  far_from(known).sessions.fork(kMe, known.id, at, [this, &known, tokens, now, version = known.version](auto made) {
    --asked_;
    if (!made) return judge_refusal(known, version, made.error());
    // Where a Generate has ended in between nobody knows what the fork has.
    if (known.version == version) known_.push_back({.id = *made, .tokens = tokens, .created = now, .used = now});
  });
}

// A request from another shard to a session's home comes after what has been given back before.
SessionClients::Door& SessionClients::far_from(const Known& known) {
  size_t n = doors_.size(), home = size_t(session::home_of(known.id, n));
  return doors_[n == 1 ? 0 : (home + 1 + deps_.draw(uint32_t(n - 1))) % n];
}

void SessionClients::close(Known& known) {
  ++asked_;
  known.closed = true;
  deps_.note("a session is closed");
  doors_[shard()].sessions.close(kMe, known.id, [this] { --asked_; });
}

void SessionClients::dump(Known& known) {
  ++asked_;
  far_from(known).sessions.dump(kMe, known.id, [this, &known, version = known.version](auto tokens) {
    --asked_;
    if (!tokens) return judge_refusal(known, version, tokens.error());
    if (known.version == version && *tokens != known.tokens)
      deps_.broken("I8: a session has other tokens than it was given");
  });
}

void SessionClients::leave() {
  if (clients_.empty()) return;
  auto& client = clients_[deps_.draw(uint32_t(clients_.size()))];
  if (client.over || client.left) return;
  deps_.note("a client leaves");
  client.left = true;
  client.cancel();
}

void SessionClients::generate(Known& known) {
  auto draw = deps_.draw;
  while (!clients_.empty() && clients_.front().over) clients_.pop_front();
  if (clients_.size() > 12) return;
  auto& client = clients_.emplace_back(*this, doors_[shard()], known);
  ++sent_, ++known.asks;
  client.version = known.version;
  client.append.offset = uint32_t(known.tokens.size());
  if (client.append.offset > 0 && draw(5) == 0)
    client.append.offset = draw(client.append.offset), client.append.rewind = session::Append::Rewind::kYes;
  client.generation = std::make_unique<msg::Generation>();
  auto& params = *client.generation;
  for (uint32_t i = 0, n = 1 + draw(12); i < n; ++i) params.append.push_back(draw(5) ? (i * 31) % 97 : draw(97));
  params.max_tokens = draw(12), params.ignore_eos = draw(2);
  params.sampling.temperature = float(draw(2)), params.sampling.seed = draw(3);
  if (draw(4) == 0) params.readouts.push_back({draw(30), draw(60)});
  client.append.tokens = params.append.size();
  client.granted_credit = int32_t(1 + draw(6));
  client.door.sessions.borrow(kMe, known.id, client.append, client);
}

void SessionClients::SessionClient::granted(base::Result<session::Lease> result) {
  if (!result) {
    over = true;
    return owner.judge_refusal(known, version, result.error());
  }
  lease = std::move(*result);
  bool same = lease->tokens.size() == append.offset && append.offset <= known.tokens.size() &&
              std::equal(lease->tokens.begin(), lease->tokens.end(), known.tokens.begin());
  if (!same) owner.deps_.broken("I8: a lease lends other tokens than the session was given");
  if (left) return give_back({});
  submit();
}

void SessionClients::SessionClient::submit() {
  auto& deps = owner.deps_;
  generation->history = lease->tokens, generation->history_images = lease->images;
  expected =
      generation::Reference(*generation, *deps.served.spec.text, deps.room.positions(*deps.served.spec.text)).says();
  call = door.bus.make_call();
  call->model = deps.served.spec.name, call->session = lease->session, call->sink = this;
  call->credit.store(granted_credit);
  call->generation = std::move(generation);
  deps.wake(door.id);
  auto status = door.bus.submit(call, deps.served);
  deps.note("a client generates: " + std::string(base::name(status.code)));
  if (status.ok()) return;
  door.bus.discard(std::exchange(call, nullptr));
  give_back({});
}

void SessionClients::SessionClient::on(msg::Call& heard, msg::Event&& event) {
  if (over || &heard != call) return owner.deps_.broken("I1: a client hears who does not listen");
  if (!short_of_memory && !event.last() && owner.deps_.draw(200) == 0) {
    short_of_memory = true;
    throw std::bad_alloc();
  }
  process_event(event);
  if (event.last()) return finish(heard, event);
  if (auto* token = std::get_if<msg::Token>(&event.what); token && !token->prefill) generated.push_back(token->id);
  door.bus.add_credit(call, 1);
}

void SessionClients::SessionClient::process_event(const msg::Event& event) {
  auto& deps = owner.deps_;
  auto text = generation::told(event);
  deps.note("a client hears " + text);
  if (at < expected.size() && text == expected[at] && !short_of_memory) return void(++at);
  auto* failed = std::get_if<msg::Failed>(&event.what);
  if (!failed) return deps.broken("I4: a client hears '" + text + "'");
  bool cancelled = failed->status.code == Code::kCancelled && (left || closed);
  bool lacks = failed->status.code == Code::kResourceExhausted && short_of_memory;
  if (!cancelled && !lacks && !deps.excused(failed->status, *call)) deps.broken("I20: a client hears " + text);
}

void SessionClients::SessionClient::finish(msg::Call& heard, const msg::Event& event) {
  if (owner.deps_.held(heard)) owner.deps_.broken("I7: the last Event comes before the engine has let go");
  bool whole = std::holds_alternative<msg::Done>(event.what) && !left && !closed;
  bool kept = whole || !generated.empty();
  Outcome outcome{Outcome::Kind::kAppended, {}, {}, {}};
  if (kept) outcome.appended = heard.generation->append, outcome.generated = generated;
  known.tokens.resize(append.offset);
  for (auto* part : {&outcome.appended, &outcome.generated})
    known.tokens.insert(known.tokens.end(), part->begin(), part->end());
  call = nullptr;
  ++known.version;
  give_back(std::move(outcome));
}

void SessionClients::SessionClient::give_back(Outcome outcome) {
  over = true;
  known.used = owner.deps_.env.now();
  door.sessions.give_back(*lease, std::move(outcome));
}

}  // namespace weir::sim
