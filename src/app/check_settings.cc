#include "app/check_settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "app/access_control.h"
#include "app/roots.h"
#include "app/tracing.h"
#include "net/fetch_policy.h"
#include "net/tls.h"

namespace weir::app {
namespace {

using base::Status;

Status cannot_open(std::string_view setting, const std::string& path, int error) {
  return base::invalid(std::string(setting) + ": '" + path + "' cannot be opened: " + std::strerror(error));
}

Status check_certificates(const net::TlsOptions& tls) {
  if (tls.certificate.empty()) return {};
  auto context = net::TlsContext::load(tls);
  return context ? Status() : context.error();
}

// A file that the server would append to. A missing one is not made: it would belong to who runs the check.
Status check_log(std::string_view setting, const std::string& where) {
  if (where.empty() || where == "off" || where == "-") return {};
  std::error_code error;
  if (std::filesystem::is_directory(where, error)) return cannot_open(setting, where, EISDIR);
  if (::access(where.c_str(), W_OK) == 0) return {};
  if (errno != ENOENT) return cannot_open(setting, where, errno);
  std::string folder = std::filesystem::path(where).parent_path();
  if (folder.empty()) folder = ".";
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? Status() : cannot_open(setting, where, errno);
}

// A database that a server has open is locked, so only the folder is looked at.
Status check_jobs(const JobsConfig& config) {
  const std::string folder = jobs_folder(config, ::getenv);
  if (folder.empty()) return {};
  if (::mkdir(folder.c_str(), 0700) == 0) {
    ::rmdir(folder.c_str());
    return {};
  }
  if (errno != EEXIST) return cannot_open("jobs.path", folder, errno);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return cannot_open("jobs.path", folder, ENOTDIR);
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? Status() : cannot_open("jobs.path", folder, errno);
}

Status check_tracing(const TracingConfig& config) {
  base::Metrics metrics;
  auto tracing = Tracing::open(config, metrics);
  if (!tracing) return tracing.error();
  if (*tracing) (*tracing)->stop(base::Duration(0));
  return {};
}

Status check_fetching(const dialects::Dialect& dialect) {
  const wire::FetchRules* rules = dialect.fetch_rules();
  if (!rules || rules->schemes.empty()) return {};
  Status status;
  if (auto policy = net::FetchPolicy::make(*rules); !policy) status = policy.error();
  if (auto tls = net::TlsContext::for_client(rules->ca_file); status.ok() && !tls) status = tls.error();
  return status.ok() ? status : base::invalid(std::string(dialect.name()) + ".references: " + status.text);
}

}  // namespace

Status check_settings(const Config& config) {
  if (auto s = check_roots(config); !s.ok()) return s;
  if (auto s = check_certificates(config.tls); !s.ok()) return s;
  const auto& nodes = config.cluster.tls;
  if (auto s = check_certificates({nodes.certificate, nodes.key, nodes.ca, true}); !s.ok()) return s;
  if (auto s = AccessControl(config).open(); !s.ok()) return s;
  if (auto s = check_log("access_log", config.access_log); !s.ok()) return s;
  if (auto s = check_log("audit_log", config.audit_log); !s.ok()) return s;
  if (auto s = check_jobs(config.jobs); !s.ok()) return s;
  if (auto s = check_tracing(config.tracing); !s.ok()) return s;
  for (const auto* dialect : config.served())
    if (auto s = check_fetching(*dialect); !s.ok()) return s;
  return {};
}

}  // namespace weir::app
