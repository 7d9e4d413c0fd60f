#include "world.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "support/submit.h"

namespace weir::sim {

using namespace std::chrono_literals;

namespace {

constexpr size_t kTrace = 200;
constexpr float kGeneration = 10'000;  // what one version adds, so that answers name their version

Options draw_options(std::mt19937_64& random) {
  auto draw = [&](uint64_t n) { return random() % n; };
  Options o;
  o.shards = uint32_t(1 + draw(4)), o.instances = uint32_t(1 + draw(3)), o.max_batch = uint32_t(draw(9));
  o.max_queue = draw(3) ? uint32_t(1 + draw(40)) : 0;
  o.max_in_flight = draw(3) ? 1000 : uint32_t(1 + draw(20));
  o.priority_levels = uint32_t(draw(4)), o.calls = uint32_t(50 + draw(150));
  o.dynamic = draw(5) > 0, o.preferred = draw(3) == 0, o.any_width = draw(3) == 0;
  o.max_delay = base::Duration(draw(2) * draw(3'000'000)), o.queue_timeout = base::Duration(draw(2) * draw(8'000'000));
  o.longest_work = base::Duration(1 + draw(5'000'000)), o.shortest_deadline = base::Duration(1 + draw(5'000'000));
  auto rate = [&] { return draw(3) ? double(draw(100)) / 300.0 : 0.0; };
  o.faults = rate(), o.cancels = rate(), o.deadlines = rate(), o.swaps = rate() / 10;
  o.chains = draw(2) ? 0 : double(draw(100)) / 100;
  o.slab_budget = draw(4) ? (1 << 20) : 64 * draw(4);
  o.tenants = draw(2) ? 1 : uint32_t(2 + draw(8)), o.delays = draw(3) == 0;
  o.lost_wakes = rate() / 2, o.no_memory = rate() / 2, o.stalls = rate() / 20, o.late_mail = draw(2);
  return o;
}

}  // namespace

std::string Options::text() const {
  auto us = [](base::Duration d) { return std::to_string(d.count() / 1000) + "us"; };
  return "shards=" + std::to_string(shards) + " instances=" + std::to_string(instances) +
         " max_batch=" + std::to_string(max_batch) + " max_queue=" + std::to_string(max_queue) +
         " max_in_flight=" + std::to_string(max_in_flight) + " priorities=" + std::to_string(priority_levels) +
         " calls=" + std::to_string(calls) + " dynamic=" + std::to_string(dynamic) +
         " preferred=" + std::to_string(preferred) + " any_width=" + std::to_string(any_width) +
         " max_delay=" + us(max_delay) + " queue_timeout=" + us(queue_timeout) + " work<=" + us(longest_work) +
         " deadline>=" + us(shortest_deadline) + " faults=" + std::to_string(faults) +
         " cancels=" + std::to_string(cancels) + " deadlines=" + std::to_string(deadlines) +
         " swaps=" + std::to_string(swaps) + " chains=" + std::to_string(chains) +
         " lost_wakes=" + std::to_string(lost_wakes) + " no_memory=" + std::to_string(no_memory) +
         " stalls=" + std::to_string(stalls) + " late_mail=" + std::to_string(late_mail) +
         " slabs=" + std::to_string(slab_budget) + " tenants=" + std::to_string(tenants) +
         " delays=" + std::to_string(delays);
}

struct World::Client final : msg::Sink {
  Client(World& w, size_t n) : world(w), id(n) {}
  void on(msg::Call&, msg::Event&& event) override;
  std::string wrong(const msg::Outputs& outputs) const;

  World& world;
  size_t id;
  Shard* shard = nullptr;
  msg::Call* call = nullptr;
  float value = 0;
  uint32_t rows = 1;
  base::Time deadline = base::kNever;
  bool live = false;
  bool echo = false;  // of the inline model
  bool short_of_memory = false;
};

// Answers on the shard, as inline engines do.
struct EchoInbox final : msg::Inbox {
  void put(msg::Call* call) override { call->home->post_here({call, {msg::Outputs{}}}); }
};

struct World::Version {
  std::shared_ptr<bus::Served> served;
  Lane* lane;
  float generation;
};

struct World::Shard {
  Shard(World& w, uint16_t n)
      : id(n), bus(w.env_, base::ShardId(n), [this, &w] { w.wake(*this); }, {w.options_.max_in_flight}) {}
  uint16_t id;
  bool woken = false, turning = false;
  bus::Bus bus;
  size_t newest = 0;                          // versions published here so far
  uint64_t accepted = 0, told = 0, left = 0;  // told: heard an outcome; left: abandoned before one
  std::vector<Client*> live;
};

World::World(uint64_t seed) : random_(seed), options_(draw_options(random_)), env_(seed), slabs_(options_.slab_budget) {
  for (uint32_t i = 0; i < options_.shards; ++i) shards_.emplace_back(*this, uint16_t(i));
  set_time(env_.now());
  echo_ = std::make_shared<bus::Served>();
  echo_->inbox = std::make_unique<EchoInbox>();
  swap_model();
  for (auto& shard : shards_) publish(shard);
}
World::~World() = default;

void World::note(std::string event) {
  for (char c : event) hash_ = (hash_ ^ uint8_t(c)) * 0x100000001b3;
  auto at = std::chrono::duration_cast<std::chrono::microseconds>(env_.now().time_since_epoch()).count();
  trace_.push_back(std::to_string(at) + "us " + std::move(event));
  if (trace_.size() > kTrace) trace_.pop_front();
}

void World::broken(std::string what) {
  note("BROKEN " + what);
  if (broken_.empty()) broken_ = std::move(what);
}

// Without memory for the answer the Bus says that it has failed; a failure takes no memory.
void World::Client::on(msg::Call& heard, msg::Event&& event) {
  if (live && !short_of_memory && std::holds_alternative<msg::Outputs>(event.what) &&
      world.chance(world.options_.no_memory)) {
    short_of_memory = true;
    throw std::bad_alloc();
  }
  if (!live) return world.broken("I1: client " + std::to_string(id) + " heard more than one outcome");
  if (!event.last() || &heard != call) world.broken("I1: an Event for another Call");
  world.judge(*this, event);
  live = false, call = nullptr;
  std::erase(shard->live, this);
  ++shard->told, ++world.heard_;
  if (world.sent_ < world.options_.calls && world.chance(world.options_.chains)) world.send(*shard, "echo");
}

void World::judge(const Client& client, const msg::Event& event) {
  auto* outputs = std::get_if<msg::Outputs>(&event.what);
  auto* failed = std::get_if<msg::Failed>(&event.what);
  note("heard " + std::to_string(client.id) + " " + (failed ? std::string(base::name(failed->status.code)) : "ok"));
  if (env_.now() > client.deadline) broken("I10: an outcome after the deadline");
  if (outputs)
    if (auto what = client.wrong(*outputs); !what.empty()) broken("I6: " + what);
  if (!failed) return;
  using base::Code;
  auto code = failed->status.code;
  if (code == Code::kDeadlineExceeded && env_.now() < client.deadline) broken("I10: expired before the deadline");
  if (code == Code::kCancelled) broken("I1: a client that stayed hears CANCELLED");
  if (client.short_of_memory && code != Code::kResourceExhausted && code != Code::kDeadlineExceeded)
    broken("I1: not the failure of a lack of memory");
  bool may_lack = client.short_of_memory || client.value >= kPoison || options_.max_queue > 0;
  if (code == Code::kResourceExhausted && !may_lack) broken("I20: " + failed->status.text);
  bool faulty = client.value >= kPoison;
  if (!faulty && (code == Code::kInternal || code == Code::kInvalidArgument)) broken("I20: " + failed->status.text);
}

// Every element is this client's value plus the generation of one version.
std::string World::Client::wrong(const msg::Outputs& outputs) const {
  if (echo) return "";
  if (outputs.tensors.size() != 1) return "not one output";
  const auto& y = outputs.tensors[0];
  if (value >= kPoison) return "an answer to a call that must fail";
  if (y.shape[0] != int64_t(rows)) return std::to_string(y.shape[0]) + " rows for " + std::to_string(rows);
  std::vector<float> values(y.data.size() / sizeof(float));
  if (values.empty()) return "no values";
  std::memcpy(values.data(), y.data.data(), y.data.size());
  float added = values[0] - value;
  bool known =
      std::any_of(world.versions_.begin(), world.versions_.end(), [&](auto& v) { return v.generation == added; });
  bool same = std::all_of(values.begin(), values.end(), [&](float v) { return v - value == added; });
  return known && same ? "" : "another client's rows";
}

void World::fill(msg::Call& call, Client& client) {
  client.rows = options_.max_batch ? uint32_t(1 + draw(options_.max_batch)) : 1;
  if (draw(4)) client.rows = 1;
  client.value = float(1 + client.id);
  if (chance(options_.faults)) client.value = std::array{kPoison, kAllergic, kShort, kGreedy}[draw(4)];
  auto width = options_.any_width ? int64_t(1 + draw(3)) : 2;
  std::vector<float> values(client.rows * size_t(width), client.value);
  auto bytes = std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  msg::Shape shape = options_.max_batch ? msg::Shape{int64_t(client.rows), width} : msg::Shape{1, width};
  call.rows = client.rows;
  call.inputs.push_back({"x", msg::DType::kFp32, shape, base::Bytes::copy_of(bytes)});
  call.priority = uint32_t(draw(5));
  call.sink = &client;
  call.tenant = draw(options_.tenants);
  if (chance(0.2)) call.queue_timeout = base::Duration(1 + draw(5'000'000));
  if (chance(options_.deadlines))
    call.deadline = env_.now() + options_.shortest_deadline + base::Duration(draw(5'000'000));
  client.deadline = call.deadline;
}

void World::send(Shard& shard, const char* model) {
  auto& client = clients_.emplace_back(*this, clients_.size());
  ++sent_;
  client.shard = &shard;
  client.call = shard.bus.make_call();
  fill(*client.call, client);
  client.call->model = model;
  client.echo = client.call->model == "echo";
  shard.woken |= !shard.turning;  // whatever runs on a shard ends in a turn
  client.live = true;
  auto status = support::submit(shard.bus, client.call);
  note("sent " + std::to_string(client.id) + " shard " + std::to_string(shard.id) + " rows " +
       std::to_string(client.rows) + " " + std::string(base::name(status.code)));
  if (!status.ok()) {
    shard.bus.discard(client.call);
    client.live = false;
    return;
  }
  ++shard.accepted;
  shard.live.push_back(&client);
}

void World::abandon_some() {
  auto& shard = shards_[draw(shards_.size())];
  if (shard.live.empty()) return;
  auto* client = shard.live[draw(shard.live.size())];
  note("left " + std::to_string(client->id));
  shard.bus.abandon(client->call);
  client->live = false, client->call = nullptr;
  std::erase(shard.live, client);
  ++shard.left;
}

void World::swap_model() {
  auto served = std::make_shared<bus::Served>();
  auto& spec = served->spec;
  spec.name = "m", spec.version = std::to_string(versions_.size() + 1);
  spec.max_batch = options_.max_batch, spec.instances = options_.instances;
  int64_t width = options_.any_width ? -1 : 2;
  msg::Shape shape = options_.max_batch ? msg::Shape{width} : msg::Shape{1, width};
  spec.inputs = {{"x", msg::DType::kFp32, shape, false, {}}};
  spec.outputs = {{"y", msg::DType::kFp32, shape, false, {}}};
  spec.batching.dynamic = options_.dynamic;
  if (options_.preferred) spec.batching.preferred = {2, 4};
  spec.batching.max_delay = options_.max_delay, spec.batching.queue_timeout = options_.queue_timeout;
  spec.batching.max_queue = options_.max_queue, spec.batching.priority_levels = options_.priority_levels;
  if (options_.delays) {
    auto& level = spec.batching.levels[1 + uint32_t(draw(3))];
    level = spec.batching;
    level.timeout_action = msg::QueuePolicy::TimeoutAction::kDelay;
  }
  float generation = float(versions_.size() + 1) * kGeneration;
  auto lane = std::make_unique<Lane>(env_, spec, served->stats, slabs_, generation);
  auto* borrowed = lane.get();
  if (options_.late_mail) lane->hold_mail();
  served->inbox = std::move(lane);
  versions_.push_back({std::move(served), borrowed, generation});
  note("model " + std::to_string(versions_.size()));
}

void World::publish(Shard& shard) {
  if (shard.newest == versions_.size()) return;
  shard.newest = versions_.size();
  auto catalog = std::make_shared<bus::Catalog>();
  auto& served = versions_.back().served;
  catalog->models["m"] = {{{served->spec.version, served}}, served.get()};
  catalog->models["echo"] = {{{"1", echo_}}, echo_.get()};
  shard.bus.publish(catalog);
  note("published to shard " + std::to_string(shard.id));
}

// Old versions go when every shard has the newest catalog and nobody is inside.
void World::retire() {
  bool settled = std::all_of(shards_.begin(), shards_.end(), [&](auto& s) { return s.newest == versions_.size(); });
  if (!settled) return;
  for (size_t i = 0; i + 1 < versions_.size(); ++i)
    if (versions_[i].served && versions_[i].served->idle()) {
      note("retired " + std::to_string(i + 1));
      versions_[i].lane = nullptr;
      versions_[i].served.reset();
    }
}

void World::work() {
  auto& version = versions_[draw(versions_.size())];
  if (!version.lane) return;
  if (version.lane->deliver(draw(4))) note("mail of lane " + version.served->spec.version);
  auto work = base::Duration(1 + draw(uint64_t(options_.longest_work.count())));
  if (chance(options_.stalls)) work *= 1000;
  if (draw(2) ? version.lane->take(work) : version.lane->finish()) note("lane " + version.served->spec.version);
}

// To the next thing that a lane waits for, or a little on; timers fire on the way.
void World::pass_time() {
  base::Time next = base::kNever;
  for (auto& v : versions_)
    if (v.lane) next = std::min(next, v.lane->next());
  base::Duration step = base::Duration(1 + draw(500'000));
  if (next != base::kNever && next > env_.now() && draw(2)) step = next - env_.now();
  env_.advance(step);
  set_time(env_.now());
  if (options_.lost_wakes == 0 || env_.now() < tick_) return;
  tick_ = env_.now() + 5ms;
  for (auto& shard : shards_) shard.woken = true;
}

// A loop that is woken in vain turns at its next tick at the latest.
void World::wake(Shard& shard) {
  if (!chance(options_.lost_wakes)) shard.woken = true;
}

void World::act() {
  auto& shard = shards_[draw(shards_.size())];
  switch (draw(6)) {
    case 0:
      if (sent_ < options_.calls) send(shard, draw(8) ? "m" : "echo");
      break;
    case 1:
      if (!std::exchange(shard.woken, false)) break;
      shard.turning = true;
      shard.bus.turn();
      shard.turning = false;
      break;
    case 2:
    case 3: work(); break;
    case 4: pass_time(); break;
    default:
      if (chance(options_.cancels)) abandon_some();
      if (chance(options_.swaps) && versions_.size() < 8) swap_model();
      if (draw(4) == 0) publish(shard);
      retire();
  }
}

void World::check_ledger() {
  for (auto& shard : shards_) {
    if (shard.accepted != shard.told + shard.left + shard.live.size())
      broken("I2: the ledger of a shard does not add up");
    if (shard.bus.in_flight() < shard.live.size()) broken("I2: a Call is lost");
  }
}

bool World::quiet() const {
  return sent_ == options_.calls &&
         std::all_of(shards_.begin(), shards_.end(), [](auto& s) { return s.bus.in_flight() == 0; });
}

void World::check_end() {
  for (auto& client : clients_)
    if (client.live) broken("I1: client " + std::to_string(client.id) + " never heard");
  for (auto& shard : shards_) publish(shard);
  retire();
  for (size_t i = 0; i + 1 < versions_.size(); ++i)
    if (versions_[i].served) broken("I18: an old version did not go");
  auto& last = versions_.back();
  if (last.lane->queued() > 0 || !last.served->idle()) broken("I5: a slot is taken though all is quiet");
  if (slabs_.used() != 0) broken("I7: slab bytes are missing");
}

std::string World::run() {
  constexpr int kMost = 200'000;  // a world that is not quiet by then is stuck
  for (int i = 0; i < kMost && broken_.empty(); ++i) {
    act();
    check_ledger();
    if (!quiet()) continue;
    check_end();
    return broken_;
  }
  if (broken_.empty()) broken("liveness: Calls are stuck");
  return broken_;
}

}  // namespace weir::sim
