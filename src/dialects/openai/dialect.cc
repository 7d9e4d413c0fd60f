#include "dialects/dialect.h"

#include "dialects/openai/anthropic/message_batches.h"
#include "dialects/openai/batches/duty.h"
#include "dialects/openai/batches/upload_record.h"
#include "dialects/openai/openai.h"
#include "dialects/openai/responses/background.h"
#include "dialects/openai/responses/put_off.h"
#include "dialects/openai/responses/stored.h"
#include "marshal/secrets.h"
#include "openai_openapi.h"
#include "session/shared_records.h"
#include "wire/own_paths.h"

namespace weir::openai {
namespace {

namespace setting = base::setting;

// All that routes of this dialect have.
constexpr std::string_view kProtocols = "openai ollama anthropic sglang tgi llama.cpp";

struct MountedOpenai final : dialects::Mounted {
  MountedOpenai(const dialects::ShardServices& shard, LoadCounters& load, Options options)
      : openai(shard.bus, shard.router, load, std::move(options)) {}

  void drain(base::Duration) override { openai.drain(); }

  Openai openai;
};

class OpenaiDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "openai"; }
  std::string_view title() const override { return "the OpenAI API"; }
  std::string openapi() const override { return std::string(kOpenApi); }
  void add_settings(std::vector<base::Setting>& rows) override;
  std::vector<dialects::FrontPageLink> links() const override {
    return {{"openai", "/v1/models", "The models of text, as OpenAI's clients list them"}};
  }

  base::Status open(const dialects::ServerServices& services) override {
    options_.server_version = services.version;
    stored_.emplace(response_ttl_, response_memory_, &services.memory);
    options_.stored = &*stored_;
    options_.background = &background_;
    if (services.records && stored_->stores()) share(*services.records);
    options_.limits = &services.limits;
    const jobs::Limits& limits = services.jobs.limits();
    services.jobs.add(duty_.emplace(limits, batches::BatchForm{options_.prefixes.front()}));
    services.jobs.add(message_duty_.emplace(limits, anthropic::message_batch_form()));
    services.jobs.add(upload_duty_);
    services.jobs.add(put_off_duty_.emplace(response_ttl_));
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    Options options = options_;
    options.ready = [&control = shard.control] { return control.ready(); };
    options.offload = &shard.offload;
    options.slabs = &shard.slabs;
    options.bodies = &shard.bodies;
    options.jobs = &shard.jobs;
    options.control = &shard.control;
    options.shard = shard.id;
    return std::make_unique<MountedOpenai>(shard, load_, std::move(options));
  }
  base::Result<dialects::OwnKeys> own_keys(base::Pipes pipes) const override {
    constexpr std::string_view kSetting = "openai.api_keys";
    auto keys = marshal::read_secrets(std::string(kSetting), keys_, keys_file_, pipes);
    if (!keys) return keys.error();
    return dialects::OwnKeys{kSetting, kProtocols, std::move(*keys)};
  }

 private:
  // Every node finds what is stored here. Whatever goes for want of room goes everywhere, so that nodes keep together
  // what each of them may.
  void share(session::SharedRecords& records) {
    options_.records = &records;
    records.keep_records_for(response_ttl_);
    stored_->when_evicted(
        [&records](const std::string& owner, const std::string& id) { records.forget_record(owner, id); });
  }

  Options options_;
  std::vector<std::string> keys_;  // as they are set
  std::string keys_file_;          // one per line
  LoadCounters load_;              // of all shards, as the next
  base::Duration response_ttl_ = std::chrono::hours(1);
  uint64_t response_memory_ = uint64_t(256) << 20;
  std::optional<responses::StoredResponses> stored_;
  responses::BackgroundResponses background_;
  std::optional<batches::BatchDuty> duty_, message_duty_;
  batches::UploadDuty upload_duty_;
  std::optional<responses::PutOffDuty> put_off_duty_;
};

void OpenaiDialect::add_settings(std::vector<base::Setting>& rows) {
  base::Setting prefixes = setting::list("openai.prefixes", "PATH", "where the endpoints are", options_.prefixes);
  rows.push_back(wire::beside_own_paths(setting::path_prefix(std::move(prefixes), "/v1"), {"/v1", "/v3", "/openai"}));
  base::Setting keys = setting::list("openai.api_keys", "SECRET", "keys for these endpoints alone", keys_);
  keys.get = [this] {
    return keys_.empty() ? setting::Values{} : setting::Values{"(" + std::to_string(keys_.size()) + " secrets)"};
  };
  rows.push_back(std::move(keys));
  rows.push_back(setting::path("openai.api_keys_file", "more of them, one per line", keys_file_));
  rows.push_back(setting::size("openai.max_body", "largest request", options_.max_body, 1 << 10, uint64_t(1) << 30));
  rows.push_back(setting::duration(
      "openai.response_ttl", "how long responses, conversations and chats are stored; 0 = not at all", response_ttl_));
  rows.push_back(setting::size("openai.response_memory", "of all of them; a tenant has a quarter", response_memory_,
                               1 << 20, uint64_t(1) << 40));
  rows.push_back(setting::duration("openai.websocket_age", "how long a WebSocket of responses may last",
                                   options_.websocket_age, std::chrono::seconds(1)));
  rows.push_back(setting::replaced("openai.default_model", "models.default"));
}

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<OpenaiDialect>(); }

}  // namespace weir::openai
