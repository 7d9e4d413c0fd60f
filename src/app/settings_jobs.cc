// Settings of the journal: files, batches and jobs that outlive their requests.
#include "app/setting_rows.h"

namespace weir::app {

std::string jobs_folder(const JobsConfig& config, const std::function<const char*(const char* name)>& environment) {
  if (config.path == "off") return {};
  if (!config.path.empty()) return config.path;
  const char* state = environment("STATE_DIRECTORY");
  if (!state || !*state) return {};
  const std::string_view all = state;  // several are separated by colons
  return std::string(all.substr(0, all.find(':'))) + "/jobs";
}

namespace {

Status check_folder(const Values& values) {
  for (const auto& v : values)
    if (v != "off" && is_switch(v)) return invalid("expected off or a folder, got '" + v + "'");
  return {};
}

}  // namespace

void add_jobs(std::vector<Setting>& rows, Config& c) {
  constexpr uint64_t kK = 1 << 10, kM = 1 << 20, kG = 1 << 30;
  jobs::Limits& limits = c.jobs.limits;
  Setting folder =
      path("jobs.path",
           "folder for files, batches and jobs that outlive their requests; off; empty: jobs/ in systemd's "
           "STATE_DIRECTORY, and off where there is none",
           c.jobs.path);
  folder.unit = "WHERE";
  rows.push_back(in_help(checked(std::move(folder), check_folder)));
  rows.push_back(size("jobs.max_file", "largest upload", limits.max_file, kK, 64 * kG));
  rows.push_back(size("jobs.max_line", "of one request of a batch", limits.max_line, kK, 64 * kM));
  rows.push_back(count("jobs.max_lines", "requests of one batch", limits.max_lines, 1, 10000000));
  rows.push_back(size("jobs.max_result", "largest answer of a job", limits.max_result, kK, kG));
  rows.push_back(size("jobs.disk", "of all that is kept", limits.disk, kM, kG * kK * kK));
  rows.push_back(size("jobs.tenant_disk", "and of one tenant", limits.tenant_disk, kM, kG * kK * kK));
  rows.push_back(count("jobs.max_files", "files of one tenant", limits.max_files, 1));
  rows.push_back(count("jobs.max_batches", "batches and jobs of one tenant that are not over", limits.max_batches, 1));
  rows.push_back(count("jobs.concurrency", "jobs that run at once, of the whole server", limits.concurrency, 1, 4096));
  rows.push_back(duration("jobs.file_ttl", "how long files, and batches that are over, are kept", limits.file_ttl,
                          std::chrono::seconds(1)));
  rows.push_back(duration("jobs.result_ttl", "how long the result of an asynchronous inference is kept",
                          limits.result_ttl, std::chrono::seconds(1)));
}

}  // namespace weir::app
