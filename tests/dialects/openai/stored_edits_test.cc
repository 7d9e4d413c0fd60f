// Changes of what is stored, where others make some at the same time.
#include "dialects/openai/responses/edits.h"
#include "marshal/tenant.h"
#include "responses_bench.h"

namespace weir::openai {
namespace {

using responses::StoredKind;
using responses::StoredResponse;

class StoredEdits : public Responses {
 protected:
  StoredEdits() {
    StoredResponse chat;
    chat.kind = StoredKind::kChat;
    chat.response = text(0);
    EXPECT_TRUE(stored.put(tenant, "id", chat, env.now()));
  }
  ~StoredEdits() override { x.reset(); }
  static base::Bytes text(int number) { return base::Bytes::adopt(std::to_string(number)); }
  // Somebody else changes it within each of the first `beaten` tries.
  void edit(int beaten) {
    const auto change = [this, beaten](StoredResponse& next) {
      const auto seen = *stored.find(tenant, "id", env.now(), StoredKind::kChat);
      StoredResponse theirs = seen;
      theirs.response = text(++tries);
      next.response = base::Bytes::adopt(std::string(next.response.view()) + '!');
      if (tries <= beaten) stored.replace(tenant, "id", seen, theirs, env.now());
      return ApiError{};
    };
    edit_stored(state, *x, "id", StoredKind::kChat, change,
                [this](ApiError bad) { outcomes.push_back(bad.status.code); });
  }
  std::string now() { return std::string(stored.find(tenant, "id", env.now(), StoredKind::kChat)->response.view()); }

  Opened x = open("GET", "/v1/models");
  const uint64_t tenant = marshal::tenant_of(x->request());
  OpenAiState state{bus, load, options};
  int tries = 0;
  std::vector<base::Code> outcomes;
};

TEST_F(StoredEdits, EachTryIsATurnOfItsOwn) {
  edit(3);
  EXPECT_EQ(tries, 1) << "the shard is free between two tries";
  EXPECT_TRUE(outcomes.empty());
  env.advance(base::Duration(0));
  EXPECT_EQ(tries, 4);
  EXPECT_EQ(outcomes, std::vector{base::Code::kOk});
  EXPECT_EQ(now(), "3!");
}

TEST_F(StoredEdits, OneThatIsAlwaysBeatenEnds) {
  edit(100);
  env.advance(base::Duration(0));
  EXPECT_EQ(tries, responses::kMostTries);
  EXPECT_EQ(outcomes, std::vector{base::Code::kAborted});
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(StoredEdits, WhoLeavesChangesNothing) {
  edit(1);
  x.reset();
  env.advance(base::Duration(0));
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(outcomes.empty());
  EXPECT_EQ(now(), "1");
}

}  // namespace
}  // namespace weir::openai
