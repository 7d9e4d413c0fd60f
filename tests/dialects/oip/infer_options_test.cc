// Classifications, what they say and what bounds them, and parameters that are reserved.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "dialects/oip/long_work.h"
#include "requests.h"

namespace weir::oip {
namespace {

using base::Code;

msg::Tensor floats_of(const std::vector<float>& values, msg::Shape shape) {
  std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  return {"p", msg::DType::kFp32, shape, base::Bytes::copy_of(bytes)};
}
std::vector<std::string> lines(const msg::Tensor& tensor) {
  std::vector<std::string> out;
  EXPECT_TRUE(msg::for_each_string(tensor.data.view(), [&](std::string_view line) { out.emplace_back(line); }));
  return out;
}

// The whole row sorted, and printf's digits.
std::vector<std::string> sorted_lines(const std::vector<float>& row, size_t k) {
  std::vector<size_t> order(row.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (std::isnan(row[a]) || std::isnan(row[b])) return !std::isnan(row[a]) && std::isnan(row[b]);
    return row[a] > row[b];
  });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(k, row.size()); ++i) {
    char text[400];
    std::snprintf(text, sizeof text, "%f:%zu", double(row[order[i]]), order[i]);
    out.emplace_back(text);
  }
  return out;
}

TEST(OipClassify, SelectsWhatSortingTheWholeRowWould) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> row(1 + random() % 200);
    for (float& f : row) f = float(int(random() % 40) - 20) / 4;
    if (round % 3 == 0) row[random() % row.size()] = std::nanf("");
    if (round % 5 == 0) row[random() % row.size()] = -INFINITY;
    if (round % 7 == 0) row[random() % row.size()] = 3.4e38f;
    const uint32_t k = 1 + uint32_t(random() % 50);
    msg::Tensor tensor = floats_of(row, {int64_t(row.size())});
    ASSERT_TRUE(classify(tensor, k, {}, Rows::kOne).ok());
    ASSERT_EQ(lines(tensor), sorted_lines(row, k)) << round;
    ASSERT_EQ(tensor.shape[0], int64_t(std::min<size_t>(k, row.size())));
  }
}

template <class Cell>
std::vector<std::string> best_two(msg::DType dtype, const std::vector<Cell>& row) {
  std::string_view bytes(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(Cell));
  msg::Tensor tensor{"p", dtype, {int64_t(row.size())}, base::Bytes::copy_of(bytes)};
  EXPECT_TRUE(classify(tensor, 2, {"a", "b"}, Rows::kOne).ok());
  return lines(tensor);
}

TEST(OipClassify, WholeNumbersHaveNoDecimalsAndAreRankedExactly) {
  using Lines = std::vector<std::string>;
  constexpr int64_t k62 = int64_t(1) << 62;
  EXPECT_EQ(best_two<uint32_t>(msg::DType::kUint32, {1, 5, 10, 4}), (Lines{"10:2", "5:1:b"}));
  EXPECT_EQ(best_two<int8_t>(msg::DType::kInt8, {-128, -1, -2}), (Lines{"-1:1:b", "-2:2"}));
  EXPECT_EQ(best_two<int64_t>(msg::DType::kInt64, {k62, k62 + 1, -k62}),
            (Lines{"4611686018427387905:1:b", "4611686018427387904:0:a"}));
  EXPECT_EQ(best_two<uint64_t>(msg::DType::kUint64, {UINT64_MAX - 1, UINT64_MAX, 0}),
            (Lines{"18446744073709551615:1:b", "18446744073709551614:0:a"}));
  EXPECT_EQ(best_two<double>(msg::DType::kFp64, {1, 10}), (Lines{"10.000000:1:b", "1.000000:0:a"}));
}

TEST(OipClassify, ARowHasNoMoreThanItsClasses) {
  OipBench bench;
  auto ask = [&](std::string k) {
    return bench.rest("POST", "/v2/models/any/infer",
                      R"({"inputs":[],"outputs":[{"name":"p","parameters":{"classification":)" + k + "}}]}");
  };
  bench.inbox("any").script = {outputs("p FP32 [3] [1,3,2]")};
  for (const char* k : {"3", "1001", "4294967296", "18446744073709551615"})
    EXPECT_NE(ask(k).body.find(R"("data":["3.000000:1","2.000000:2","1.000000:0"])"), std::string::npos) << k;
  auto refused = ask("-1");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("a whole number, 0 or more"), std::string::npos) << refused.body;
}

TEST(OipClassify, TheLinesOfAllRowsHaveABound) {
  auto rows = [](size_t n) {
    msg::Tensor tensor{"p", msg::DType::kUint8, {int64_t(n), 1}, base::Bytes::adopt(std::string(n, '\1'))};
    return classify(tensor, 1, {}, Rows::kBatch);
  };
  EXPECT_TRUE(rows(kMaxClassLines).ok());
  auto status = rows(kMaxClassLines + 1);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_NE(status.text.find("100000 lines"), std::string::npos) << status.text;
}

TEST(OipParameters, ParametersThatTritonKeepsForItselfAreRefused) {
  OipBench bench;
  auto ask = [&](const std::string& parameters) {
    return bench.rest("POST", "/v2/models/any/infer", R"({"parameters":{)" + parameters + R"(},"inputs":[]})");
  };
  for (const char* one : {R"("triton_":1)", R"("triton_final_response":true)", R"("triton_anything":"x")",
                          R"("triton_enable_empty_final_response":"dummy-value")"}) {
    auto refused = ask(one);
    EXPECT_EQ(refused.status, 400) << one;
    EXPECT_NE(refused.body.find("reserved for Triton usage"), std::string::npos) << refused.body;
  }
  bench.inbox("any").script = {outputs("p FP32 [1] [1]")};
  for (const char* one : {R"("triton_enable_empty_final_response":true)", R"("tritonic":1)", R"("my_triton_":1)"})
    EXPECT_EQ(ask(one).status, 200) << one;
}

}  // namespace
}  // namespace weir::oip
