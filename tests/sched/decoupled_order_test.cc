// Events of one leg of a decoupled pipeline that threads receive in another order than they were posted in: a thread
// that is inside of a proxy puts off what it posts, another one does not.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/attempt.h"
#include "bus/mail_bursts.h"
#include "failing_new.h"
#include "pipeline_lab.h"
#include "sched/decoupled_pipeline.h"

namespace weir::sched {
namespace {

// A decoupled model whose answers the test posts.
struct Scripted final : msg::Inbox {
  void put(msg::Call* call) override { calls.push_back(call); }
  std::vector<msg::Call*> calls;
};

// Where the answers of a pipeline arrive, in words.
struct Arrivals final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    for (auto& mail : burst) add(mail);
    burst.clear();
  }
  void post_here(msg::Mail&& mail) override { add(mail); }
  void add(const msg::Mail& mail) {
    if (before) before(mail);
    std::lock_guard lock(mutex);
    auto& words = of[mail.call];
    if (auto* failed = std::get_if<msg::Failed>(&mail.event.what)) words += std::string(failed->status.text) + " ";
    if (auto* outputs = std::get_if<msg::Outputs>(&mail.event.what); outputs && !outputs->tensors.empty())
      words += std::to_string(int(floats_of(outputs->tensors.at(0)).at(0))) + " ";
    if (mail.event.last()) words += "end ";
  }
  std::string words(const msg::Call& call) {
    std::lock_guard lock(mutex);
    return of[&call];
  }
  std::function<void(const msg::Mail&)> before;
  std::mutex mutex;
  std::map<const msg::Call*, std::string> of;
};

msg::Event answer(float value, bool final = false) {
  return {msg::Outputs{.tensors = {floats("y", {1, 2}, {value, 0})}, .final = final}};
}
msg::Event failure(bool final) { return {msg::Failed{base::failure(base::Code::kNotFound, "none"), final}}; }
msg::Event end() { return {msg::Outputs{}}; }

// Posts as a node does, which answers when it has credit.
void post(msg::Call* leg, msg::Event&& event) {
  if (!event.last()) leg->credit.fetch_sub(1);
  bus::post_one(leg, std::move(event));
}

struct OrderLab {
  explicit OrderLab(size_t nodes) {
    std::vector<std::shared_ptr<bus::Served>> models;
    for (size_t i = 0; i < nodes; ++i) {
      auto served = std::make_shared<bus::Served>();
      served->spec = spec_of(8);
      served->spec.decoupled = true;
      auto inbox = std::make_unique<Scripted>();
      node.push_back(inbox.get());
      served->inbox = std::move(inbox);
      models.push_back(std::move(served));
    }
    pipeline = make_pipeline(chain(models), stats);
    for (auto* call : {&a, &b}) {
      fill(*call, 1, 1);
      call->home = &home;
      pipeline->put(call);
    }
  }
  // Posts an answer for each Call's leg in one burst, and runs `meanwhile` while the thread that does so is at the
  // first of them.
  void post_both(const std::vector<msg::Call*>& legs, const std::function<void()>& meanwhile) {
    std::promise<void> reached, go_on;
    home.before = [&](const msg::Mail& mail) {
      if (mail.call == &a) reached.set_value(), go_on.get_future().wait();
    };
    std::thread other([&] {
      bus::MailBursts out;
      float value = 0;
      for (auto* leg : legs) leg->credit.fetch_sub(1), out.add(leg->home, {leg, answer(++value)});
      out.post();
    });
    reached.get_future().wait();
    meanwhile();
    go_on.set_value();
    other.join();
    home.before = nullptr;
  }

  Arrivals home;
  msg::Call a, b;
  bus::ModelStats stats;
  std::vector<Scripted*> node;
  std::unique_ptr<msg::Inbox> pipeline;
};

// Two nodes of which each is decoupled: an answer of the second has passed the pipeline behind the first, and waits for
// its thread in the whole one.
TEST(DecoupledOrder, AnEndWaitsForTheAnswersThatWerePostedBeforeIt) {
  for (auto [event, words] : {std::pair(end(), "2 end "), std::pair(answer(9, true), "2 9 end "),
                              std::pair(failure(true), "2 node 'n1': none end ")}) {
    OrderLab lab(2);
    auto &legs = lab.node[0]->calls, &behind = lab.node[1]->calls;
    for (auto* leg : {legs[0], legs[1]}) post(leg, answer(7));
    lab.post_both(behind, [&, &event = event] {
      post(legs[1], end());
      post(behind[1], std::move(event));
      EXPECT_EQ(lab.home.words(lab.b), "");
    });
    EXPECT_EQ(lab.home.words(lab.b), words);
    EXPECT_EQ(lab.home.words(lab.a), "1 ");
    for (auto* leg : {behind[0], legs[0]}) post(leg, end());
    EXPECT_EQ(lab.home.words(lab.a), "1 end ");
  }
}

TEST(DecoupledOrder, SoDoesTheNextAnswerWhereAnotherNodeMakesSeveralOfOne) {
  OrderLab lab(2);
  auto &legs = lab.node[0]->calls, &behind = lab.node[1]->calls;
  for (auto* leg : {legs[0], legs[1]}) post(leg, answer(7));
  ASSERT_EQ(behind.size(), 2u);
  lab.post_both(behind, [&] {
    post(behind[1], end());
    post(legs[1], answer(8));
    EXPECT_EQ(behind.size(), 2u);
    post(legs[1], end());
    EXPECT_EQ(lab.home.words(lab.b), "");
  });
  EXPECT_EQ(lab.home.words(lab.b), "2 ");
  ASSERT_EQ(behind.size(), 3u);
  post(behind[2], answer(5));
  post(behind[2], end());
  EXPECT_EQ(lab.home.words(lab.b), "2 5 end ");
  for (auto* leg : {behind[0], legs[0]}) post(leg, end());
  EXPECT_EQ(lab.home.words(lab.a), "1 end ");
}

// The client leaves while an answer waits for its thread.
TEST(DecoupledOrder, SoDoesTheFailureOfACancelledCall) {
  OrderLab lab(2);
  auto &legs = lab.node[0]->calls, &behind = lab.node[1]->calls;
  for (auto* leg : {legs[0], legs[1]}) post(leg, answer(7));
  lab.post_both(behind, [&] {
    lab.b.cancelled = true;
    lab.pipeline->poke();
    for (auto* leg : {legs[1], behind[1]}) {
      EXPECT_TRUE(leg->cancelled);
      post(leg, failure(true));
    }
    EXPECT_EQ(lab.home.words(lab.b), "");
  });
  EXPECT_TRUE(lab.home.words(lab.b).ends_with("none end "));
  for (auto* leg : {behind[0], legs[0]}) post(leg, end());
}

TEST(DecoupledOrder, NoAnswerIsAskedForWhileAnErrorIsOnItsWay) {
  OrderLab lab(1);
  msg::Call* leg = lab.node[0]->calls[0];
  auto next = [&] {
    if (leg->credit > 0) std::thread([&] { post(leg, answer(2)); }).join();
  };
  lab.home.before = [&](const msg::Mail& mail) {
    if (!std::holds_alternative<msg::Failed>(mail.event.what)) return;
    lab.pipeline->poke();  // another Call has got credit
    next();
  };
  post(leg, failure(false));
  next();
  EXPECT_EQ(lab.home.words(lab.a), "none 2 ");
  for (auto* call : lab.node[0]->calls) post(call, end());
  EXPECT_EQ(lab.home.words(lab.a), "none 2 end ");
}

// Whichever allocation fails, of posting an answer or of what it leads to: it has been taken once, and the Call ends
// once.
TEST(DecoupledOrder, AnAnswerThatCannotBePostedIsTakenBack) {
  bool failed = true;
  for (int64_t nth = 0; failed; ++nth) {
    OrderLab lab(1);
    msg::Call* leg = lab.node[0]->calls[0];
    std::thread([&] {
      std::vector<msg::Mail> burst;
      burst.push_back({leg, answer(3)});
      leg->credit.fetch_sub(1);
      left = nth, counted = true;
      while (!base::attempt("a test", [&] { leg->home->post(burst); }).ok()) continue;
      counted = false, failed = left.exchange(-1) < 0;
    }).join();
    post(leg, end());
    const std::string words = lab.home.words(lab.a);
    EXPECT_TRUE(words.ends_with("end ") && words.find("end ") + 4 == words.size()) << words << nth;
    EXPECT_TRUE(words == "3 end " || words.find("memory") != std::string::npos) << words << nth;
    post(lab.node[0]->calls[1], end());
  }
}

}  // namespace
}  // namespace weir::sched
