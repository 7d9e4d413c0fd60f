#include "token_world.h"

#include <algorithm>
#include <new>
#include <utility>

namespace weir::sim {

using base::Code;

namespace {

constexpr size_t kTokenTrace = 200;

base::Duration us(uint32_t n) { return std::chrono::microseconds(n); }

}  // namespace

struct TokenWorld::Client final : msg::Sink {
  Client(TokenWorld& w, size_t n) : world(w), id(n) {}
  void on(msg::Call& call, msg::Event&& event) override { world.process_event(*this, call, event); }

  TokenWorld& world;
  size_t id;
  Shard* shard = nullptr;
  msg::Call* call = nullptr;
  std::vector<std::string> expected;
  size_t at = 0;
  base::Time deadline = base::kNever;
  int64_t granted = 0;
  bool live = false;
  bool short_of_memory = false;
};

struct TokenWorld::Shard {
  Shard(TokenWorld& w, uint16_t n)
      : id(n), bus(w.env_, base::ShardId(n), [this, &w] { woken |= w.draw(100) >= w.lost_wakes_; }, {1000}) {}
  uint16_t id;
  bool woken = false;
  bus::Bus bus;
  uint64_t accepted = 0, told = 0, left = 0;
  std::vector<Client*> live;
};

TokenWorld::TokenWorld(uint64_t seed) : random_(seed), env_(seed) {
  policy_.block_size = 1 + draw(6), policy_.step_tokens = 1 + draw(30), policy_.max_running = 1 + draw(8);
  policy_.max_waiting = 1 + draw(40), policy_.prefix_cache = draw(4) > 0;
  policy_.step_time = draw(2) * us(100 + draw(2000)), policy_.draft_tokens = draw(2) * draw(9);
  blocks_ = 6 + draw(40), max_length_ = 20 + draw(80), calls_ = 30 + draw(60);
  faults_ = draw(2) * draw(20), leaves_ = draw(2) * draw(20), deadlines_ = draw(2) * draw(50);
  unloads_ = draw(4) == 0;
  lost_wakes_ = draw(2) * draw(30), no_memory_ = draw(3) ? 0 : draw(10);
  for (uint16_t i = 0, n = uint16_t(1 + draw(4)); i < n; ++i) shards_.emplace_back(*this, i);
  served_ = std::make_shared<bus::Served>();
  served_->spec = generation::token_spec(max_length_);
  served_->stats.tokens = std::make_unique<bus::TokenStats>();
  auto lane = std::make_unique<TokenLane>(env_, served_->spec, served_->stats, policy_, blocks_, seed);
  lane_ = lane.get();
  lane_->ahead = draw(2) ? TokenLane::Ahead::kYes : TokenLane::Ahead::kNo, lane_->holds_mail = draw(2);
  served_->inbox = std::move(lane);
  // Whatever runs on a shard, a timer too, ends in a turn.
  lane_->on_put = [this](msg::Home* home) {
    for (auto& shard : shards_) shard.woken |= home == &shard.bus.mailbox();
  };
  auto catalog = std::make_shared<bus::Catalog>();
  catalog->models["talker"] = {{{"1", served_}}, served_.get()};
  for (auto& shard : shards_) shard.bus.publish(catalog);
  if (draw(2)) add_session_clients();
}
TokenWorld::~TokenWorld() = default;

void TokenWorld::note(std::string event) {
  for (char c : event) hash_ = (hash_ ^ uint8_t(c)) * 0x100000001b3;
  auto at = std::chrono::duration_cast<std::chrono::microseconds>(env_.now().time_since_epoch()).count();
  trace_.push_back(std::to_string(at) + "us " + std::move(event));
  if (trace_.size() > kTokenTrace) trace_.pop_front();
}

void TokenWorld::broken(std::string what) {
  note("BROKEN " + what);
  if (broken_.empty()) broken_ = std::move(what);
}

void TokenWorld::process_event(Client& client, msg::Call& call, const msg::Event& event) {
  auto text = generation::told(event);
  note("client " + std::to_string(client.id) + " hears " + text);
  if (!client.live || &call != client.call) return broken("I1: somebody hears who does not listen");
  if (!client.short_of_memory && !std::holds_alternative<msg::Failed>(event.what) && draw(100) < no_memory_) {
    client.short_of_memory = true;
    throw std::bad_alloc();
  }
  if (client.short_of_memory && !text.starts_with("RESOURCE_EXHAUSTED: out of memory") &&
      !text.starts_with("DEADLINE_EXCEEDED"))
    broken("I1: '" + text + "'");
  bool as_expected = client.at < client.expected.size() && text == client.expected[client.at];
  auto* failed = std::get_if<msg::Failed>(&event.what);
  if (std::holds_alternative<msg::Token>(event.what) && --client.granted < -int64_t(policy_.step_tokens))
    broken("I12: more tokens than credit");
  if (as_expected) {
    ++client.at;
    if (env_.now() > client.deadline) broken("I10: an outcome after the deadline");
  } else if (!failed) {
    broken("I4: '" + text + "' instead of '" +
           (client.at < client.expected.size() ? client.expected[client.at] : "nothing") + "'");
  } else if (failed->status.code == Code::kDeadlineExceeded) {
    if (env_.now() < client.deadline) broken("I10: expired before the deadline");
  } else if (!excused(failed->status, call)) {
    broken("I20: " + text);
  }
  if (!event.last()) return;
  ++client.shard->told, ++heard_;
  over(client);
}

bool TokenWorld::excused(const base::Status& status, const msg::Call& call) const {
  size_t room = std::min<size_t>(max_length_, size_t(blocks_ - 1) * policy_.block_size);
  switch (status.code) {
    case Code::kInternal: return faults_ > 0;
    case Code::kUnavailable: return unloaded_;
    case Code::kInvalidArgument: return status.text.find("the image cannot be decoded") != std::string::npos;
    case Code::kOutOfRange: return call.generation->length() > room;
    default: return status.code == Code::kResourceExhausted;
  }
}

void TokenWorld::add_session_clients() {
  std::vector<bus::Bus*> buses;
  for (auto& shard : shards_) buses.push_back(&shard.bus);
  session_clients_ = std::make_unique<SessionClients>(
      SessionClients::Deps{env_,
                           *served_,
                           {blocks_, policy_.block_size},
                           std::move(buses),
                           [this](uint32_t n) { return draw(n); },
                           [this](std::string event) { note(std::move(event)); },
                           [this](std::string what) { broken(std::move(what)); },
                           [this](size_t shard) { shards_[shard].woken = true; },
                           [this](const base::Status& status, const msg::Call& call) { return excused(status, call); },
                           [this](msg::Call& call) { return lane_->holds(call); }});
}

void TokenWorld::over(Client& client) {
  client.live = false, client.call = nullptr;
  std::erase(client.shard->live, &client);
}

// Few beginnings, so that prefixes are shared often.
void TokenWorld::fill(msg::Call& call) {
  call.generation = std::make_unique<msg::Generation>();
  auto& params = *call.generation;
  uint32_t kind = draw(3);
  for (uint32_t i = 0, n = 1 + draw(50); i < n; ++i)
    params.append.push_back(draw(15) ? (kind * 31 + i) % 97 : draw(97));
  params.max_tokens = draw(20);
  params.ignore_eos = draw(2);
  params.sampling.temperature = float(draw(2)), params.sampling.seed = draw(3);
  params.sampling.top_k = draw(2) * 6;  // among few ids many guesses are right
  if (draw(3) == 0) params.logprobs.push_back({draw(40), draw(60)});
  if (draw(3) == 0) params.readouts.push_back({draw(40), draw(60)});
  params.cache_salt = draw(6) == 0;
  if (draw(10) == 0) params.aim = msg::Aim::kEmbed;
  if (auto n = uint32_t(params.append.size()); n > 6 && draw(5) == 0) {
    std::string data(1 + draw(n - 3), char('a' + draw(3)));
    if (draw(10) == 0) data[0] = '!';
    uint32_t start = draw(n - 2 - uint32_t(data.size()) + 1);
    params.images.push_back({base::Bytes::copy_of(data), "image/png", start, start + uint32_t(data.size()) + 2});
  }
}

void TokenWorld::send(Shard& shard) {
  auto& client = clients_.emplace_back(*this, clients_.size());
  ++sent_;
  client.shard = &shard;
  auto* call = client.call = shard.bus.make_call();
  fill(*call);
  call->model = "talker", call->sink = &client, call->priority = draw(4);
  call->tenant = draw(3);
  if (draw(2)) call->credit = int32_t(draw(5));
  client.granted = call->credit;
  if (draw(100) < deadlines_) client.deadline = call->deadline = env_.now() + us(1 + draw(20'000));
  generation::TokenRoom room{blocks_, policy_.block_size};
  client.expected =
      generation::Reference(*call->generation, *served_->spec.text, room.positions(*served_->spec.text)).says();
  client.live = true;
  auto status = shard.bus.submit(call, *served_);
  note("client " + std::to_string(client.id) + " on shard " + std::to_string(shard.id) + " " +
       std::string(base::name(status.code)));
  if (!status.ok()) {
    shard.bus.discard(call);
    client.live = false;
    return;
  }
  ++shard.accepted;
  shard.live.push_back(&client);
}

void TokenWorld::leave() {
  auto& shard = shards_[draw(uint32_t(shards_.size()))];
  if (shard.live.empty()) return;
  auto& client = *shard.live[draw(uint32_t(shard.live.size()))];
  note("client " + std::to_string(client.id) + " leaves");
  shard.bus.abandon(client.call);
  ++shard.left;
  over(client);
}

void TokenWorld::give_credit() {
  auto& shard = shards_[draw(uint32_t(shards_.size()))];
  for (auto* client : shard.live) {
    if (client->granted > 50 || draw(3)) continue;
    auto more = int32_t(1 + draw(4));
    client->granted += more;
    shard.bus.add_credit(client->call, more);
  }
}

void TokenWorld::act() {
  auto& shard = shards_[draw(uint32_t(shards_.size()))];
  switch (draw(session_clients_ ? 8 : 7)) {
    case 0:
      if (sent_ < calls_) send(shard);
      break;
    case 1:
    case 2:
      if (!std::exchange(shard.woken, false)) break;
      if (session_clients_) session_clients_->turn(shard.id);
      shard.bus.turn();
      break;
    case 3:
      if (draw(100) < faults_) lane_->engine.fail_at = 0;
      if (lane_->begin(us(1 + draw(2000)))) note("a step of " + std::to_string(lane_->engine.steps));
      break;
    case 4: pass_time(); break;
    case 5:
      if (draw(100) < leaves_) leave();
      break;
    case 6: give_credit(); break;
    default:
      if (!wound_up_ && session_clients_->sent() < calls_ / 2) session_clients_->act();
  }
  if (unloads_ && !unloaded_ && sent_ > calls_ / 2 && !lane_->stepping() && draw(100) == 0) {
    note("the model goes");
    unloaded_ = true;
    lane_->unload();
  }
}

void TokenWorld::pass_time() {
  if (auto next = lane_->next(); next != base::kNever && next > env_.now() && draw(2))
    env_.advance(next - env_.now());
  else
    env_.advance(us(1 + draw(500)));
  if (lost_wakes_ > 0 && env_.now() >= tick_) {
    tick_ = env_.now() + us(5000);
    for (auto& shard : shards_) shard.woken = true;
  }
  lane_->end(us(1 + draw(2000)));
  lane_->encode_image();
  lane_->deliver(draw(4));
}

void TokenWorld::check_ledger() {
  for (auto& shard : shards_) {
    if (shard.accepted != shard.told + shard.left + shard.live.size()) broken("I2: a shard's ledger does not add up");
    if (shard.bus.in_flight() < shard.live.size()) broken("I2: a Call is lost");
  }
}

void TokenWorld::check_end() {
  for (auto& client : clients_)
    if (client.live) broken("I1: client " + std::to_string(client.id) + " never heard");
  // A model that goes takes with it what sessions have left there.
  if (lane_->used() != 0 && !(session_clients_ && unloaded_)) broken("I7: blocks are held by nobody");
  if (!served_->idle()) broken("I5: a slot is taken though all is quiet");
  if (session_clients_) session_clients_->check_end();
}

bool TokenWorld::quiet() {
  bool over =
      sent_ == calls_ && (!session_clients_ || session_clients_->quiet()) && !lane_->stepping() && !lane_->has_mail();
  return over && std::all_of(shards_.begin(), shards_.end(), [](auto& shard) { return shard.bus.in_flight() == 0; });
}

std::string TokenWorld::run() {
  constexpr int kMost = 100'000;  // a world that is not quiet by then is stuck
  for (int i = 0; i < kMost && broken_.empty(); ++i) {
    act();
    check_ledger();
    if (!quiet()) continue;
    if (session_clients_ && !std::exchange(wound_up_, true)) {
      session_clients_->wind_up();
      continue;
    }
    check_end();
    return broken_;
  }
  if (broken_.empty()) broken("liveness: Calls are stuck");
  return broken_;
}

}  // namespace weir::sim
