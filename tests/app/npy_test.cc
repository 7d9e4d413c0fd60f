#include "app/npy.h"

#include <gtest/gtest.h>

namespace weir::app {
namespace {

// As numpy.save() writes version 1: the header is padded with spaces to a multiple of 64.
std::string npy(std::string dict, std::string data) {
  dict.resize((dict.size() + 10 + 63) / 64 * 64 - 10 - 1, ' ');
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += char(dict.size() & 255);
  out += char(dict.size() >> 8);
  return out + dict + data;
}

TEST(Npy, TypeShapeAndDataAreRead) {
  auto array = parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", std::string(24, 'x')));
  ASSERT_TRUE(array) << array.error().text;
  EXPECT_EQ(array->dtype, msg::DType::kFp32);
  EXPECT_EQ(array->shape, (msg::Shape{2, 3}));
  EXPECT_EQ(array->data.size(), 24u);
}

TEST(Npy, ScalarsAndVectors) {
  EXPECT_EQ(parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "x"))->shape.rank(), 0u);
  EXPECT_EQ(parse_npy(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", "12345678"))->shape,
            (msg::Shape{1}));
}

TEST(Npy, WhatWeCannotSendIsAnError) {
  std::string four(4, 'x');
  EXPECT_FALSE(parse_npy(""));
  EXPECT_FALSE(parse_npy("\x93NUMPY"));
  EXPECT_FALSE(parse_npy(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", four)));
  EXPECT_FALSE(parse_npy(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", four)));
  EXPECT_FALSE(parse_npy(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", four)));
  EXPECT_FALSE(parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", four)));
  EXPECT_FALSE(parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "")));
  EXPECT_FALSE(parse_npy(npy("{'shape': (1, }", four)));
  auto ranked = [](int rank) {
    std::string shape;
    for (int i = 0; i < rank; ++i) shape += "1, ";
    return parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }", "1234"));
  };
  EXPECT_TRUE(ranked(16));
  EXPECT_FALSE(ranked(17));
  EXPECT_FALSE(ranked(1000));
  auto whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", four);
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(parse_npy(whole.substr(0, n))) << n;
}

}  // namespace
}  // namespace weir::app
