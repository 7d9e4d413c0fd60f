#include "engines/process/document.h"

#include <gtest/gtest.h>

namespace weir::process {
namespace {

TEST(Document, WhatIsWrittenIsRead) {
  Writer out;
  msg::TensorSpec spec;
  spec.name = "x", spec.dtype = msg::DType::kBytes, spec.shape = {-1, 3}, spec.optional = true;
  out.put_specs({spec});
  out.put_parameters(
      {{"a", true}, {"b", int64_t(-1)}, {"c", uint64_t(1) << 63}, {"d", 0.5}, {"e", std::string("text")}});
  put_tensor(out, {"y", msg::DType::kFp16, {2, 2}, 64, 8});
  DocumentReader in(out.text());
  auto specs = in.get_specs();
  ASSERT_EQ(1u, specs.size());
  EXPECT_EQ("x[-1,3]", specs[0].name + specs[0].shape.text());
  EXPECT_TRUE(specs[0].optional);
  auto parameters = in.get_parameters();
  ASSERT_EQ(5u, parameters.size());
  EXPECT_EQ(uint64_t(1) << 63, std::get<uint64_t>(parameters[2].second));
  EXPECT_EQ("text", std::get<std::string>(parameters[4].second));
  auto tensor = get_tensor(in);
  EXPECT_EQ("y[2,2]", tensor.name + tensor.shape.text());
  EXPECT_EQ(72u, tensor.offset + tensor.size);
  EXPECT_TRUE(in.at_end());
}

// Every beginning of a document, and every byte of it changed, is read without harm.
TEST(Document, WhatIsNotThereIsNotRead) {
  Writer out;
  out.put_parameters({{"key", std::string("value")}});
  put_tensor(out, {"y", msg::DType::kFp16, {2, 2}, 64, 8});
  auto read = [](std::string_view text) {
    DocumentReader in(text);
    (void)in.get_parameters();
    (void)get_tensor(in);
    return in.at_end();
  };
  EXPECT_TRUE(read(out.text()));
  for (size_t n = 0; n < out.text().size(); ++n) {
    EXPECT_FALSE(read(std::string_view(out.text()).substr(0, n)));
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = out.text();
      changed[n] = char(changed[n] ^ (1 << bit));
      (void)read(changed);
    }
  }
  EXPECT_FALSE(DocumentReader(std::string_view("\xff\xff\xff\xff", 4)).count(1) > 0);
}

}  // namespace
}  // namespace weir::process
