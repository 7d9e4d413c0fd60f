// Responses in the background whose process is told to end: the journal has them, and another process makes them.
#include <filesystem>
#include <thread>

#include "dialects/openai/responses/responses.h"
#include "fake_records.h"
#include "put_off_bench.h"

namespace weir::openai {
namespace {

using jobs::Storage;

TEST_F(PutOffResponse, IsMadeByTheNextProcess) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  ASSERT_EQ(inbox().held.size(), 1u);
  const msg::Call& cut_off = *call();
  drain();
  EXPECT_TRUE(cut_off.cancelled.load());
  EXPECT_EQ(status(id), "queued");
  ASSERT_TRUE(begin_anew());
  EXPECT_EQ(status(id), "queued");
  run_job();
  EXPECT_EQ(status(id), "in_progress");
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:");
  scripted().emit("ab");
  scripted().end();
  settle();
  const Json over = json(get(id));
  EXPECT_EQ(over["status"], "completed") << over;
  EXPECT_EQ(over["id"], id);
  EXPECT_EQ(over["output"][0]["content"][0]["text"], "ab");
  on_journal([](Storage&) {});
  ASSERT_TRUE(begin_anew(0));
  EXPECT_EQ(json(get(id)), over) << "the journal has it";
  const Json items = json(answered(open("GET", "/v1/responses/" + id + "/input_items")));
  EXPECT_EQ(items["data"][0]["content"][0]["text"], "hi") << items;
  auto next = answered(
      open("POST", "/v1/responses", Json{{"model", "m"}, {"input", "so"}, {"previous_response_id", id}}.dump()));
  settle();
  ASSERT_EQ(inbox().held.size(), 1u) << next->sent;
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:ab\nuser:so\nassistant:");
  EXPECT_EQ(json(answered(open("DELETE", "/v1/responses/" + id)))["deleted"], true);
  EXPECT_EQ(get(id)->response.status, 404);
}

TEST_F(PutOffResponse, OfAProcessThatDiedIsMadeByTheNextOne) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string over = ask();
  scripted().end();
  settle();
  const std::string id = ask();
  ASSERT_TRUE(die_and_begin_anew());
  EXPECT_EQ(get(over)->response.status, 404);
  EXPECT_EQ(status(id), "queued");
  run_job();
  EXPECT_EQ(status(id), "in_progress");
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:");
  scripted().emit("ab");
  scripted().end();
  settle();
  EXPECT_EQ(json(get(id))["output"][0]["content"][0]["text"], "ab");
}

TEST_F(PutOffResponse, OfAProcessThatDiedIsCancelledAndDeleted) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask(), other = ask();
  ASSERT_TRUE(die_and_begin_anew());
  EXPECT_EQ(json(answered(open("POST", "/v1/responses/" + id + "/cancel")))["status"], "cancelled");
  EXPECT_EQ(answered(open("DELETE", "/v1/responses/" + other))->response.status, 200);
  process->journal->start();
  on_journal([](Storage&) {});
  EXPECT_EQ(status(id), "cancelled");
  EXPECT_EQ(get(other)->response.status, 404);
  EXPECT_TRUE(inbox().held.empty());
}

TEST_F(PutOffResponse, ThatWasStoppedStaysSoWhereItsProcessDiesThen) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask(), other = ask();
  on_journal([](Storage&) {});
  EXPECT_EQ(json(answered(open("POST", "/v1/responses/" + id + "/cancel")))["status"], "cancelled");
  EXPECT_EQ(answered(open("DELETE", "/v1/responses/" + other))->response.status, 200);
  ASSERT_TRUE(die_and_begin_anew());
  process->journal->start();
  on_journal([](Storage&) {});
  EXPECT_EQ(status(id), "cancelled");
  EXPECT_EQ(get(other)->response.status, 404);
  EXPECT_TRUE(inbox().held.empty());
}

TEST_F(PutOffResponse, WithoutItsRequestFailsWhereItsProcessDied) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  on_journal([&](Storage& s) {
    (void)s.journal.remove(id);
    const jobs::Job job{{id, 0}, "", "m", "/v1/responses", "", ""};
    EXPECT_TRUE(s.journal.put_claimed({&job, 1}).ok());
  });
  ASSERT_TRUE(die_and_begin_anew());
  process->journal->start();
  while (status(id) != "failed") settle();
  EXPECT_EQ(json(get(id))["error"]["message"], "the server that made the response has ended, and no other can make it");
}

// Whoever has stopped it was told so; what had been made by then is not found.
TEST_F(PutOffResponse, ThatIsDeletedWhileItIsStoredIsGone) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  drain();
  ASSERT_TRUE(begin_anew());
  run_job();
  on_journal([&](Storage& s) { (void)s.batches.remove(id); });
  scripted().emit("ab");
  scripted().end();
  settle();
  on_journal([](Storage&) {});
  EXPECT_EQ(get(id)->response.status, 404);
}

TEST_F(PutOffResponse, IsFollowedUntilTheNextProcessHasMadeIt) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  ASSERT_TRUE(die_and_begin_anew());
  auto x = open("GET", "/v1/responses/" + id + "?stream=true&starting_after=0");
  process->posted.do_next();
  EXPECT_NE(x->sent.find("response.in_progress"), std::string::npos);
  run_job();
  scripted().emit("ab");
  scripted().end();
  settle();
  on_journal([](Storage&) {});
  EXPECT_FALSE(x->ended);
  env.advance(std::chrono::seconds(1));
  turn();
  x = answered(std::move(x));
  EXPECT_NE(x->sent.find("response.completed"), std::string::npos);
  EXPECT_EQ(x->sent.find("response.created"), std::string::npos);
}

TEST_F(PutOffResponse, IsCancelledAndDeleted) {
  if (!begin(0)) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask(), other = ask();
  drain();
  ASSERT_TRUE(begin_anew());
  EXPECT_EQ(json(answered(open("POST", "/v1/responses/" + id + "/cancel")))["status"], "cancelled");
  EXPECT_EQ(answered(open("DELETE", "/v1/responses/" + other))->response.status, 200);
  process->journal->start();
  on_journal([](Storage&) {});
  EXPECT_EQ(status(id), "cancelled");
  EXPECT_EQ(get(other)->response.status, 404);
  EXPECT_TRUE(inbox().held.empty());
}

TEST_F(PutOffResponse, ThatRunsIsCancelled) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  drain();
  ASSERT_TRUE(begin_anew());
  run_job();
  const msg::Call& made = *call();
  EXPECT_EQ(json(answered(open("POST", "/v1/responses/" + id + "/cancel")))["status"], "cancelled");
  for (settle(); !made.cancelled.load() && process->posted.do_next();) settle();
  EXPECT_TRUE(made.cancelled.load());
  EXPECT_EQ(status(id), "cancelled");
}

// The process that made it died when all nodes found it, and before the journal knew.
TEST_F(PutOffResponse, ThatAllNodesFindIsNotMadeAgain) {
  FakeRecords records;
  options.records = &records;
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  ASSERT_TRUE(die_and_begin_anew());
  records.waiting.clear();
  responses::StoredResponse stored;
  stored.response = base::Bytes::copy_of(std::string_view(R"({"status":"completed"})"));
  const std::string record = records.kept["host 127.0.0.1 " + id] = responses::write_shared(stored);
  process->journal->start();
  ASSERT_TRUE(process->posted.do_next());
  settle();
  ASSERT_EQ(records.waiting.size(), 1u);
  records.answer();
  settle();
  EXPECT_TRUE(inbox().held.empty());
  on_journal([&](Storage& s) { EXPECT_EQ(s.journal.list(id, 0, 1).value()[0].outcome->body, record); });
  end();
}

TEST(PutOffOutcome, IsTheResponseAloneWhereItsTenantHasNoRoomForItsTurns) {
  responses::StoredResponse stored;
  stored.response = base::Bytes::copy_of(R"({"id":"resp_1"})");
  stored.turns = base::Bytes::copy_of(R"([{"role":"user"}])");
  jobs::Outcome outcome{200, "", responses::write_shared(stored)};
  responses::leave_out_turns(outcome);
  EXPECT_EQ(outcome.body, stored.response.view());
  responses::leave_out_turns(outcome);
  EXPECT_EQ(outcome.body, stored.response.view()) << "there are none";
}

TEST_F(PutOffResponse, SaysWhyItFailed) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  drain();
  ASSERT_TRUE(begin_anew());
  run_job();
  scripted().fail(base::Code::kInternal, "gone");
  settle();
  on_journal([](Storage&) {});
  const Json over = json(get(id));
  EXPECT_EQ(over["status"], "failed");
  EXPECT_EQ(over["error"], Json::parse(R"({"code":"server_error","message":"gone"})"));
}

TEST_F(PutOffResponse, ThatIsOverOrStoppedIsNotPutOff) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string made = ask();
  scripted().end();
  turn();
  const std::string stopped = ask();
  EXPECT_EQ(json(answered(open("POST", "/v1/responses/" + stopped + "/cancel")))["status"], "cancelled");
  settle();
  drain();
  EXPECT_EQ(batches(), 0u);
  EXPECT_EQ(status(made), "completed");
}

TEST_F(PutOffResponse, IsOverAlsoWhereTheFileWasAwayThen) {
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  (void)ask();
  EXPECT_EQ(batches(), 1u);
  const std::string elsewhere = folder.path() + "-elsewhere";
  std::filesystem::rename(folder.path(), elsewhere);
  scripted().end();
  settle();
  on_journal([](Storage&) {});
  std::filesystem::rename(elsewhere, folder.path());
  for (int i = 0; i < 500 && batches() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(batches(), 0u);
}

TEST_F(PutOffResponse, HasAPlaceWhereItsTenantHasNoRoomAndIsPutOffAllTheSame) {
  tenant_disk = 100;
  if (!begin()) GTEST_SKIP() << "built without SQLite";
  const std::string id =
      ask({{"a", std::string(500, 'x')}, {"b", std::string(500, 'x')}, {"c", std::string(500, 'x')}});
  uint64_t bytes = 0;
  on_journal([&](Storage& s) { bytes = s.files.use("host 127.0.0.1").value().bytes; });
  EXPECT_EQ(batches(), 1u);
  EXPECT_LT(bytes, 1500u);
  drain();
  ASSERT_TRUE(begin_anew());
  EXPECT_EQ(status(id), "queued");
  run_job();
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:");
}

TEST_F(PutOffResponse, MayHaveWaitedAtThatTime) {
  if (!begin(0)) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  scripted().fail(base::Code::kUnavailable, "for now");
  settle();
  std::promise<void> written;
  EXPECT_TRUE(process->store.post([&](Storage&) { written.get_future().wait(); }));
  process->journal->drain();
  env.advance(std::chrono::minutes(1));
  turn();
  EXPECT_TRUE(inbox().held.empty());
  written.set_value();
  drain();
  EXPECT_EQ(status(id), "queued");
}

TEST_F(PutOffResponse, IsForgottenInTime) {
  if (!begin(0)) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  drain();
  ASSERT_TRUE(begin_anew(0));
  on_journal([&](Storage& s) { (void)process->duty.step(s, env.wall() + kLife + std::chrono::minutes(1)); });
  EXPECT_EQ(json(get(id))["error"]["message"], "it has not begun in time");
  on_journal([&](Storage& s) { (void)process->duty.step(s, env.wall() + 3 * kLife); });
  EXPECT_EQ(get(id)->response.status, 404);
}

TEST_F(PutOffResponse, IsWentOnBehindOnceItIsOver) {
  if (!begin(0)) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask(), items = "/v1/responses/" + id + "/input_items";
  const std::string why = "the items of its input are there once the response is over";
  EXPECT_EQ(message(answered(open("GET", items))), why) << "made here";
  drain();
  ASSERT_TRUE(begin_anew(0));
  EXPECT_EQ(message(answered(open("GET", items))), why) << "made later";
  const Json next{{"model", "m"}, {"input", "so"}, {"previous_response_id", id}};
  EXPECT_EQ(message(answered(open("POST", "/v1/responses", next.dump()))),
            "previous_response_id: that response was not completed");
}

TEST_F(PutOffResponse, IsLookedForOnceASecondWhetherItIsOver) {
  if (!begin(0)) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  on_journal([&](Storage& s) {
    responses::PutOffDuty duty(kLife);
    const auto state_after = [&](base::Duration time) {
      EXPECT_TRUE(duty.step(s, env.wall() + time));
      return s.batches.find("host 127.0.0.1", id).value()->state;
    };
    EXPECT_EQ(state_after({}), "live");
    EXPECT_TRUE(s.journal.finish({id, 0}, {200, "", "{}"}).value());
    EXPECT_EQ(state_after(std::chrono::milliseconds(900)), "live");
    EXPECT_EQ(state_after(std::chrono::seconds(1)), "over");
  });
}

TEST_F(PutOffResponse, IsItsClientsAlone) {
  if (!begin(0)) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  drain();
  ASSERT_TRUE(begin_anew(0));
  wire::PeerInfo other{"10.0.0.9:5000"};
  EXPECT_EQ(answered(open("GET", "/v1/responses/" + id, "", &other))->response.status, 404);
}

TEST_F(PutOffResponse, IsItsClientsAloneAlsoWhereThoseWithoutAKeyShareSessions) {
  hosts = jobs::ShardJobs::Surroundings::Hosts::kTogether;
  if (!begin(0)) GTEST_SKIP() << "built without SQLite";
  const std::string id = ask();
  drain();
  ASSERT_TRUE(begin_anew(0));
  wire::PeerInfo other{"10.0.0.9:5000"};
  EXPECT_EQ(answered(open("GET", "/v1/responses/" + id, "", &other))->response.status, 404);
  EXPECT_EQ(answered(open("DELETE", "/v1/responses/" + id, "", &other))->response.status, 404);
  EXPECT_EQ(status(id), "queued");
}

}  // namespace
}  // namespace weir::openai
