#include "models/warm_up.h"

#include "models/model_config.h"
#include "models/model_yaml.h"
#include "repository_fixture.h"

namespace weir::models {
namespace {

using msg::DType;

// Keeps the inputs of each step.
class RecordingEngine final : public sched::Engine {
 public:
  RecordingEngine() {
    spec_.name = "m";
    spec_.max_batch = 8;
    spec_.inputs = {{"f", DType::kFp32, {2}, false, {}}, {"i", DType::kInt64, {2}, false, {}}};
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch& batch) override {
    rows.push_back(batch.rows);
    inputs = batch.inputs;
    return fails;
  }

  msg::ModelSpec spec_;
  std::vector<uint32_t> rows;
  std::vector<msg::Tensor> inputs;
  base::Status fails;
};

WarmUpSample sample_of(WarmUpInput::Source source) {
  WarmUpSample sample{"first", 3, 2, {}};
  sample.inputs["f"] = {DType::kFp32, {2}, source, ""};
  sample.inputs["i"] = {DType::kInt64, {2}, source, ""};
  return sample;
}

template <class T>
std::vector<T> values_of(const msg::Tensor& tensor) {
  std::vector<T> out(tensor.data.size() / sizeof(T));
  std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
  return out;
}

TEST(WarmUp, SamplesRunAsOftenAsTheyAreToWithTheRowsThatTheyName) {
  RecordingEngine engine;
  ASSERT_TRUE(warm_up(engine, engine.spec_, {}, {sample_of(WarmUpInput::Source::kZero)}, base::heap()).ok());
  EXPECT_EQ(engine.rows, (std::vector<uint32_t>{3, 3}));
  EXPECT_EQ(engine.inputs[0].shape.text(), "[3,2]");
  EXPECT_EQ(values_of<float>(engine.inputs[0]), std::vector<float>(6, 0));
  EXPECT_EQ(values_of<int64_t>(engine.inputs[1]), std::vector<int64_t>(6, 0));
}

TEST(WarmUp, RandomNumbersAreFractionsAndSmallIndices) {
  RecordingEngine engine;
  ASSERT_TRUE(warm_up(engine, engine.spec_, {}, {sample_of(WarmUpInput::Source::kRandom)}, base::heap()).ok());
  for (float f : values_of<float>(engine.inputs[0])) EXPECT_TRUE(f > 0 && f < 1) << f;
  for (int64_t i : values_of<int64_t>(engine.inputs[1])) EXPECT_TRUE(i == 0 || i == 1) << i;
}

TEST(WarmUp, DataOfAFileIsTheTensorsAndMustFitIt) {
  test::Disk disk({{"m/warmup/f", "abcdefgh"}, {"m/warmup/short", "abc"}, {"secret", "abcdefgh"}});
  auto folder = *read_model_folder(disk.root(), "m");
  RecordingEngine engine;
  uint32_t rows = 1;
  auto run = [&](const std::string& file) {
    WarmUpSample sample{"first", rows, 1, {}};
    sample.inputs["f"] = {DType::kFp32, {2}, WarmUpInput::Source::kFile, file};
    sample.inputs["i"] = {DType::kInt64, {2}, WarmUpInput::Source::kZero, ""};
    return warm_up(engine, engine.spec_, folder, {sample}, base::heap());
  };
  ASSERT_TRUE(run("warmup/f").ok());
  EXPECT_EQ(engine.inputs[0].data.view(), "abcdefgh");
  rows = 3;
  ASSERT_TRUE(run("warmup/f").ok());
  EXPECT_EQ(engine.inputs[0].data.view(), "abcdefghabcdefghabcdefgh");
  EXPECT_EQ(engine.inputs[0].shape.text(), "[3,2]");
  for (auto file : {"warmup/short", "warmup/none", "warmup/../../secret", "../secret"}) {
    auto status = run(file);
    EXPECT_FALSE(status.ok()) << file;
    EXPECT_TRUE(status.text.starts_with("warm-up sample 'first': ")) << status.text;
  }
}

TEST(WarmUp, SamplesThatDoNotFitTheModelOrThatItFailsAreErrors) {
  RecordingEngine engine;
  auto run = [&](auto change) {
    WarmUpSample sample = sample_of(WarmUpInput::Source::kZero);
    change(sample);
    return warm_up(engine, engine.spec_, {}, {sample}, base::heap());
  };
  EXPECT_FALSE(run([](auto& s) { s.inputs.erase("i"); }).ok());
  EXPECT_FALSE(run([](auto& s) { s.inputs["f"].dtype = DType::kFp64; }).ok());
  EXPECT_FALSE(run([](auto& s) { s.inputs["f"].shape = {3}; }).ok());
  EXPECT_FALSE(run([](auto& s) { s.inputs["f"].shape = {-1}; }).ok());
  EXPECT_FALSE(run([](auto& s) { s.inputs["f"].shape = {int64_t(1) << 40, int64_t(1) << 30}; }).ok());
  EXPECT_FALSE(run([](auto& s) { s.inputs["f"].shape = {int64_t(1) << 30}; }).ok());
  EXPECT_FALSE(run([](auto& s) { s.rows = 9; }).ok());
  EXPECT_TRUE(engine.rows.empty());
  engine.fails = base::invalid("too hot");
  EXPECT_EQ(run([](auto&) {}).text, "warm-up sample 'first': too hot");
}

// Answers three times, the second time a while later; a request that is too much is an error.
class Threefold final : public sched::DecoupledEngine {
 public:
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Result<std::unique_ptr<sched::AnswerSeries>> begin(const msg::Call& call) override {
    rows.push_back(call.rows);
    return std::unique_ptr<sched::AnswerSeries>(std::make_unique<Answers>(*this));
  }

  msg::ModelSpec spec_ = RecordingEngine().spec_;
  std::vector<uint32_t> rows;
  uint32_t answers = 0, fails_at = 0;

 private:
  struct Answers final : sched::AnswerSeries {
    explicit Answers(Threefold& of) : engine(of) {}
    std::optional<base::Duration> next_in() const override {
      if (left == 2 && ++looks < 3) return kNotYet;
      return left > 0 ? std::optional<base::Duration>(std::chrono::milliseconds(left == 1 ? 12 : 0)) : std::nullopt;
    }
    base::Result<msg::Event> next() override {
      if (++engine.answers == engine.fails_at) return msg::Event{msg::Failed{base::invalid("too hot")}};
      return --left, msg::Event{msg::Outputs{}};
    }
    Threefold& engine;
    int left = 3;
    mutable int looks = 0;
  };
};

// Two of them, of which the first is given whatever comes.
class TwoInstances final : public sched::DecoupledEngine {
 public:
  const msg::ModelSpec& spec() const override { return first.spec_; }
  std::vector<sched::DecoupledEngine*> instances() override { return {&first, &second}; }
  base::Result<std::unique_ptr<sched::AnswerSeries>> begin(const msg::Call& call) override { return first.begin(call); }

  Threefold first, second;
};

TEST(WarmUp, EachInstanceOfADecoupledModelRunsEachSampleOnce) {
  TwoInstances engine;
  engine.first.spec_.instances = 2;
  const std::vector<WarmUpSample> samples{sample_of(WarmUpInput::Source::kZero)};
  ASSERT_TRUE(warm_up(engine, engine.spec(), {}, samples, [] { return true; }).ok());
  EXPECT_EQ(engine.first.rows, (std::vector<uint32_t>{3, 3}));
  EXPECT_EQ(engine.second.rows, (std::vector<uint32_t>{3, 3}));
}

TEST(WarmUp, ADecoupledModelAnswersToTheEnd) {
  Threefold engine;
  bool loading = true;
  const auto loads = [&] { return loading; };
  const std::vector<WarmUpSample> samples{sample_of(WarmUpInput::Source::kZero)};
  ASSERT_TRUE(warm_up(engine, engine.spec_, {}, samples, loads).ok());
  EXPECT_EQ(engine.rows, (std::vector<uint32_t>{3, 3}));
  EXPECT_EQ(engine.answers, 6u);
  engine.fails_at = 8;
  EXPECT_EQ(warm_up(engine, engine.spec_, {}, samples, loads).text, "warm-up sample 'first': too hot");
  loading = false;
  EXPECT_EQ(warm_up(engine, engine.spec_, {}, samples, loads).code, base::Code::kUnavailable);
}

TEST(WarmUp, AConfigurationSaysWhatRunsAndAModelThatFailsItIsNotReady) {
  const char* good = R"(model_warmup { name: "w" batch_size: 2 count: 3 inputs { key: "x" value { data_type: TYPE_UINT8
                        dims: 1 random_data: true } } })";
  auto config = parse_pbtxt(good, "m", {});
  ASSERT_TRUE(config);
  ASSERT_EQ(config->warm_up.size(), 1u);
  EXPECT_EQ(config->warm_up[0].rows, 2u);
  EXPECT_EQ(config->warm_up[0].count, 3u);
  EXPECT_EQ(config->warm_up[0].inputs.at("x").source, WarmUpInput::Source::kRandom);
  EXPECT_TRUE(config->notes.empty());
  EXPECT_FALSE(check(*parse_pbtxt("model_warmup { name: \"w\" count: 1001 }", "m", {}), "m").ok());
  auto yaml = parse_model_yaml(
      "warm_up: [{name: w, rows: 2, inputs: {x: {type: UINT8, shape: [1], data: random}, "
      "y: {type: FP32, shape: [2], data: warmup/y}}}]",
      "m", {});
  ASSERT_TRUE(yaml) << yaml.error().text;
  EXPECT_EQ(yaml->warm_up.at(0).inputs.at("x").source, WarmUpInput::Source::kRandom);
  EXPECT_EQ(yaml->warm_up.at(0).inputs.at("y").file, "warmup/y");
  EXPECT_FALSE(check(*parse_model_yaml("warm_up: [{rows: 0}]", "m", {}), "m").ok());
  const char* bad = R"(model_warmup { name: "w" inputs { key: "y" value { data_type: TYPE_UINT8 dims: 1 } } })";
  test::Disk disk(
      {{"a/1/model.onnx", "1"}, {"a/config.pbtxt", good}, {"b/1/model.onnx", "1"}, {"b/config.pbtxt", bad}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_TRUE(repo.rows().starts_with("a/1 READY\nb/1 UNAVAILABLE (warm-up sample 'w': ")) << repo.rows();
}

}  // namespace
}  // namespace weir::models
