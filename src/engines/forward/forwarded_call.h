// ForwardedCall: one Call at one origin, or on its way to another; what of its answer waits for credit. ShardModel's
// own.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/recycled.h"
#include "engines/forward/held_events.h"
#include "engines/forward/sequence_table.h"
#include "engines/forward/shard_model.h"

namespace weir::forward {

class Hedge;

class ForwardedCall final : public Attempt::Receiver, public base::Recycled<ForwardedCall> {
 public:
  ForwardedCall(ShardModel& its_home, msg::Call* its_call, ShardModel::Came its_way);
  ~ForwardedCall();

  // Posts what came while the Call had no credit; then its end. False: it is over, and gone.
  bool deliver();
  void post(msg::Event&& event);
  static constexpr uint32_t kMostMoves = 16;

  // It makes tokens, so that another origin can go on where one has stopped.
  bool makes_tokens() const { return call->generation != nullptr; }

  // Attempt::Receiver
  void on_progress() override;
  base::Status on_part(msg::Event&& part) override;
  bool holds() const override { return !waiting.empty(); }
  void on_over(Attempt::Outcome&& ending) override;

  ShardModel& home;
  msg::Call* const call;
  const ShardModel::Came came;
  std::list<std::unique_ptr<ForwardedCall>>::iterator at;
  std::unique_ptr<Attempt> attempt;
  std::unique_ptr<Hedge> hedge;  // beside it, or what is left of both
  base::TimerId hedge_timer = base::TimerId::kNone;
  Origin* origin = nullptr;         // where it is, or was last
  SequenceRun run{};                // of its sequence, where it has a line
  uint32_t attempts = 0;            // since something new of an answer came
  std::vector<uint32_t> generated;  // by all attempts, in order
  uint32_t prefilled = 0;           // behind the last token of the prompt that was told: another origin repeats them
  uint32_t moves = 0;               // from one origin to another, behind tokens
  size_t before = 0;                // those of them that the attempts before this one have made
  base::Time progress{};            // when it was sent, or something came
  base::Time last_token{};
  HeldEvents waiting;                   // for credit
  std::optional<Attempt::Outcome> end;  // behind those
  bool posted = false, late = false;
  bool starved = false;                         // there was no memory for a part of its answer
  std::shared_ptr<const base::Status> refusal;  // why it is not sent, while it waits behind others of its sequence

 private:
  void note_token(msg::Token& token);
};

}  // namespace weir::forward
