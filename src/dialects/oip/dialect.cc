#include "dialects/dialect.h"

#include <optional>

#include "dialects/oip/async_infer.h"
#include "dialects/oip/forwarded_headers.h"
#include "dialects/oip/oip.h"
#include "dialects/oip/shared_memory/shared_regions.h"
#include "dialects/oip/trace.h"
#include "oip_openapi.h"

namespace weir::oip {
namespace {

struct MountedOip final : dialects::Mounted {
  MountedOip(const dialects::ShardServices& shard, Traces& traces, SharedRegions& regions, OipOptions options,
             uint32_t& mounted)
      : oip(shard.bus, shard.router, shard.rpcs, shard.slabs, shard.control, traces, regions, std::move(options)),
        traces_(traces),
        mounted_(++mounted) {}
  // The trace file ends with the last shard: what it counts in goes then.
  ~MountedOip() override {
    if (--mounted_ == 0) traces_.write_to(nullptr);
  }

  Oip oip;

 private:
  Traces& traces_;
  uint32_t& mounted_;
};

class OipDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "oip"; }
  std::string_view title() const override { return "the Open Inference Protocol"; }
  std::string openapi() const override { return std::string(kOpenApi); }
  Switch switched() const override { return Switch::kAlwaysOn; }
  std::vector<std::string_view> services() const override { return {Oip::kService}; }
  std::vector<dialects::FrontPageLink> links() const override {
    return {{"models", "/v2/models", "The models that are served"},
            {"server", "/v2", "The server's name, version and extensions"}};
  }

  void add_settings(std::vector<base::Setting>& rows) override;
  base::Status open(const dialects::ServerServices& services) override {
    options_.server_name = services.name;
    options_.server_version = services.version;
    options_.max_body = services.limits.body;
    options_.conn_calls = services.conn_calls;
    post_ = services.post;
    services.jobs.add(duty_.emplace(services.jobs.limits()));
    traces_.charge_to(services.memory, services.metrics);
    return begin_traces(services.metrics);
  }
  void reopen_files() override { traces_.reopen(); }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    OipOptions options = options_;
    options.jobs = &shard.jobs;
    options.offload = &shard.offload;
    options.env = &shard.env;
    options.post = [post = post_, id = shard.id](std::function<void()> work) { post(id, std::move(work)); };
    return std::make_unique<MountedOip>(shard, traces_, regions_, std::move(options), mounted_);
  }

 private:
  base::Status begin_traces(base::Metrics& metrics);
  void add_trace_settings(std::vector<base::Setting>& rows);

  OipOptions options_;
  std::function<void(base::ShardId, std::function<void()>)> post_;  // ServerServices::post
  Sharing sharing_ = Sharing::kLocal;
  uint64_t shared_bytes_ = uint64_t(4) << 30;
  std::optional<AsyncDuty> duty_;
  std::vector<std::string> trace_level_;
  uint64_t trace_rate_ = 1000, trace_file_bytes_ = uint64_t(1) << 30;
  std::string trace_count_ = "-1", trace_file_;
  uint32_t mounted_ = 0;
  Traces traces_;  // of all shards, as the next
  SharedRegions regions_{sharing_, shared_bytes_};
};

void OipDialect::add_settings(std::vector<base::Setting>& rows) {
  namespace setting = base::setting;
  rows.push_back(setting::choice<Sharing>(
      "oip.shared_memory",
      "tensors in POSIX shared memory: local = for clients of this machine (loopback, unix sockets, no proxy), true = "
      "for all clients, false = for none. Whoever may use it can have the server read and write every object in "
      "/dev/shm that the server may open",
      sharing_, {{"local", Sharing::kLocal}, {"true", Sharing::kEverybody}, {"false", Sharing::kNobody}}));
  auto headers = setting::list("oip.forward_headers", "NAME",
                               "headers of HTTP and metadata of gRPC that models get as parameters of their requests: "
                               "names in small letters, or x-request-* for all that begin so; none by default",
                               options_.forward_headers);
  headers.set = [set = headers.set](const base::Setting::Values& values) -> base::Status {
    for (const auto& value : values)
      if (base::Status status = check_header_pattern(value); !status.ok()) return status;
    return set(values);
  };
  rows.push_back(std::move(headers));
  rows.push_back(setting::size("oip.shared_memory_bytes",
                               "of all regions that clients have registered; one client has half of it at most",
                               shared_bytes_, 1 << 20, uint64_t(1) << 44));
  add_trace_settings(rows);
}

void OipDialect::add_trace_settings(std::vector<base::Setting>& rows) {
  namespace setting = base::setting;
  rows.push_back(setting::list("oip.trace_level", "LEVEL",
                               "what is traced of requests from the start on: TIMESTAMPS, TENSORS; by default nothing. "
                               "/v2/trace/setting changes it, and the next two",
                               trace_level_));
  rows.push_back(setting::count("oip.trace_rate", "one request of a model in so many is traced", trace_rate_, 1));
  rows.push_back(setting::text("oip.trace_count", "N", "so many requests are traced; -1 = any number", trace_count_));
  rows.push_back(setting::path("oip.trace_file",
                               "where traces go, in Triton's form: a file, which is begun anew, and after SIGUSR1 "
                               "where it was moved away, or a pipe. By default they go to the log",
                               trace_file_));
  rows.push_back(setting::size("oip.trace_file_bytes", "the most that the trace file may have; traces beyond are lost",
                               trace_file_bytes_, 1 << 10, uint64_t(1) << 44));
}

base::Status OipDialect::begin_traces(base::Metrics& metrics) {
  if (!trace_file_.empty()) {
    auto file = TraceFile::open(trace_file_, trace_file_bytes_, metrics);
    if (!file) return std::move(file).error();
    traces_.write_to(std::move(*file));
  }
  return traces_.begin_with(
      {{"trace_level", trace_level_}, {"trace_rate", {std::to_string(trace_rate_)}}, {"trace_count", {trace_count_}}});
}

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<OipDialect>(); }

}  // namespace weir::oip
