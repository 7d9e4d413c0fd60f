#include "text/token_filter.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::text {
namespace {

constexpr uint32_t kVocabulary = 40;

// Allows what it is told to, and is complete behind `last`.
struct Form final : msg::TokenConstraint {
  std::vector<uint32_t> bits;
  uint32_t last = kVocabulary, came = kVocabulary;

  explicit Form(std::vector<uint32_t> ids) : bits(token_mask(ids, kVocabulary)) {}
  void prepare() override {}
  std::span<const uint32_t> mask() override { return bits; }
  bool accept(uint32_t id) override { return came = id, msg::allows(bits, id); }
  bool complete() const override { return came == last; }
};

std::unique_ptr<msg::TokenConstraint> start(const std::vector<uint32_t>& allowed,
                                            std::vector<std::vector<uint32_t>> banned,
                                            std::unique_ptr<msg::TokenConstraint> form = nullptr) {
  auto filter = std::make_shared<TokenFilter>();
  filter->allowed = token_mask(allowed, kVocabulary);
  filter->banned = std::move(banned);
  return start_filter(std::move(filter), std::move(form));
}
std::set<uint32_t> missing(msg::TokenConstraint& constraint) {
  std::set<uint32_t> out;
  for (uint32_t id = 0; id < kVocabulary; ++id)
    if (!msg::allows(constraint.mask(), id)) out.insert(id);
  return out;
}

TEST(TokenFilter, OnlyTheAllowedTokensCome) {
  auto both = start({3, 33}, {});
  EXPECT_EQ(missing(*both).size(), kVocabulary - 2);
  EXPECT_TRUE(both->accept(33));
  EXPECT_FALSE(both->accept(32));
  EXPECT_FALSE(both->complete());
  EXPECT_EQ(both->form(), nullptr);
}

TEST(TokenFilter, AWordIsKeptOutAtItsLastToken) {
  auto words = start({}, {{7}, {1, 2, 3}, {2, 9}});
  EXPECT_EQ(missing(*words), std::set<uint32_t>({7}));
  EXPECT_TRUE(words->accept(1));
  EXPECT_EQ(missing(*words), std::set<uint32_t>({7}));
  EXPECT_TRUE(words->accept(2));
  EXPECT_EQ(missing(*words), std::set<uint32_t>({3, 7, 9}));
  EXPECT_TRUE(words->accept(5));
  EXPECT_EQ(missing(*words), std::set<uint32_t>({7}));
  for (uint32_t id : {1, 1, 2}) EXPECT_TRUE(words->accept(id));
  EXPECT_FALSE(words->accept(3));
}

TEST(TokenFilter, AFormBesideItHoldsAsWell) {
  auto form = std::make_unique<Form>(std::vector<uint32_t>{4, 5, 6});
  form->last = 6;
  auto both = start({5, 6, 7}, {{5, 5}}, std::move(form));
  EXPECT_TRUE(msg::allows(both->mask(), 5) && msg::allows(both->mask(), 6));
  EXPECT_FALSE(msg::allows(both->mask(), 4) || msg::allows(both->mask(), 7));
  EXPECT_TRUE(both->accept(5));
  EXPECT_FALSE(msg::allows(both->mask(), 5));
  EXPECT_TRUE(both->accept(6));
  EXPECT_TRUE(both->complete());
}

TEST(TokenFilter, WhereTheFormHasNoMaskThereIsNone) {
  auto form = std::make_unique<Form>(std::vector<uint32_t>{4});
  form->bits.clear();
  EXPECT_TRUE(start({4}, {}, std::move(form))->mask().empty());
}

}  // namespace
}  // namespace weir::text
