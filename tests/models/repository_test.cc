#include "models/repository.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "base/fake_env.h"
#include "bus/bus.h"
#include "disk.h"

namespace weir::models {
namespace {

// Reads its "model": the text of model.onnx is the number that it answers; "broken" does not load.
class FakeEngine final : public sched::Engine {
 public:
  FakeEngine(const LoadArgs& args, std::string text) : text_(std::move(text)) {
    spec_.platform = "fake";
    spec_.max_batch = 64;
    spec_.inputs = {{"x", msg::DType::kUint8, {1}, false, {}}};
    spec_.outputs = {{"y", msg::DType::kUint8, {1}, false, {}}};
    spec_.parameters["instance"] = std::to_string(args.instance);
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch& batch) override {
    msg::Tensor out{
        "y", msg::DType::kUint8, {int64_t(batch.rows), 1}, base::Bytes::copy_of(std::string(batch.rows, text_[0]))};
    batch.outputs.push_back(std::move(out));
    return {};
  }

 private:
  msg::ModelSpec spec_;
  std::string text_;
};

std::atomic<int> made{0};

base::Result<std::unique_ptr<sched::Engine>> make_fake(const LoadArgs& args) {
  std::string text;
  std::ifstream(args.file) >> text;
  if (text == "broken") return base::invalid("cannot parse " + args.file);
  if (text == "throw") throw std::runtime_error("surprise");
  ++made;
  return std::unique_ptr<sched::Engine>(new FakeEngine(args, text));
}

std::map<std::string, std::vector<std::string>> devices_of;  // instances of builtin models

base::Result<std::unique_ptr<sched::Engine>> make_builtin(const LoadArgs& args) {
  if (!args.file.empty()) return base::invalid("unexpected file");
  auto device = args.wanted.parameters.find("device");
  devices_of[args.wanted.name].push_back(device == args.wanted.parameters.end() ? "" : device->second);
  return std::unique_ptr<sched::Engine>(new FakeEngine(args, "b"));
}

// Takes what the repository publishes; stands for all shards.
class Repo {
 public:
  explicit Repo(test::Disk& disk, std::function<void(RepositoryOptions&)> change = {}) {
    RepositoryOptions options;
    options.roots = {disk.root()};
    if (change) change(options);
    repository = std::make_unique<Repository>(
        options, std::map<std::string, EngineMaker>{{"onnx", make_fake}, {"builtin", make_builtin}}, base::heap(),
        [this](std::shared_ptr<const bus::Catalog> next, std::function<void()> settled) {
          {
            std::lock_guard lock(mutex);
            catalog = std::move(next);
          }
          settled();
        });
  }
  std::string rows() {
    std::lock_guard lock(mutex);
    std::string out;
    for (const auto& row : catalog->index) {
      out += row.name + '/' + row.version + ' ' + std::string(bus::name(row.state));
      out += row.reason.empty() ? "\n" : " (" + row.reason + ")\n";
    }
    return out;
  }
  std::shared_ptr<const bus::Catalog> now() {
    std::lock_guard lock(mutex);
    return catalog;
  }
  base::Status load(std::string name, LoadParameters parameters = {}) {
    std::promise<base::Status> done;
    repository->load(std::move(name), std::move(parameters), [&](base::Status s) { done.set_value(std::move(s)); });
    return done.get_future().get();
  }
  base::Status unload(std::string name) {
    std::promise<base::Status> done;
    repository->unload(std::move(name), [&](base::Status s) { done.set_value(std::move(s)); });
    return done.get_future().get();
  }
  void rescan() {
    std::promise<void> done;
    repository->rescan([&] { done.set_value(); });
    done.get_future().get();
  }

  std::mutex mutex;
  std::shared_ptr<const bus::Catalog> catalog;
  std::unique_ptr<Repository> repository;
};

void explicitly(RepositoryOptions& options) { options.control = Control::kExplicit; }

TEST(Repository, InstancesAreMadeForTheDevicesOfTheConfiguration) {
  test::Disk disk;
  disk.write("spread/model.yaml", "engine: builtin\ndevices: [\"cuda:0\", \"cuda:1\"]\ninstances: 2\n");
  disk.write("cpu/1/model.onnx", "1");
  disk.write("cpu/config.pbtxt", "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]");
  devices_of.clear();
  Repo repo(disk, [](RepositoryOptions& o) { o.devices.gpus = 2, o.devices.engines = {"builtin"}; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(devices_of["spread"], (std::vector<std::string>{"cuda:0", "cuda:0", "cuda:1", "cuda:1"}));
  const auto& spec = repo.now()->models.at("spread").preferred->spec;
  EXPECT_EQ(spec.instances, 4u);
  EXPECT_EQ(spec.parameters.count("device"), 0u);
  EXPECT_NE(repo.rows().find("cpu/1 UNAVAILABLE (instances on cuda:0 are asked for, but the engine 'onnx' computes on "
                             "the CPU alone"),
            std::string::npos)
      << repo.rows();
}

TEST(Repository, ABareModelIsServedWithEverythingDerived) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  auto served = repo.now()->find("m", "");
  ASSERT_TRUE(served);
  EXPECT_EQ((*served)->spec.engine, "onnx");
  EXPECT_EQ((*served)->spec.max_batch, 32u);
  EXPECT_EQ((*served)->spec.inputs.at(0).name, "x");
}

TEST(Repository, TheNewestVersionIsServedUnlessThePolicySaysMore) {
  test::Disk disk;
  for (const char* v : {"1", "2", "10"}) {
    disk.write("latest/" + std::string(v) + "/model.onnx", "a");
    disk.write("all/" + std::string(v) + "/model.onnx", "a");
  }
  disk.write("all/config.pbtxt", "version_policy { all {} }");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "all/1 READY\nall/2 READY\nall/10 READY\nlatest/10 READY\n");
  EXPECT_EQ((*repo.now()->find("all", ""))->spec.version, "10");
}

TEST(Repository, EveryFailureIsARowWithItsReasonAndTheRestServes) {
  test::Disk disk;
  disk.write("bad/1/model.onnx", "broken");
  disk.write("both/1/model.onnx", "a");
  disk.write("both/config.pbtxt", "");
  disk.write("both/model.yaml", "");
  disk.write("empty/1/readme", "");
  disk.write("engine/1/model.onnx", "a");
  disk.write("engine/model.yaml", "engine: tensorrt");
  disk.write("good/1/model.onnx", "a");
  disk.write("loose/model.onnx", "a");
  disk.write("other/1/model.onnx", "a");
  disk.write("other/config.pbtxt", "name: \"another\"");
  disk.write("syntax/1/model.onnx", "a");
  disk.write("syntax/config.pbtxt", "name: \"syntax\"\nbakend: \"x\"");
  disk.write("throws/1/model.onnx", "throw");
  disk.write("stray/notes.md", "not a model");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(
      repo.rows(),
      "bad/1 UNAVAILABLE (cannot parse bad/1/model.onnx)\n"
      "both/ UNAVAILABLE (both has both config.pbtxt and model.yaml; keep one of them)\n"
      "empty/1 UNAVAILABLE (no model file in empty/1/ (looked for model.onnx and config.json))\n"
      "engine/1 UNAVAILABLE (no engine 'tensorrt' here; there are builtin, onnx)\n"
      "good/1 READY\n"
      "loose/ UNAVAILABLE (model 'loose' has no version folder; move model.onnx into loose/1/)\n"
      "other/ UNAVAILABLE (the configuration is for 'another', but its folder is 'other')\n"
      "syntax/ UNAVAILABLE (syntax/config.pbtxt:2:1: unknown field 'bakend' in ModelConfig, did you mean 'backend'?)\n"
      "throws/1 UNAVAILABLE (loading failed: surprise)\n");
}

TEST(Repository, StrictStartFailsWithTheFirstReason) {
  test::Disk disk;
  disk.write("bad/1/model.onnx", "broken");
  Repo repo(disk, [](auto& o) { o.strict = true; });
  EXPECT_EQ(repo.repository->start().text, "model 'bad': cannot parse bad/1/model.onnx");
}

TEST(Repository, AMissingRootIsAnError) {
  test::Disk disk;
  Repo repo(disk, [](auto& o) { o.roots.push_back("/no/such/folder"); });
  EXPECT_EQ(repo.repository->start().code, base::Code::kNotFound);
}

TEST(Repository, ABuiltInEngineNeedsNoFiles) {
  test::Disk disk;
  disk.write("one/config.pbtxt", "backend: \"builtin\"");
  disk.write("two/config.pbtxt", "backend: \"builtin\"");
  disk.write("two/3/.keep", "");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "one/1 READY\ntwo/3 READY\n");
}

TEST(Repository, LabelsComeFromTheirFile) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  disk.write("m/names.txt", "zero\r\none\n\nthree");
  disk.write("m/model.yaml", "outputs: [{name: y, labels: names.txt}]");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.outputs.at(0).labels,
            (std::vector<std::string>{"zero", "one", "", "three"}));
}

TEST(Repository, ARescanReloadsOnlyWhatChanged) {
  test::Disk disk;
  disk.write("m/model.yaml", "versions: all");
  disk.write("m/1/model.onnx", "a");
  disk.write("m/2/model.onnx", "a");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  auto* one = *repo.now()->find("m", "1");
  int before = made;
  disk.write("m/2/model.onnx", "b");
  repo.rescan();
  EXPECT_EQ(made, before + 1);
  EXPECT_EQ(*repo.now()->find("m", "1"), one);
  disk.remove("m/1");
  disk.write("n/1/model.onnx", "c");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/2 READY\nn/1 READY\n");
}

TEST(Repository, ABrokenReloadLeavesTheOldServingAndSaysWhy) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  auto* old = *repo.now()->find("m", "");
  const std::string on = "the reload failed, what was loaded before serves on: ";
  disk.write("m/1/model.onnx", "broken");
  repo.rescan();
  EXPECT_EQ(*repo.now()->find("m", ""), old);
  EXPECT_EQ(repo.rows(), "m/1 READY (" + on + "cannot parse m/1/model.onnx)\n");
  disk.write("m/model.yaml", "max_bach: 3");
  repo.rescan();
  EXPECT_EQ(*repo.now()->find("m", ""), old);
  EXPECT_EQ(repo.rows(), "m/1 READY (" + on + "m/model.yaml:1:1: unknown key 'max_bach', did you mean 'max_batch'?)\n");
  disk.write("m/model.yaml", "max_batch: 3");
  disk.write("m/1/model.onnx", "c");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 3u);
}

TEST(Repository, ABrokenNewVersionDoesNotPushTheOldOneOut) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  disk.write("m/2/model.onnx", "broken");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/1 READY\nm/2 UNAVAILABLE (cannot parse m/2/model.onnx)\n");
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.version, "1");
  disk.write("m/2/model.onnx", "b");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/2 READY\n");
}

TEST(Repository, LoadAndUnloadByRequest) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  disk.write("n/1/model.onnx", "a");
  Repo repo(disk, [](auto& o) { o.control = Control::kExplicit, o.startup = {"n"}; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "m/ UNAVAILABLE (not loaded)\nn/1 READY\n");
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_TRUE(repo.now()->find("m", ""));
  int before = made;
  EXPECT_TRUE(repo.load("m").ok());  // nothing changed
  EXPECT_EQ(made, before);
  EXPECT_TRUE(repo.unload("m").ok());
  EXPECT_EQ(repo.now()->find("m", "").error().code, base::Code::kUnavailable);
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_TRUE(repo.now()->find("m", ""));
  EXPECT_EQ(repo.load("mm").code, base::Code::kNotFound);
  EXPECT_EQ(repo.load("../m").code, base::Code::kInvalidArgument);
  EXPECT_EQ(repo.unload("zzz").code, base::Code::kNotFound);
}

TEST(Repository, LoadingByRequestNeedsExplicitControl) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.load("m").code, base::Code::kFailedPrecondition);
  EXPECT_EQ(repo.unload("m").code, base::Code::kFailedPrecondition);
}

TEST(Repository, ALoadThatFailsSaysWhy) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "broken");
  Repo repo(disk, explicitly);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.load("m").text, "failed to load 'm': cannot parse m/1/model.onnx");
  EXPECT_EQ(repo.rows(), "m/1 UNAVAILABLE (cannot parse m/1/model.onnx)\n");
}

TEST(Repository, OverridesAreRefusedUnlessAllowed) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Repo repo(disk, explicitly);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.load("m", {{"config", "{}"}}).code, base::Code::kPermissionDenied);
}

TEST(Repository, AConfigurationAndFilesCanComeWithTheLoad) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Repo repo(disk, [](auto& o) { o.control = Control::kExplicit, o.allow_config_override = true; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_TRUE(repo.load("m", {{"config", R"({"max_batch_size":5})"}}).ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 5u);
  auto status = repo.load("m", {{"config", R"({"backend":"onnxruntime"})"}, {"file:7/model.onnx", "z"}});
  EXPECT_TRUE(status.ok()) << status.text;
  EXPECT_EQ(repo.rows(), "m/7 READY\n");
  EXPECT_TRUE(repo.load("m").ok());  // back to what lies in the repository
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 32u);
  for (const char* bad : {"file:../x", "file:1/../../x", "file:model.onnx", "file:0/x", "fil"})
    EXPECT_EQ(repo.load("m", {{"config", "{}"}, {bad, "z"}}).code, base::Code::kInvalidArgument) << bad;
  EXPECT_EQ(repo.load("m", {{"file:1/model.onnx", "z"}}).code, base::Code::kInvalidArgument);
  EXPECT_EQ(repo.load("m", {{"config", "{"}}).code, base::Code::kInvalidArgument);
}

TEST(Repository, PollingTakesAChangeByItself) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  Repo repo(disk, [](auto& o) { o.control = Control::kPoll, o.poll_interval = std::chrono::milliseconds(1); });
  EXPECT_TRUE(repo.repository->start().ok());
  disk.write("m/2/model.onnx", "b");
  while (repo.rows() != "m/2 READY\n") std::this_thread::yield();
  disk.remove("m");
  while (!repo.rows().empty()) std::this_thread::yield();
}

// A shard: a thread that turns a Bus, calls the model all the time and counts what goes wrong.
class Shard final : public msg::Sink {
 public:
  Shard(uint16_t id, std::shared_ptr<const bus::Catalog> catalog)
      : bus_(env_, base::ShardId(id), [this] { post({}); }) {
    bus_.publish(std::move(catalog));
    thread_ = std::thread([this] { run(); });
  }
  void post(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    if (work) work_.push_back(std::move(work));
    woken_ = true;
    changed_.notify_one();
  }
  bus::Bus& bus() { return bus_; }
  void finish() {
    post([this] { stopping_ = true; });
    thread_.join();
  }
  void on(msg::Call&, msg::Event&& event) override {
    --open_;
    auto* outputs = std::get_if<msg::Outputs>(&event.what);
    (outputs && outputs->tensors.at(0).data.size() == 1 ? answered : failed) += 1;
  }
  std::atomic<uint64_t> answered{0}, failed{0};

 private:
  void run() {
    for (;;) {
      bus_.turn();
      if (stopping_ && bus_.in_flight() == 0) break;
      while (!stopping_ && open_ < 16 && failed == 0) call();
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return woken_; });
      woken_ = false;
      auto work = std::exchange(work_, {});
      lock.unlock();
      for (auto& w : work) w();
    }
  }
  void call() {
    msg::Call* call = bus_.make_call();
    call->model = "m";
    call->sink = this;
    call->inputs.push_back({"x", msg::DType::kUint8, {1, 1}, base::Bytes::constant("x")});
    if (bus_.submit(call).ok()) return void(++open_);
    bus_.discard(call);
    ++failed;
  }

  base::FakeEnv env_;
  bus::Bus bus_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> work_;
  bool woken_ = true;
  bool stopping_ = false;
  int open_ = 0;
  std::thread thread_;
};

TEST(Repository, ReloadsUnderLoadFailNoCall) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  RepositoryOptions options;
  options.roots = {disk.root()};
  std::vector<std::unique_ptr<Shard>> shards;
  std::shared_ptr<const bus::Catalog> first;
  auto publish = [&](std::shared_ptr<const bus::Catalog> next, std::function<void()> settled) {
    if (shards.empty()) return first = next, settled();
    auto left = std::make_shared<std::atomic<size_t>>(shards.size());
    for (auto& shard : shards)
      shard->post([&shard, next, settled, left] {
        shard->bus().publish(next);
        if (left->fetch_sub(1) == 1) settled();
      });
  };
  Repository repository(options, {{"onnx", make_fake}}, base::heap(), publish);
  ASSERT_TRUE(repository.start().ok());
  for (uint16_t i = 0; i < 2; ++i) shards.push_back(std::make_unique<Shard>(i, first));
  for (int round = 0; round < 50; ++round) {
    // Every third write is half a model: the one before serves on.
    disk.write("m/1/model.onnx", round % 3 == 2 ? "broken" : std::string(1, char('a' + round % 26)));
    std::promise<void> done;
    repository.rescan([&] { done.set_value(); });
    done.get_future().get();
    uint64_t seen = shards[0]->answered;
    while (shards[0]->answered < seen + 20 && shards[0]->failed == 0) std::this_thread::yield();
  }
  repository.stop();
  for (auto& shard : shards) {
    shard->finish();
    EXPECT_EQ(shard->failed, 0u);
    EXPECT_GT(shard->answered, 0u);
  }
  shards.clear();
}

}  // namespace
}  // namespace weir::models
