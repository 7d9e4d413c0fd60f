// The Inbox of engines whose work is shorter than a hop to another thread.
#include <utility>

#include "bus/load_notes.h"
#include "bus/memory_use.h"
#include "sched/lane.h"
#include "sched/runner.h"

namespace weir::sched {
namespace {

class InlineInbox final : public msg::Inbox, public bus::TellsMemory, public bus::HasLoadNotes {
 public:
  InlineInbox(std::unique_ptr<Engine> engine, const msg::ModelSpec& spec, bus::ModelStats& stats)
      : engine_(std::move(engine)), spec_(spec), stats_(stats) {}

  // Shards come in here at the same time; each brings a Room of its own.
  void put(msg::Call* call) override {
    thread_local Runner::Room room;
    Runner runner(*engine_, spec_, stats_, base::heap(), room);
    runner.run_here(call);
  }

 private:
  std::unique_ptr<Engine> engine_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
};

}  // namespace

std::unique_ptr<msg::Inbox> make_inline(std::unique_ptr<Engine> engine, const msg::ModelSpec& spec,
                                        bus::ModelStats& stats) {
  return std::make_unique<InlineInbox>(std::move(engine), spec, stats);
}

}  // namespace weir::sched
