// Stands in for sched's lanes: steps the engine in put().
#include "sched/lane.h"

namespace weir::sched {
namespace {

class Direct final : public msg::Inbox {
 public:
  explicit Direct(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
  void put(msg::Call* call) override {
    Batch batch;
    batch.calls = {call};
    batch.rows = call->rows;
    batch.inputs = call->inputs;
    msg::Event event{msg::Failed{engine_->step(batch)}};
    if (std::get<msg::Failed>(event.what).status.ok()) event.what = msg::Outputs{std::move(batch.outputs), {}, true};
    std::vector<msg::Mail> mail;
    mail.push_back({call, std::move(event)});
    call->home->post(mail);
  }

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<msg::Inbox> make_lanes(std::vector<std::unique_ptr<Engine>> engines, const msg::ModelSpec&,
                                       bus::ModelStats&, base::SlabSource&) {
  return std::make_unique<Direct>(std::move(engines.front()));
}
std::unique_ptr<msg::Inbox> make_inline(std::unique_ptr<Engine> engine, const msg::ModelSpec&, bus::ModelStats&) {
  return std::make_unique<Direct>(std::move(engine));
}

}  // namespace weir::sched
