// A step that throws for want of memory leaves no model busy.
#include <gtest/gtest.h>

#include "../../sched/failing_new.h"
#include "msg/readiness_probe.h"
#include "process_lab.h"

namespace weir::process {
namespace {

using ProcessThrow = ProcessTest;

TEST_F(ProcessThrow, AModelWhoseStepHasThrownIsNotBusy) {
  int thrown = 0;
  bool whole = false;
  std::unique_ptr<sched::Engine> model;
  for (int64_t allocation = 0; !whole; ++allocation) {
    ASSERT_LT(allocation, 1000);
    if (!model || model->health() != sched::Engine::Health::kAlive) model = engine("says ready");
    ASSERT_TRUE(model);
    const auto probe = dynamic_cast<msg::HasReadinessProbe&>(*model).readiness_probe();
    ASSERT_TRUE(probe);
    msg::Call call;
    call.inputs = {floats({1, 10}, {1, 2})};
    batch = {};
    batch.calls = {&call}, batch.rows = 1;
    left = allocation, counted = true;
    try {
      (void)model->step(batch);
    } catch (const std::bad_alloc&) {
      ++thrown;
    }
    whole = left >= 0;
    counted = false, left = -1;
    EXPECT_FALSE(probe->busy()) << allocation;
    if (!whole) model.reset();  // it may still have that request
  }
  EXPECT_GT(thrown, 1);
}

}  // namespace
}  // namespace weir::process
