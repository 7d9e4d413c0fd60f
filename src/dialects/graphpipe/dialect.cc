#include "dialects/dialect.h"

#include "dialects/graphpipe/graphpipe.h"
#include "graphpipe_openapi.h"
#include "wire/body_memory.h"
#include "wire/own_paths.h"

namespace weir::graphpipe {
namespace {

namespace setting = base::setting;

struct MountedGraphPipe final : dialects::Mounted {
  MountedGraphPipe(const dialects::ShardServices& shard, GraphPipeOptions options)
      : graphpipe(shard.bus, shard.router, shard.slabs, std::move(options)) {}

  GraphPipe graphpipe;
};

class GraphPipeDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "graphpipe"; }
  std::string_view title() const override { return "GraphPipe"; }
  std::string openapi() const override {
    constexpr std::string_view kPrefix = "{prefix}";
    std::string text(kOpenApi);
    for (size_t at = text.find(kPrefix); at != text.npos; at = text.find(kPrefix, at))
      text.replace(at, kPrefix.size(), options_.prefix);
    return text;
  }

  void add_settings(std::vector<base::Setting>& rows) override {
    base::Setting prefix = setting::text("graphpipe.prefix", "PATH", "models are at PATH/<model>", options_.prefix);
    rows.push_back(wire::beside_own_paths(setting::path_prefix(std::move(prefix), "/graphpipe"), {"/graphpipe"}));
    rows.push_back(setting::flag("graphpipe.root_post", "POST / is GraphPipe, too", root_post_));
    rows.push_back(setting::replaced("graphpipe.default_model", "models.default"));
  }

  base::Status open(const dialects::ServerServices& services) override {
    options_.server_name = services.name;
    options_.server_version = services.version;
    options_.root_post = root_post_ ? GraphPipeOptions::RootPost::kOn : GraphPipeOptions::RootPost::kOff;
    options_.max_body = services.limits.body;
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    GraphPipeOptions options = options_;
    options.ready = [&control = shard.control] { return control.ready(); };
    options.offload = &shard.offload;
    options.share = shard.bodies.rules().share;
    return std::make_unique<MountedGraphPipe>(shard, std::move(options));
  }

 private:
  GraphPipeOptions options_;
  bool root_post_ = true;  // POST / as well
};

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<GraphPipeDialect>(); }

}  // namespace weir::graphpipe
