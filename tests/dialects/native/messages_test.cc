// Sequences as other servers send them.
#include "dialects/native/messages.h"

#include <gtest/gtest.h>

#include "forward.pb.h"
#include "marshal/structured_params.h"

namespace weir::native {
namespace {

namespace fpb = ::weir::forward::v1;

fpb::Sequence with_choices(size_t count, size_t bytes) {
  fpb::Sequence out;
  out.set_model("chat");
  out.add_tokens(5), out.add_tokens(6);
  out.mutable_form()->set_kind(fpb::Form::CHOICE);
  for (size_t i = 0; i < count; ++i) out.mutable_form()->add_choices(std::string(bytes, 'x'));
  return out;
}

TEST(NativeForm, ItsChoicesHaveABoundTogether) {
  auto whole = read_sequence(with_choices(128, 2048).SerializeAsString());
  ASSERT_TRUE(whole) << whole.error().text;
  EXPECT_EQ(whole->params.structured->choices.size(), 128u);
  auto more = read_sequence(with_choices(129, 2048).SerializeAsString());
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().text, "form: all choices together must have at most 262144 bytes");
}

TEST(NativeForm, WeighsWhatWaitsWithIt) {
  fpb::Sequence sent = with_choices(10, 100);
  auto choices = read_sequence(sent.SerializeAsString());
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->weight_of_form(), 1000u + 2 * sizeof(uint32_t));
  sent.mutable_form()->set_text("[ab]*");
  sent.mutable_form()->set_begun(2);
  auto begun = read_sequence(sent.SerializeAsString());
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->weight_of_form(), 1000u + 5 + 2 * sizeof(uint32_t) + 2 * 16);
}

}  // namespace
}  // namespace weir::native
