// Steps of real models through ONNX Runtime: types, shapes, strings, errors, lifetimes.
#include <gmock/gmock.h>

#include <thread>

#include "engines/onnx/library.h"
#include "engines/onnx/signature.h"
#include "engines/onnx/tensors.h"
#include "support.h"

namespace weir::onnx {
namespace {

using base::Code;
using msg::DType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class OnnxStep : public WithRuntime {};

TEST_F(OnnxStep, EveryTypeComesBackAsItWent) {
  for (int t = int(DType::kBool); t <= int(DType::kBf16); ++t) {
    auto dtype = DType(t);
    std::string lower(name(dtype));
    for (char& c : lower) c = char(std::tolower(c));
    auto engine = load("identity_" + lower);
    ASSERT_TRUE(engine);
    EXPECT_EQ(engine->spec().inputs[0].dtype, dtype);
    EXPECT_EQ(engine->spec().max_batch, kDefaultMaxBatch);
    EXPECT_EQ(engine->spec().inputs[0].shape, (msg::Shape{4}));
    msg::Tensor x{"x", dtype, {2, 4}, {}};
    if (dtype == DType::kBytes) {
      x = strings("x", {2, 4},
                  {"", "a", std::string("nul\0inside", 10), "\xff\xfe", "\n", "x", std::string(5000, 'z'), ""});
    } else {
      std::string raw;
      for (size_t i = 0; i < 8 * size_of(dtype); ++i) raw += dtype == DType::kBool ? char(i & 1) : char(i * 37 + 1);
      x.data = base::Bytes::copy_of(raw);
    }
    auto b = batch(2, {x});
    ASSERT_EQ(engine->step(b), base::Status()) << lower;
    ASSERT_EQ(b.outputs.size(), 1u);
    EXPECT_EQ(b.outputs[0].name, "y");
    EXPECT_EQ(b.outputs[0].dtype, dtype);
    EXPECT_EQ(b.outputs[0].shape, (msg::Shape{2, 4}));
    EXPECT_EQ(b.outputs[0].data.view(), x.data.view()) << lower;
  }
}

TEST_F(OnnxStep, BatchSizesMayDifferFromStepToStep) {
  auto engine = load("two");
  for (uint32_t rows : {1u, 8u, 3u, 1u}) {
    std::vector<float> a(rows * 3), b(rows * 3);
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(i), b[i] = float(i) + 1;
    auto step = batch(rows, {floats("a", {rows, 3}, a), floats("b", {rows, 3}, b)});
    ASSERT_EQ(engine->step(step), base::Status());
    auto sum = values(step.outputs[0]), product = values(step.outputs[1]);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(sum[i], a[i] + b[i]);
      EXPECT_EQ(product[i], a[i] * b[i]);
    }
  }
}

TEST_F(OnnxStep, OutputsOfKnownSizeShareOneSlab) {
  auto engine = load("two");
  auto step = batch(1, {floats("a", {1, 3}, {1, 2, 3}), floats("b", {1, 3}, {1, 1, 1})});
  ASSERT_EQ(engine->step(step), base::Status());
  EXPECT_EQ(step.outputs[0].data.slab(), step.outputs[1].data.slab());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(step.outputs[1].data.data()) % 64, 0u);
}

struct NoSlabs final : base::SlabSource {
  base::Slab* take(size_t) override { return nullptr; }
};

TEST_F(OnnxStep, AnExhaustedPoolFailsNoStep) {
  NoSlabs none;
  auto two = runtime_.load({}, data_file("two.onnx"), none);
  auto step = batch(1, {floats("a", {1, 3}, {1, 2, 3}), floats("b", {1, 3}, {4, 5, 6})});
  ASSERT_EQ((*two)->step(step), base::Status());
  EXPECT_THAT(values(step.outputs[0]), ElementsAre(5, 7, 9));
  auto text = runtime_.load({}, data_file("identity_bytes.onnx"), none);
  auto words = batch(1, {strings("x", {1, 4}, {"a", "b", "", "d"})});
  ASSERT_EQ((*text)->step(words), base::Status());
  EXPECT_THAT(texts(words.outputs[0]), ElementsAre("a", "b", "", "d"));
}

TEST_F(OnnxStep, OnlyWantedOutputsAreMadeAndKeepTheirPlaces) {
  auto engine = load("two");
  auto step = batch(1, {floats("a", {1, 3}, {1, 2, 3}), floats("b", {1, 3}, {4, 5, 6})});
  step.wanted = {false, true};
  ASSERT_EQ(engine->step(step), base::Status());
  ASSERT_EQ(step.outputs.size(), 2u);
  EXPECT_EQ(step.outputs[0].dtype, DType::kInvalid);
  EXPECT_THAT(values(step.outputs[1]), ElementsAre(4, 10, 18));
}

TEST_F(OnnxStep, ScalarsHaveNoDimensions) {
  auto engine = load("scalar");
  EXPECT_EQ(engine->spec().max_batch, 0u);
  EXPECT_EQ(engine->spec().inputs[0].shape.rank(), 0u);
  auto step = batch(1, {floats("x", {}, {2.5f})});
  ASSERT_EQ(engine->step(step), base::Status());
  EXPECT_EQ(step.outputs[0].shape.rank(), 0u);
  EXPECT_THAT(values(step.outputs[0]), ElementsAre(-2.5f));
}

TEST_F(OnnxStep, FreeDimensionsTakeTheInputsSizes) {
  auto engine = load("dynamic");
  EXPECT_EQ(engine->spec().max_batch, 0u) << "first dimensions of two names are no batch";
  auto step = batch(1, {floats("x", {2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(engine->step(step), base::Status());
  EXPECT_EQ(step.outputs[0].shape, (msg::Shape{3, 2}));
  EXPECT_THAT(values(step.outputs[0]), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(OnnxStep, EmptyTensorsPassThrough) {
  auto engine = load("dynamic");
  auto step = batch(1, {floats("x", {0, 3}, {})});
  ASSERT_EQ(engine->step(step), base::Status());
  EXPECT_EQ(step.outputs[0].shape, (msg::Shape{3, 0}));
  EXPECT_TRUE(step.outputs[0].data.empty());
  msg::ModelSpec whole;
  whole.parameters["max_batch"] = "0";
  auto text = load("identity_bytes", whole);
  auto words = batch(1, {strings("x", {0, 4}, {})});
  ASSERT_EQ(text->step(words), base::Status());
  EXPECT_EQ(words.outputs[0].shape, (msg::Shape{0, 4}));
}

TEST_F(OnnxStep, OutputsOfUnknownRankSayTheirShape) {
  auto engine = load("unranked_output");
  auto step = batch(1, {floats("x", {3, 2}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(engine->step(step), base::Status());
  EXPECT_EQ(step.outputs[0].shape, (msg::Shape{3, 2}));
}

TEST_F(OnnxStep, MisalignedInputsAreReadRight) {
  auto engine = load("two");
  std::string raw(1 + 12, '\0');
  float numbers[] = {1, 2, 3};
  std::memcpy(raw.data() + 1, numbers, 12);
  msg::Tensor a{"a", DType::kFp32, {1, 3}, base::Bytes::copy_of(raw).slice(1, 12)};
  ASSERT_NE(reinterpret_cast<uintptr_t>(a.data.data()) % 4, 0u);
  auto step = batch(1, {a, floats("b", {1, 3}, {1, 1, 1})});
  ASSERT_EQ(engine->step(step), base::Status());
  EXPECT_THAT(values(step.outputs[0]), ElementsAre(2, 3, 4));
}

TEST_F(OnnxStep, AlignedInputsAreBoundWithoutACopy) {
  auto library = open_library(library_places(""));
  ASSERT_TRUE(library.has_value());
  auto x = floats("x", {2}, {1, 2});
  base::Bytes copy;
  auto value = to_ort(**library, x, copy);
  ASSERT_TRUE(value.has_value());
  void* data = nullptr;
  ASSERT_EQ((*library)->api.tensor_data(value->get(), &data), nullptr);
  EXPECT_EQ(data, x.data.data());
  EXPECT_TRUE(copy.empty());
}

TEST_F(OnnxStep, AnOptionalInputMayStayAway) {
  msg::ModelSpec wanted;
  wanted.max_batch = 0;
  wanted.inputs = {{.name = "x", .shape = {-1, 2}, .labels = {}}, {.name = "bias", .optional = true, .labels = {}}};
  auto engine = load("optional", wanted);
  ASSERT_TRUE(engine);
  auto without = batch(1, {floats("x", {1, 2}, {1, 2}), msg::Tensor{"bias", DType::kInvalid, {}, {}}});
  ASSERT_EQ(engine->step(without), base::Status());
  EXPECT_THAT(values(without.outputs[0]), ElementsAre(11, 22));
  auto with = batch(1, {floats("x", {1, 2}, {1, 2}), floats("bias", {2}, {5, 6})});
  ASSERT_EQ(engine->step(with), base::Status());
  EXPECT_THAT(values(with.outputs[0]), ElementsAre(6, 8));
}

TEST_F(OnnxStep, WrongTypesShapesAndSizesAreInvalidArguments) {
  auto engine = load("two");
  auto good = floats("b", {1, 3}, {1, 2, 3});
  auto fails = [&](msg::Tensor a, const char* text) {
    auto step = batch(1, {std::move(a), good});
    auto status = engine->step(step);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << status.text;
    EXPECT_THAT(status.text, HasSubstr(text));
    EXPECT_TRUE(step.outputs.empty());
  };
  fails(tensor<int32_t>("a", DType::kInt32, {1, 3}, {1, 2, 3}), "input 'a' is INT32; the model takes FP32");
  fails(floats("a", {1, 4}, {1, 2, 3, 4}), "invalid dimensions");
  fails(floats("a", {1, 1, 3}, {1, 2, 3}), "Invalid rank");
  fails(floats("a", {1, 3}, {1, 2}), "has 8 bytes; FP32[1,3]");
  fails(floats("a", {1, -3}, {1, 2, 3}), "impossible shape");
  fails(floats("a", {int64_t(1) << 62, 3}, {1, 2, 3}), "impossible shape");
  fails(floats("a", {int64_t(1) << 61, 1}, {1, 2, 3}), "is of another size");
  auto after = batch(1, {good, good});
  EXPECT_EQ(engine->step(after), base::Status()) << "a refused step leaves nothing behind";
}

TEST_F(OnnxStep, DamagedStringsAndBoolsAreInvalidArguments) {
  auto text = load("identity_bytes");
  for (auto [bytes, says] : {std::pair(std::string("\xff\xff\xff\xff", 4), "lengths"), {"abc", "lengths"}}) {
    auto step = batch(1, {msg::Tensor{"x", DType::kBytes, {1, 4}, base::Bytes::copy_of(bytes)}});
    auto status = text->step(step);
    EXPECT_EQ(status.code, Code::kInvalidArgument);
    EXPECT_THAT(status.text, HasSubstr(says));
  }
  auto few = batch(1, {strings("x", {1, 4}, {"one", "two"})});
  EXPECT_THAT(text->step(few).text, HasSubstr("has 2 BYTES elements; its shape [1,4] is of 4"));
  auto many = batch(1, {strings("x", {int64_t(1) << 40, 4}, {"one"})});
  EXPECT_EQ(text->step(many).code, Code::kInvalidArgument) << "nothing is allocated for a shape alone";
  auto engine = load("identity_bool");
  auto step = batch(1, {tensor<uint8_t>("x", DType::kBool, {1, 4}, {0, 1, 2, 0})});
  EXPECT_THAT(engine->step(step).text, HasSubstr("neither 0 nor 1"));
}

TEST_F(OnnxStep, AKernelsRefusalIsAStatusWithItsText) {
  auto engine = load("gather");
  auto step = batch(2, {tensor<int64_t>("x", DType::kInt64, {2}, {1, 99})});
  auto status = engine->step(step);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.text, HasSubstr("idx=99"));
  auto good = batch(2, {tensor<int64_t>("x", DType::kInt64, {2}, {1, 3})});
  ASSERT_EQ(engine->step(good), base::Status());
  EXPECT_THAT(values(good.outputs[0]), ElementsAre(2, 3, 6, 7));
}

TEST_F(OnnxStep, NodeNamesStayInErrorTextsAndSourcePathsDoNot) {
  msg::ModelSpec whole;
  whole.parameters["max_batch"] = "0";
  auto engine = load("node_named_like_a_path", whole);
  auto step = batch(1, {floats("x", {4}, {1, 2, 3, 4}), tensor<int64_t>("s", DType::kInt64, {2}, {3, 3})});
  auto status = engine->step(step);
  EXPECT_THAT(status.text, HasSubstr("/layers.0/out"));
  EXPECT_THAT(status.text, Not(HasSubstr(".cc:"))) << status.text;
}

TEST_F(OnnxStep, AModelThatMixesRowsIsFoundOut) {
  for (std::string name : {"mixes_rows", "mixes_rows_free"}) {
    auto engine = load(name);
    ASSERT_GT(engine->spec().max_batch, 0u);
    auto good = batch(2, {floats("x", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})});
    EXPECT_EQ(engine->step(good), base::Status());
    auto bad = batch(2, {floats("x", {2, 4}, {1, 2, 3, 4, 0, 0, 0, 0})});
    auto status = engine->step(bad);
    EXPECT_EQ(status.code, Code::kInternal) << name;
    EXPECT_THAT(status.text, HasSubstr("came with shape [1,4] for a batch of 2 rows"));
    EXPECT_EQ(engine->step(good), base::Status()) << "outputs that the library allocates serve as well";
  }
}

TEST_F(OnnxStep, ACallAloneMayBringAndGetAnyFirstDimension) {
  auto engine = load("mixes_rows");
  auto step = batch(1, {floats("x", {3, 4}, {1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8})});
  ASSERT_EQ(engine->step(step), base::Status()) << "served whole, because the configuration says max_batch: 0";
  EXPECT_EQ(step.outputs[0].shape, (msg::Shape{2, 4}));
  EXPECT_THAT(values(step.outputs[0]), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(OnnxStep, OutputsOutliveTheirEngineAndItsRuntime) {
  std::vector<msg::Tensor> kept;
  {
    Runtime runtime{Options{}};
    for (std::string file : {"dynamic", "two"}) {
      auto engine = runtime.load({}, data_file(file + ".onnx"), base::heap());
      auto x = floats("x", {1, 3}, {1, 2, 3});
      auto step = file == "two" ? batch(1, {x, x}) : batch(1, {x});
      ASSERT_EQ((*engine)->step(step), base::Status());
      kept.push_back(step.outputs[0]);
    }
  }
  EXPECT_THAT(values(kept[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(values(kept[1]), ElementsAre(2, 4, 6));
  std::thread([&] { kept.clear(); }).join();
}

TEST_F(OnnxStep, InstancesShareOneSessionAndRunSideBySide) {
  std::vector<std::unique_ptr<sched::Engine>> engines;
  for (int i = 0; i < 3; ++i) engines.push_back(load("two"));
  EXPECT_EQ(runtime_.sessions(), 1u);
  msg::ModelSpec other;
  other.parameters["graph_optimization"] = "disable";
  auto apart = load("two", other);
  EXPECT_EQ(runtime_.sessions(), 2u);
  std::vector<std::thread> threads;
  for (auto& engine : engines)
    threads.emplace_back([&engine] {
      for (int i = 0; i < 500; ++i) {
        float n = float(i);
        auto step = batch(1, {floats("a", {1, 3}, {n, n, n}), floats("b", {1, 3}, {1, 2, 3})});
        ASSERT_EQ(engine->step(step), base::Status());
        ASSERT_THAT(values(step.outputs[0]), ElementsAre(n + 1, n + 2, n + 3));
      }
    });
  for (auto& t : threads) t.join();
  engines.clear(), apart.reset();
  EXPECT_EQ(runtime_.sessions(), 0u);
}

}  // namespace
}  // namespace weir::onnx
