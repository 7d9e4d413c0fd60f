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

base::Result<SequenceRequest> read(const fpb::Sequence& sequence) {
  return read_sequence(base::Bytes::adopt(sequence.SerializeAsString()));
}

TEST(NativeForm, ItsChoicesHaveABoundTogether) {
  auto whole = read(with_choices(128, 2048));
  ASSERT_TRUE(whole) << whole.error().text;
  EXPECT_EQ(whole->params.structured->choices.size(), 128u);
  auto more = read(with_choices(129, 2048));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().text, "form: all choices together must have at most 262144 bytes");
}

TEST(NativeForm, WeighsWhatWaitsWithIt) {
  fpb::Sequence sent = with_choices(10, 100);
  auto choices = read(sent);
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->weight_of_form(), 1000u + 2 * sizeof(uint32_t));
  sent.mutable_form()->set_text("[ab]*");
  sent.mutable_form()->set_begun(2);
  auto begun = read(sent);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->weight_of_form(), 1000u + 5 + 2 * sizeof(uint32_t) + 2 * 16);
}

msg::TextSpec seeing() {
  msg::TextSpec out;
  out.max_length = 64, out.vocabulary = 300;
  out.vision = msg::TextSpec::Vision{1, 2, 3, [](std::string_view data, std::string_view) -> base::Result<uint32_t> {
                                       if (data.empty()) return base::invalid("the image is damaged");
                                       return 2;
                                     }};
  return out;
}

fpb::Sequence with_image(std::vector<uint32_t> tokens, uint32_t start, uint32_t end, std::string data = "picture") {
  fpb::Sequence out;
  for (uint32_t id : tokens) out.add_tokens(id);
  auto& image = *out.add_images();
  image.set_data(data), image.set_mime("image/png"), image.set_start(start), image.set_end(end);
  return out;
}

std::string refusal(const fpb::Sequence& sequence, const msg::TextSpec& spec) {
  auto request = read(sequence);
  return request ? apply(*request, spec).text : request.error().text;
}

TEST(NativeImages, StandWhereTheTokensHaveAPlaceForThem) {
  const msg::TextSpec spec = seeing();
  auto good = read(with_image({9, 1, 2, 2, 3, 9}, 1, 5));
  ASSERT_TRUE(good) << good.error().text;
  EXPECT_EQ(good->generation.images.at(0).data.view(), "picture");
  EXPECT_TRUE(apply(*good, spec).ok());
  EXPECT_EQ(refusal(with_image({9, 1, 2, 2, 3, 9}, 0, 4), spec),
            "images[0]: the tokens at its positions do not stand for an image");
  EXPECT_EQ(refusal(with_image({9, 1, 2, 3}, 1, 5), spec), "images[0] has no place in the sequence");
  EXPECT_EQ(refusal(with_image({1, 3}, 0, 2), spec), "images[0] has no place in the sequence");
  EXPECT_EQ(refusal(with_image({1, 2, 3}, 0, 3), spec), "images[0] has 1 pads, and the model makes 2 features of it");
  EXPECT_EQ(refusal(with_image({1, 2, 2, 3}, 0, 4, ""), spec), "images[0]: the image is damaged");
  EXPECT_EQ(refusal(with_image({1, 2, 2, 3}, 4, 0), spec), "images: an image must have start <= end");
  auto twice = with_image({1, 2, 2, 3}, 0, 4);
  *twice.add_images() = twice.images(0);
  EXPECT_EQ(refusal(twice, spec), "images[1] has no place in the sequence");
  EXPECT_EQ(refusal(with_image({1, 2, 2, 3}, 0, 4), msg::TextSpec()), "images: this model takes none");
}

TEST(NativeImages, HaveABoundTogether) {
  fpb::Sequence sent = with_image({1, 2, 2, 3}, 0, 4, std::string(size_t(32) << 20, 'x'));
  EXPECT_TRUE(read(sent));
  sent.mutable_images(0)->mutable_data()->append(64 << 10, 'x');
  EXPECT_FALSE(read(sent));
  sent.mutable_images(0)->set_data("x");
  sent.mutable_form()->set_text(std::string(kLargestSequence, 'x'));
  EXPECT_FALSE(read(sent)) << "the rest has a bound of its own";
  sent.clear_form();
  for (size_t i = 0; i < kMostImages; ++i) sent.add_images();
  EXPECT_FALSE(read(sent));
}

TEST(NativeImages, TakeAKnownNumberOfPadsWhereThatIsTheSameForAll) {
  msg::TextSpec::Vision vision = *seeing().vision;
  EXPECT_EQ(pads_of_any(vision), 2u);
  vision.features = [](std::string_view data, std::string_view) -> base::Result<uint32_t> {
    return uint32_t(uint8_t(data[19]));  // the width
  };
  EXPECT_EQ(pads_of_any(vision), 0u);
}

}  // namespace
}  // namespace weir::native
