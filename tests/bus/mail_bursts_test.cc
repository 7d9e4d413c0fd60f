#include "bus/mail_bursts.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

namespace weir::bus {
namespace {

// Records the ids of the Calls of each burst; the first `fails` bursts find no memory.
struct RecordingHome final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    if (fails > 0 && fails-- > 0) throw std::bad_alloc();
    std::string ids;
    for (auto& mail : burst) ids += mail.call->id;
    bursts.push_back(ids);
    burst.clear();
  }
  void post_here(msg::Mail&&) override { ADD_FAILURE() << "mail of another thread"; }

  int fails = 0;
  std::vector<std::string> bursts;
};

TEST(MailBursts, EachHomeGetsOneBurstInOrder) {
  RecordingHome first, second;
  msg::Call a, b, c;
  a.id = "a", b.id = "b", c.id = "c";
  MailBursts bursts;
  bursts.add(&first, {&a, {msg::Done{}}});
  bursts.add(&second, {&b, {msg::Done{}}});
  bursts.add(&first, {&c, {msg::Done{}}});
  bursts.post();
  bursts.post();
  EXPECT_EQ(first.bursts, std::vector<std::string>{"ac"});
  EXPECT_EQ(second.bursts, std::vector<std::string>{"b"});
}

TEST(MailBursts, TheMemoryForSixtyFourHomesIsKept) {
  std::vector<RecordingHome> homes(65);
  msg::Call call;
  MailBursts bursts;
  for (size_t i = 0; i < 64; ++i) bursts.add(&homes[i], {&call, {msg::Done{}}});
  bursts.post();
  EXPECT_EQ(bursts.all().size(), 64u);
  bursts.add(&homes[64], {&call, {msg::Done{}}});
  EXPECT_EQ(bursts.all().size(), 65u);
  bursts.post();
  EXPECT_EQ(bursts.all().size(), 0u);
  for (const auto& home : homes) EXPECT_EQ(home.bursts.size(), 1u);
}

TEST(MailBursts, AnAnswerWaitsForTheMemoryThatItNeeds) {
  RecordingHome home;
  home.fails = 2;
  msg::Call a, b;
  a.id = "a", b.id = "b";
  a.home = b.home = &home;
  MailBursts bursts;
  bursts.add(&home, {&a, {msg::Done{}}});
  bursts.post();
  home.fails = 2;
  post_one(&b, {msg::Done{}});
  EXPECT_EQ(home.bursts, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace weir::bus
