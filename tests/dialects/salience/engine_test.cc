// Salience in front of the real scheduler of tokens, over an engine that reads back what it has stored: whatever
// clients do to their sessions, what is said of a position is said of the tokens that the session has.
#include <gtest/gtest.h>

#include <random>

#include "../../generation/fake_engine.h"
#include "bench.h"
#include "generation/scheduler.h"

namespace weir::salience {
namespace {

using generation::FakeModel;

// A lane without a thread: the test steps it.
class SteppedInbox final : public msg::Inbox {
 public:
  SteppedInbox(const msg::ModelSpec& spec, bus::ModelStats& stats, const base::Env& env)
      : spec_(spec), env_(env), engine_(spec) {
    stats.tokens = std::make_unique<bus::TokenStats>();
    (void)engine_.reserve(kRoom.blocks, kRoom.block_size);
    generation::TokenPolicy policy;
    policy.block_size = kRoom.block_size;
    policy.step_tokens = 24;
    scheduler_ = std::make_unique<generation::TokenScheduler>(engine_, kRoom, policy, spec, stats, 7);
  }
  void put(msg::Call* call) override {
    auto status = generation::fits_tokens(*call, spec_, kRoom);
    if (status.ok()) {
      scheduler_->add(call, env_.now());
    } else {
      scheduler_->cut(call->session, uint32_t(call->generation->history.size()));
      call->home->post_here({call, {msg::Failed{status}}});
    }
    post();
  }
  bool step() {
    auto* step = scheduler_->plan(env_.now());
    post();
    if (!step) return false;
    scheduler_->finish(engine_.step(*step), env_.now());
    post();
    return true;
  }
  bool empty() const { return scheduler_->empty(); }
  size_t residents() const { return scheduler_->memory().residents(); }

 private:
  static constexpr generation::TokenRoom kRoom{40, 8};

  void post() {
    for (auto& mail : std::exchange(scheduler_->mail(), {})) {
      msg::Home* home = mail.call->home;
      home->post_here(std::move(mail));
    }
  }

  const msg::ModelSpec& spec_;
  const base::Env& env_;
  generation::FakeTokenEngine engine_;
  std::unique_ptr<generation::TokenScheduler> scheduler_;
};

class Play {
 public:
  explicit Play(uint64_t seed) : dice_(seed) {
    auto served = std::make_shared<bus::Served>();
    served->spec = generation::token_spec(200);
    auto text = std::make_shared<msg::TextSpec>(*served->spec.text);
    text->vision.reset();
    text->concepts = {"a", "b", "c"};
    text->readout_layers = {0};
    served->spec.text = text;
    served->spec.version = "1";
    auto inbox = std::make_unique<SteppedInbox>(served->spec, served->stats, t_.shards[0]->wire.env);
    inbox_ = inbox.get();
    served->inbox = std::move(inbox);
    t_.catalog->models["talker"].preferred = served.get();
    t_.catalog->models["talker"].versions["1"] = served;
    t_.kept.push_back(served);
    t_.publish();
  }

  void play(int moves) {
    for (int i = 0; i < moves && !testing::Test::HasFailure(); ++i) move(roll(100));
    while (!running_.empty()) step();
    EXPECT_GT(checked_, 0u);
    for (auto& id : sessions_) close(id);
    while (inbox_->step()) {
    }
    t_.run();
    EXPECT_EQ(inbox_->residents(), 0u);
    EXPECT_EQ(t_.shards[0]->bus.in_flight(), 0u);
    EXPECT_EQ(t_.shards[0]->sessions.table().sessions(), 0u);
  }
  size_t checked() const { return checked_; }

 private:
  struct Run {
    Bench::Opened x;
    std::string id;
    uint32_t offset;
    Ids prompt;  // what the session has before the first generated token
  };

  uint32_t roll(uint32_t n) { return uint32_t(dice_() % n); }
  void move(uint32_t what) {
    if (sessions_.empty() || (what < 4 && sessions_.size() < 8)) return sessions_.push_back(t_.open("talker"));
    auto& id = sessions_[roll(uint32_t(sessions_.size()))];
    if (what < 8) return fork(id);
    if (what < 10) {
      close(id);
      std::erase(sessions_, std::string(id));
      return;
    }
    if (what < 40 && running_.size() < 5) return generate(id);
    if (what < 47 && !running_.empty()) return leave(running_.begin() + roll(uint32_t(running_.size())));
    step();
  }
  void fork(const std::string& id) {
    pb::ForkSessionRequest request;
    request.set_session_id(id);
    request.set_at_position(roll(uint32_t(t_.dump(id).size()) + 1));
    sessions_.push_back(t_.ask<pb::ForkSessionResponse>("ForkSession", request).response.session_id());
  }
  void close(const std::string& id) {
    pb::CloseSessionRequest request;
    request.set_session_id(id);
    t_.ask<pb::CloseSessionResponse>("CloseSession", request);
  }
  void generate(const std::string& id) {
    Ids tokens = t_.dump(id);
    auto length = uint32_t(tokens.size());
    uint32_t offset = roll(2) ? length : roll(length + 1);
    if (roll(20) == 0) offset = 0;
    Ids append(roll(12));
    for (auto& token : append) token = roll(FakeModel::kVocabulary);
    if (offset < length && roll(2)) {  // an edit: one token is another one, and then all is as before
      append.assign(tokens.begin() + offset, tokens.end());
      append[0] = (append[0] + 1) % FakeModel::kVocabulary;
    }
    auto r = Bench::request(id, offset, append, roll(7));
    r.set_truncating(true);
    auto* range = r.add_readout_ranges();
    range->set_start(roll(2) ? 0 : length), range->set_end(roll(2) ? 1000 : range->start() + 1 + roll(20));
    Run run{t_.generate(r), id, offset, Ids(tokens.begin(), tokens.begin() + offset)};
    run.prompt.insert(run.prompt.end(), append.begin(), append.end());
    if (int status = support::grpc_status(*run.x); status > 0) {
      if (status == int(base::Code::kAborted)) return;
      EXPECT_EQ(t_.dump(id), tokens);
      return;
    }
    running_.push_back(std::move(run));
    harvest();
  }
  void step() {
    inbox_->step();
    t_.run();
    harvest();
  }
  // The client is gone; the session has, in the end, one of two lengths.
  void leave(std::vector<Run>::iterator at) {
    Run run = std::move(*at);
    running_.erase(at);
    Ids sent = check(run);
    run.x.reset();
    for (int i = 0; i < 3; ++i) inbox_->step();
    t_.run();
    Ids kept = run.prompt;
    kept.insert(kept.end(), sent.begin(), sent.end());
    if (sent.empty()) kept.resize(run.offset);
    pb::DumpSessionRequest dump;
    dump.set_session_id(run.id);
    auto now = t_.ask<pb::DumpSessionResponse>("DumpSession", dump);
    if (now.status == 0) {
      EXPECT_EQ(Ids(now.response.tokens().begin(), now.response.tokens().end()), kept);
    }
    harvest();
  }
  // Every readout so far is of the tokens up to its position. Returns the generated tokens.
  Ids check(const Run& run) {
    Ids tokens = run.prompt, sent;
    for (const auto& event : Bench::events(*run.x)) {
      if (!event.has_token() || event.token().is_prefill()) continue;
      EXPECT_EQ(event.token().position(), tokens.size());
      tokens.push_back(event.token().id());
      sent.push_back(event.token().id());
    }
    std::vector<uint64_t> hashes{1};
    for (uint32_t token : tokens) hashes.push_back(generation::mix(hashes.back(), token));
    for (const auto& event : Bench::events(*run.x)) {
      if (!event.has_token() || event.token().readout().empty()) continue;
      ++checked_;
      auto readout = FakeModel::readout(hashes.at(event.token().position() + 1));
      EXPECT_EQ(std::vector<float>(event.token().readout().begin(), event.token().readout().end()), readout);
    }
    return sent;
  }
  void harvest() {
    for (size_t i = 0; i < running_.size();) {
      if (support::grpc_status(*running_[i].x) < 0) {
        ++i;
        continue;
      }
      Run run = std::move(running_[i]);
      running_.erase(running_.begin() + ptrdiff_t(i));
      Ids sent = check(run);
      if (support::grpc_status(*run.x) != 0) continue;
      auto done = Bench::events(*run.x).back().done();
      EXPECT_EQ(done.prompt_tokens(), run.prompt.size());
      EXPECT_EQ(done.completion_tokens(), sent.size());
      run.prompt.insert(run.prompt.end(), sent.begin(), sent.end());
      EXPECT_EQ(done.total_tokens(), run.prompt.size());
      EXPECT_EQ(t_.dump(run.id), run.prompt);
    }
  }

  std::mt19937_64 dice_;
  Bench t_;
  SteppedInbox* inbox_ = nullptr;
  std::vector<std::string> sessions_;
  std::vector<Run> running_;
  size_t checked_ = 0;
};

TEST(SalienceEngine, WhateverClientsDoAReadoutIsThatOfItsTokens) {
  size_t checked = 0;
  for (uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Play play(seed);
    play.play(300);
    checked += play.checked();
  }
  EXPECT_GT(checked, 5000u);
}

}  // namespace
}  // namespace weir::salience
