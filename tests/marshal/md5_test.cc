#include "marshal/md5.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weir::marshal {
namespace {

std::string md5(std::string_view text, size_t piece) {
  Md5 sum;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) sum.add(text.substr(0, piece));
  EXPECT_EQ(sum.hex(), sum.hex()) << "asking changes nothing";
  return sum.hex();
}

TEST(Md5, IsThatOfTheSpecificationInAnyPieces) {
  const std::string digits = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
  for (size_t piece : {1u, 3u, 55u, 63u, 64u, 65u, 1000u}) {
    EXPECT_EQ(md5("", piece), "d41d8cd98f00b204e9800998ecf8427e");
    EXPECT_EQ(md5("a", piece), "0cc175b9c0f1b6a831c399e269772661");
    EXPECT_EQ(md5("message digest", piece), "f96b697d7cb7938d525a2f31aaf161d0");
    EXPECT_EQ(md5(digits, piece), "57edf4a22be3c955ac49da2e2107b67a");
  }
}

TEST(Md5, ACopyGoesOnByItself) {
  Md5 one;
  one.add("a");
  Md5 two = one;
  two.add("bc");
  EXPECT_EQ(one.hex(), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(two.hex(), "900150983cd24fb0d6963f7d28e17f72");
}

}  // namespace
}  // namespace weir::marshal
