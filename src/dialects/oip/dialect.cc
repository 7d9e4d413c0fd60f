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
  MountedOip(const dialects::ShardServices& shard, Traces& traces, SharedRegions& regions, OipOptions options)
      : oip(shard.bus, shard.router, shard.rpcs, shard.slabs, shard.control, traces, regions, std::move(options)) {}

  Oip oip;
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
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    OipOptions options = options_;
    options.jobs = &shard.jobs;
    options.offload = &shard.offload;
    options.env = &shard.env;
    options.post = [post = post_, id = shard.id](std::function<void()> work) { post(id, std::move(work)); };
    return std::make_unique<MountedOip>(shard, traces_, regions_, std::move(options));
  }

 private:
  OipOptions options_;
  std::function<void(base::ShardId, std::function<void()>)> post_;  // ServerServices::post
  Sharing sharing_ = Sharing::kLocal;
  uint64_t shared_bytes_ = uint64_t(4) << 30;
  std::optional<AsyncDuty> duty_;
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
}

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<OipDialect>(); }

}  // namespace weir::oip
