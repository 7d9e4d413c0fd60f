// Keys from a URL whose server does what it likes.
#include "auth/jwks_source.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/fake_env.h"
#include "tokens.h"

namespace weir::auth {
namespace {

using namespace test;  // NOLINT: this test's own

// Fetches that the test answers.
struct ByHand final : wire::Fetcher {
  struct Running final : Fetch {
    explicit Running(ByHand& its) : home(its) {}
    ~Running() override { home.receiver = nullptr; }
    ByHand& home;
  };
  base::Result<std::unique_ptr<Fetch>> fetch(std::string_view uri, Receiver& by) override {
    ++asked, url = uri, receiver = &by;
    return std::unique_ptr<Fetch>(std::make_unique<Running>(*this));
  }
  void answer(base::Result<std::string> text) {
    ASSERT_TRUE(receiver);
    if (text)
      receiver->on_fetched(base::Bytes::adopt(std::move(*text)));
    else
      receiver->on_fetched(text.error());
  }
  Receiver* receiver = nullptr;
  std::string url;
  int asked = 0;
};

struct Source : testing::Test {
  static std::string document(const char* id) {
    static const SigningKey key = SigningKey::ec("P-256");
    return R"({"keys":[{)" + key.jwk() + R"(,"kid":")" + id + "\"}]}";
  }
  base::Status broken() { return base::failure(base::Code::kUnavailable, "its server cannot be reached"); }

  base::FakeEnv env;
  ByHand fetcher;
  std::vector<std::shared_ptr<const KeySet>> published;
  JwksSource source{env, fetcher, "https://issuer.example/jwks",
                    [this](std::shared_ptr<const KeySet> set) { published.push_back(std::move(set)); }};
};

TEST_F(Source, KeysAreLoadedAgainEveryTenMinutes) {
  source.start();
  EXPECT_EQ(fetcher.url, "https://issuer.example/jwks");
  fetcher.answer(document("a"));
  ASSERT_EQ(published.size(), 1u);
  EXPECT_TRUE(published[0]->knows("a"));
  env.advance(JwksSource::kInterval - std::chrono::seconds(1));
  EXPECT_EQ(fetcher.asked, 1);
  env.advance(std::chrono::seconds(1));
  EXPECT_EQ(fetcher.asked, 2);
  fetcher.answer(document("a"));
  EXPECT_EQ(published.size(), 1u) << "nothing new";
  env.advance(JwksSource::kInterval);
  fetcher.answer(document("b"));
  ASSERT_EQ(published.size(), 2u);
  EXPECT_TRUE(published[1]->knows("b"));
}

TEST_F(Source, AMissingKeyIsAskedForOnceAMinute) {
  source.start();
  source.key_is_missing();
  EXPECT_EQ(fetcher.asked, 1) << "it is under way";
  fetcher.answer(document("a"));
  for (int i = 0; i < 1000; ++i) source.key_is_missing();
  EXPECT_EQ(fetcher.asked, 1);
  env.advance(JwksSource::kLeastBetween);
  for (int i = 0; i < 1000; ++i) source.key_is_missing();
  EXPECT_EQ(fetcher.asked, 2);
  fetcher.answer(document("b"));
  EXPECT_TRUE(published.back()->knows("b"));
}

TEST_F(Source, TheLastGoodDocumentStays) {
  source.start();
  fetcher.answer(document("a"));
  for (base::Result<std::string> bad :
       {base::Result<std::string>(broken()), base::Result<std::string>(std::string()),
        base::Result<std::string>(std::string("<html>")), base::Result<std::string>(std::string(R"({"keys":[]})"))}) {
    source.reload();
    fetcher.answer(bad);
    EXPECT_EQ(published.size(), 1u);
    EXPECT_EQ(env.armed(), 1u) << "and it is tried again";
  }
  env.advance(JwksSource::kLeastBetween);
  fetcher.answer(document("b"));
  EXPECT_EQ(published.size(), 2u);
}

TEST_F(Source, UntilThereAreKeysItIsTriedSoonAndThenLessOften) {
  source.start();
  fetcher.answer(broken());
  env.advance(JwksSource::kRetryFirst);
  EXPECT_EQ(fetcher.asked, 2);
  fetcher.answer(broken());
  env.advance(JwksSource::kRetryFirst);
  EXPECT_EQ(fetcher.asked, 2);
  env.advance(JwksSource::kRetryFirst);
  EXPECT_EQ(fetcher.asked, 3);
  for (int i = 0; i < 10; ++i) {
    fetcher.answer(broken());
    env.advance(JwksSource::kLeastBetween);
  }
  EXPECT_EQ(fetcher.asked, 13);
}

TEST_F(Source, AnEndlessDocumentIsCutOff) {
  source.start();
  EXPECT_TRUE(fetcher.receiver->on_growth(KeySet::kMostBytes));
  EXPECT_FALSE(fetcher.receiver->on_growth(KeySet::kMostBytes + 1));
}

}  // namespace
}  // namespace weir::auth
