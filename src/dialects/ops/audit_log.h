// AuditLog: one JSON object per line for every request for an admin method (wire::Permission::kAdmin, of its route or
// by Router::permit()), in any protocol and also if it was refused, and for changes of the keys that the server reads
// itself.
//
//   {"time":"2024-01-02T03:04:05.678901Z","request_id":"…","who":"ops-key","peer":"192.0.2.1:5000",
//    "protocol":"oip-rest","action":"POST
//    /v2/repository/models/{model}/load","model":"digits","path":"/v2/repository/models/digits/load","status":200,"code":"OK"}
//   {"time":"…","action":"keys were read","path":"/etc/weir/keys.yaml","code":"OK"}
//
// `who` is the name of a key, of a token's subject or of a certificate, as the Authenticator knows it, also of one that
// lacks the role or is over its limits; it is left out without authentication. `change` has the settings that the
// request has changed, with their new values: "log_info=true log_verbose_level=1". Lines go to a base::LineFile, or to
// the server's log as the event "admin action".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/env.h"
#include "base/line_file.h"
#include "base/metrics.h"
#include "base/status.h"
#include "wire/authenticator.h"
#include "wire/router.h"

namespace weir::ops {

class AuditLog {
 public:
  // `where`: "" for the server's log, "-" for standard output, or a file to append to, which others may not read.
  // Errors: the file cannot be opened.
  static base::Result<std::unique_ptr<AuditLog>> open(const std::string& where, base::Metrics& metrics);
  void reopen();  // after the file was moved away; any thread

  // Writes a line for an action of the server's own. `path`: the file that it was about. Any thread.
  void note(base::WallTime at, std::string_view action, std::string_view path, const base::Status& outcome);

  // One shard's way in, on its thread. Admin requests are few: each line goes to the writer at once.
  class ShardLog final : public wire::Observer {
   public:
    // `router` has all its routes. `authenticator` names those who were refused; null: nobody is asked. Both are the
    // shard's, and borrowed.
    ShardLog(AuditLog& log, base::Env& env, const wire::Router& router, wire::Authenticator* authenticator);
    // The request has changed settings: its line says so.
    void changed(const wire::Exchange& exchange, std::string change) { changes_[&exchange] = std::move(change); }
    void finished(const wire::Exchange& exchange) override;
    void rejected(std::string_view, const wire::PeerInfo&) override {}

   private:
    bool is_admin(const wire::Exchange& exchange) const;
    std::string who(const wire::Exchange& exchange) const;

    AuditLog& log_;
    base::Env& env_;
    wire::Authenticator* const authenticator_;
    std::unordered_map<const wire::Exchange*, std::string> changes_;     // of requests that have not ended
    std::unordered_multimap<std::string_view, std::string_view> admin_;  // patterns → methods, the Router's
  };

 private:
  explicit AuditLog(std::unique_ptr<base::LineFile> file) : file_(std::move(file)) {}

  std::unique_ptr<base::LineFile> file_;  // null: the server's log
};

}  // namespace weir::ops
