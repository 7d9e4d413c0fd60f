// Models that are replaced while requests run.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/fake_env.h"
#include "bus/bus.h"
#include "repository_fixture.h"
#include "support/submit.h"

namespace weir::models {
namespace {

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
  // The lanes of its models may still be about to wake a shard that has its answer: they end before the shards do.
  void release_models() { bus_.publish(std::make_shared<const bus::Catalog>()); }
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
    if (support::submit(bus_, call).ok()) return void(++open_);
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
  using Makers = std::map<std::string, EngineMaker>;
  auto repository = std::make_unique<Repository>(options, Makers{{"onnx", make_fake}}, base::heap(), publish);
  ASSERT_TRUE(repository->start().ok());
  for (uint16_t i = 0; i < 2; ++i) shards.push_back(std::make_unique<Shard>(i, first));
  for (int round = 0; round < 50; ++round) {
    // Every third write is half a model: the one before serves on.
    disk.write("m/1/model.onnx", round % 3 == 2 ? "broken" : std::string(1, char('a' + round % 26)));
    std::promise<void> done;
    repository->rescan([&] { done.set_value(); });
    done.get_future().get();
    uint64_t seen = shards[0]->answered;
    while (shards[0]->answered < seen + 20 && shards[0]->failed == 0) std::this_thread::yield();
  }
  repository->stop();
  for (auto& shard : shards) {
    shard->finish();
    EXPECT_EQ(shard->failed, 0u);
    EXPECT_GT(shard->answered, 0u);
  }
  repository.reset(), first.reset();
  for (auto& shard : shards) shard->release_models();
}

// A device that has room for one model.
std::atomic<int> room{1}, built{0};

class ScarceEngine final : public sched::Engine {
 public:
  explicit ScarceEngine(std::unique_ptr<sched::Engine> inner) : inner_(std::move(inner)) {}
  ~ScarceEngine() override { ++room; }
  const msg::ModelSpec& spec() const override { return inner_->spec(); }
  base::Status step(sched::Batch& batch) override { return inner_->step(batch); }

 private:
  const std::unique_ptr<sched::Engine> inner_;
};

base::Result<std::unique_ptr<sched::Engine>> make_scarce(const LoadArgs& args) {
  auto engine = make_fake(args);
  if (!engine) return engine;
  if (room == 0) return base::try_again(base::Code::kResourceExhausted, "the device has no memory left");
  --room, ++built;
  return std::unique_ptr<sched::Engine>(new ScarceEngine(std::move(*engine)));
}

TEST(Repository, AVersionMakesWayForTheNextWhereThereIsNoMemoryBesideIt) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  AnyRepo repo(disk, {{"onnx", make_scarce}}, {});
  ASSERT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  disk.write("m/1/model.onnx", "b");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  EXPECT_EQ(built, 2);
  disk.write("m/2/model.onnx", "c");  // the policy keeps the latest
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/2 READY\n");
  repo.repository->stop();
}

TEST(Repository, AnotherModelNeverMakesWay) {
  test::Disk disk;
  disk.write("a/1/model.onnx", "a");
  disk.write("b/1/model.onnx", "b");
  RepositoryOptions options;
  options.load_threads = 1;  // or "b" may be the first
  AnyRepo repo(disk, {{"onnx", make_scarce}}, std::move(options));
  (void)repo.repository->start();
  EXPECT_EQ(repo.rows(), "a/1 READY\nb/1 UNAVAILABLE (the device has no memory left)\n");
  repo.repository->stop();
}

TEST(Repository, APipelineThatCameWithAFailedLoadIsNotBuiltLater) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk, [](auto& o) { o.control = Control::kExplicit, o.allow_config_override = true; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_TRUE(repo.load("m").ok());
  auto status = repo.load("m", {{"config", R"({"platform":"ensemble","max_batch_size":8,
    "input":[{"name":"x","data_type":"TYPE_UINT8","dims":[1]}],"output":[{"name":"y","data_type":"TYPE_UINT8","dims":[1]}],
    "ensemble_scheduling":{"step":[{"model_name":"gone","model_version":-1,"input_map":{"x":"x"},
    "output_map":{"y":"y"}}]}})"}});
  EXPECT_NE(status.text.find("there is no model 'gone'"), std::string::npos) << status.text;
  disk.write("gone/1/model.onnx", "b");
  EXPECT_TRUE(repo.load("gone").ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.platform, "fake");
}

// For a reason that its files do not show.
TEST(Repository, ARescanThatIsAskedForTriesAgainWhatHasFailedToLoad) {
  test::Disk disk;
  disk.write("m/1/model.onnx", "a");
  std::atomic<bool> fails{true};
  const EngineMaker make = [&](const LoadArgs& args) -> base::Result<std::unique_ptr<sched::Engine>> {
    if (fails) return base::invalid("a library is missing");
    return make_fake(args);
  };
  AnyRepo repo(disk, {{"onnx", make}}, {});
  (void)repo.repository->start();
  EXPECT_EQ(repo.rows(), "m/1 UNAVAILABLE (a library is missing)\n");
  fails = false;
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  const int before = made;
  repo.rescan();
  EXPECT_EQ(made, before) << "it serves";
}

}  // namespace
}  // namespace weir::models
