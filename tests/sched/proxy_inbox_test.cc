#include "sched/proxy_inbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "calls.h"

namespace weir::sched {
namespace {

// Answers inside put().
struct Inline final : msg::Inbox {
  void put(msg::Call* call) override { call->home->post_here({call, {msg::Done{}}}); }
};

// Puts each Call into `inner`, and writes down what happens when.
class Proxy final : public ProxyInbox {
 public:
  Proxy(Receives receives, msg::Inbox& inner, msg::Home& home, std::string& log)
      : ProxyInbox(receives), inner_(inner), home_(home), log_(log) {}
  using ProxyInbox::Receives;

  void put(msg::Call* call) override {
    enter([&] {
      log_ += "put ";
      call->home = this;
      inner_.put(call);
      if (throws) throw std::runtime_error("after put");
      log_ += "done ";
    });
  }
  void resume_later(std::shared_ptr<Resumable> what) {
    enter([&] {
      defer(std::move(what));
      log_ += "deferred ";
    });
  }
  bool throws = false;

 private:
  void receive(msg::Mail&& mail, bus::MailBursts& out) override {
    log_ += "received ";
    mail.call->home = &home_;
    out.add(&home_, std::move(mail));
  }

  msg::Inbox& inner_;
  msg::Home& home_;
  std::string& log_;
};

struct Waiting final : ProxyInbox::Resumable {
  explicit Waiting(std::string& l) : log(l) {}
  void resume() override { log += "resumed "; }
  std::string& log;
};

struct ProxyTest : testing::Test {
  Inline engine;
  Answers answers;
  std::string log;
  msg::Call call;
};

TEST_F(ProxyTest, AnEventOfAnInlineEngineIsReceivedAtOnceOrWhenPutIsThrough) {
  Proxy at_once(Proxy::Receives::kAtOnce, engine, answers, log);
  at_once.put(&call);
  EXPECT_EQ(log, "put received done ");
  log.clear();
  Proxy deferred(Proxy::Receives::kDeferred, engine, answers, log);
  deferred.put(&call);
  EXPECT_EQ(log, "put done received ");
  EXPECT_EQ(answers.mail.size(), 2u);
}

TEST_F(ProxyTest, OnlyTheOutermostProxyDoesWhatWasDeferred) {
  Proxy inner(Proxy::Receives::kDeferred, engine, answers, log);
  Proxy outer(Proxy::Receives::kDeferred, inner, answers, log);
  outer.put(&call);
  EXPECT_EQ(log, "put put done done received ");
}

TEST_F(ProxyTest, WhatIsThrownComesOutOnceDeferredWorkIsDone) {
  Proxy proxy(Proxy::Receives::kDeferred, engine, answers, log);
  proxy.throws = true;
  EXPECT_THROW(proxy.put(&call), std::runtime_error);
  EXPECT_EQ(log, "put received ");
  proxy.throws = false;
  proxy.put(&call);
  EXPECT_EQ(log, "put received put done received ") << "the thread is free again";
}

TEST_F(ProxyTest, WhatWasDeferredIsResumedOnce) {
  Proxy proxy(Proxy::Receives::kAtOnce, engine, answers, log);
  proxy.resume_later(std::make_shared<Waiting>(log));
  EXPECT_EQ(log, "deferred resumed ");
  proxy.put(&call);
  EXPECT_EQ(log, "deferred resumed put received done ");
}

}  // namespace
}  // namespace weir::sched
