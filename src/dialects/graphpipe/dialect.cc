#include "dialects/dialect.h"

#include "dialects/graphpipe/graphpipe.h"

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

  void add_settings(std::vector<base::Setting>& rows) override {
    auto check = [](const setting::Values& values) -> base::Status {
      for (const auto& v : values)
        if (v.size() < 2 || v[0] != '/' || v.back() == '/' || v.find_first_of("{}?# ") != v.npos)
          return base::invalid("expected a path like /graphpipe, got '" + v + "'");
      return {};
    };
    rows.push_back(setting::checked(
        setting::text("graphpipe.prefix", "PATH", "models are at PATH/<model>", options_.prefix), check));
    rows.push_back(setting::flag("graphpipe.root_post", "POST / is GraphPipe, too", root_post_));
  }

  base::Status open(const dialects::ServerServices& services) override {
    options_.server_version = services.version;
    options_.root_post = root_post_ ? GraphPipeOptions::RootPost::kOn : GraphPipeOptions::RootPost::kOff;
    options_.max_body = services.limits.body;
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    GraphPipeOptions options = options_;
    options.ready = [&control = shard.control] { return control.ready(); };
    options.offload = &shard.offload;
    return std::make_unique<MountedGraphPipe>(shard, std::move(options));
  }

 private:
  GraphPipeOptions options_;
  bool root_post_ = true;  // POST / as well
};

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<GraphPipeDialect>(); }

}  // namespace weir::graphpipe
