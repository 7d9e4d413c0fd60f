// A repository with a model that takes adapters while it serves, and folders in which they lie.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "bus/mail_bursts.h"
#include "bus/memory_use.h"
#include "demand_fixture.h"
#include "models/folder.h"

namespace weir::models {

// Takes an adapter whose configuration is a number: the bytes that it takes.
struct FakeLoader final : msg::AdapterLoader, std::enable_shared_from_this<FakeLoader> {
  base::Result<Loaded> load(const Source& source) override {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto text = read_file(source.folder, source.path + "/adapter_config.json", 100);
    if (!text) return text.error();
    if (text->find_first_not_of("0123456789") != text->npos) return base::invalid(source.path + ": it is broken");
    std::lock_guard lock(mutex);
    all[source.number] = std::stoull(*text);
    return Loaded{all[source.number], std::shared_ptr<const void>(this, [self = shared_from_this(), source](auto*) {
                    std::lock_guard held(self->mutex);
                    self->all.erase(source.number);
                  })};
  }
  bool has(uint32_t number) const override {
    std::lock_guard lock(mutex);
    return all.contains(number);
  }
  uint64_t bytes() const override {
    std::lock_guard lock(mutex);
    uint64_t out = 0;
    for (const auto& [number, size] : all) out += size;
    return out;
  }
  static inline std::atomic<bool> hold{false};
  mutable std::mutex mutex;
  std::map<uint32_t, uint64_t> all;
};

struct TakingTokens final : generation::TokenEngine {
  explicit TakingTokens(std::shared_ptr<const msg::TextSpec> text) : text_(std::move(text)) {}
  const msg::TextSpec& text() const override { return *text_; }
  std::shared_ptr<msg::AdapterLoader> adapter_loader() const override { return loader_; }
  size_t kv_bytes(size_t positions) const override { return positions; }
  base::Status reserve(uint32_t, uint32_t) override { return {}; }
  base::Status step(generation::TokenStep&) override { return {}; }
  void copy_block(uint32_t, uint32_t, uint32_t) override {}
  base::Result<generation::ImageFeatures> encode_image(const msg::Image&) override {
    return base::failure(base::Code::kUnimplemented, "no images");
  }
  const std::shared_ptr<const msg::TextSpec> text_;
  const std::shared_ptr<FakeLoader> loader_ = std::make_shared<FakeLoader>();
};

struct SaysNumber final : msg::Inbox, bus::TellsMemory {
  explicit SaysNumber(std::unique_ptr<msg::Inbox> lanes) : lanes_(std::move(lanes)) {}
  void put(msg::Call* call) override {
    if (holds) return void(held = call);
    const uint32_t n = call->adapter;
    const std::string text =
        n < msg::kFirstLoadedAdapter ? std::to_string(n) : "+" + std::to_string(n - msg::kFirstLoadedAdapter);
    bus::post_one(call, {msg::Failed{base::invalid(text)}});
  }
  const std::unique_ptr<msg::Inbox> lanes_;
  static inline std::atomic<bool> holds{false};
  static inline std::atomic<msg::Call*> held{nullptr};
};

inline base::Result<Instance> make_taking(const LoadArgs& a) {
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = 100;
  msg::ModelSpec spec = a.wanted;
  spec.text = text;
  return generation::TokenModel{
      std::move(spec),
      std::make_unique<TakingTokens>(std::move(text)),
      {},
      [](std::unique_ptr<msg::Inbox> lanes, const msg::ModelSpec&, bus::ModelStats&) -> std::unique_ptr<msg::Inbox> {
        return std::make_unique<SaysNumber>(std::move(lanes));
      },
      "cpu",
      0};
}

struct LoadedAdapterModels : testing::Test {
  void open(const Change& change = [](auto& o) { o.control = Control::kExplicit; }) {
    repo = std::make_unique<AnyRepo>(disk,
                                     std::map<std::string, EngineMaker>{{"tokens", make_taking}, {"onnx", make_fake}},
                                     options_with([&](auto& o) {
                                       o.adapter_roots = {more.root() + "/in"};
                                       change(o);
                                     }));
    ASSERT_TRUE(repo->repository->start().ok());
    if (repo->now()->models.empty()) {
      ASSERT_TRUE(repo->load("m").ok());
    }
  }
  // Which does not fit into memory beside it.
  void open_with_another() {
    disk.write("other/1/model.onnx", "7");
    disk.write("other/model.yaml", "memory: 90\n");
    disk.write("m/model.yaml", "engine: tokens\nmemory: 60\n");
    open([](auto& o) { on_demand(o); });
  }
  void TearDown() override {
    FakeLoader::hold = SaysNumber::holds = false;
    if (repo) repo->repository->stop();
  }
  std::string load(const std::string& name, const std::string& path, LoadParameters others = {}) {
    others["lora_path"] = path;
    return repo->load(name, std::move(others)).text;
  }
  std::shared_ptr<bus::Served> served(const std::string& model) {
    const auto held = repo->now();
    auto found = held->models.find(model);
    return found == held->models.end() ? nullptr : found->second.versions.begin()->second;
  }
  std::string ask(const std::string& model) {
    auto to = served(model);
    return to ? caller.answer(caller.call(*to)) : "no such model";
  }
  uint64_t adapter_memory() {
    uint64_t out = 0;
    for (const auto& use : bus::memory_of(*served("m"))) out += use.what == "adapters" ? use.bytes : 0;
    return out;
  }
  static bool soon(const std::function<bool()>& is, int looks = 4000) {
    for (int i = 0; i < looks && !is(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return is();
  }
  test::Disk disk{{"m/model.yaml", "engine: tokens\nnames: [Org/M]\n"}, {"m/1/config.json", "{}"}};
  test::Disk more{{"in/sql/adapter_config.json", "10"},
                  {"in/poet/adapter_config.json", "7"},
                  {"in/broken/adapter_config.json", "x"},
                  {"out/secret/adapter_config.json", "1"}};
  Caller caller;
  std::unique_ptr<AnyRepo> repo;
};

}  // namespace weir::models
