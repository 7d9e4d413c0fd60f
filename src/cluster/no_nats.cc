// The Cluster of a build without NATS: check() refuses the setting, so that none is made.
#include "base/check.h"
#include "cluster/cluster.h"
#include "cluster/nats_log.h"

namespace weir::cluster {

struct Cluster::Parts {
  std::string name;
};

Cluster::Cluster(const Settings&, Callbacks, base::MemoryLedger*) { base::check(false, "a cluster without NATS"); }
Cluster::~Cluster() = default;
void Cluster::start(const Listening&) {}
void Cluster::stop() {}
void Cluster::serve(std::vector<NodeModel>) {}
void Cluster::drain() {}
void Cluster::keep_sessions_for(base::Duration) {}
base::Duration Cluster::sessions_last() const { return {}; }
bool Cluster::save_session(const std::string&, std::string, Ownership::Done, KeptSessions::Tells) { return false; }
bool Cluster::find_session(const std::string&, std::string, KeptSessions::Found) { return false; }
void Cluster::end_session(const std::string&) {}
bool Cluster::move_session(const std::string&, const std::string&, KeptSessions::Found) { return false; }
bool Cluster::release_session(const std::string&, Ownership::Done) { return false; }
bool Cluster::after(base::Duration, std::function<void()>) { return false; }
void Cluster::keep_records_for(base::Duration) {}
bool Cluster::use_records(std::function<void(KeptRecords*)>) { return false; }
bool Cluster::answer_peer(std::string, std::function<void(std::string)>) { return false; }
uint64_t Cluster::epoch() const { return 0; }
bool Cluster::knows_nodes() const { return false; }
const std::string& Cluster::name() const { return parts_->name; }
std::string Cluster::detail() const { return {}; }
void Cluster::write_families(std::string&) const {}

struct NatsLog::Parts {};

NatsLog::NatsLog(Options, std::function<void()>) { base::check(false, "a log without NATS"); }
NatsLog::~NatsLog() = default;
base::Status NatsLog::start() { return {}; }
void NatsLog::stop() {}
base::Result<uint64_t> NatsLog::append(std::string_view, std::string_view) { return uint64_t(0); }
base::Result<std::optional<NatsLog::LogEntry>> NatsLog::next(uint64_t) { return std::optional<LogEntry>(); }
base::Result<NatsLog::Place> NatsLog::at(uint64_t) { return Place(); }
base::Result<NatsLog::Extent> NatsLog::extent() { return Extent(); }
base::Result<std::optional<NatsLog::Snapshot>> NatsLog::snapshot() { return std::optional<Snapshot>(); }
base::Result<NatsLog::Part> NatsLog::append_part(std::string_view) { return Part(); }
base::Result<std::string> NatsLog::read_part(const Part&) { return std::string(); }
base::Status NatsLog::set_snapshot(const Snapshot&) { return {}; }
base::Result<NatsLog::Room> NatsLog::room() { return Room(); }
NatsLog::Sizes NatsLog::sizes() const { return {}; }
void NatsLog::abandon() {}
bool NatsLog::connected() const { return false; }

}  // namespace weir::cluster
