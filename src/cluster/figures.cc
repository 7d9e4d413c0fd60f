#include "cluster/figures.h"

#include <string_view>

namespace weir::cluster {
namespace {

void family(std::string& out, std::string_view name, std::string_view type, std::string_view help, uint64_t value) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ");
  out.append(type).append("\n").append(name).append(" ").append(std::to_string(value)).append("\n");
}

void write_sessions(const Figures& f, std::string& out) {
  family(out, "weir_cluster_sessions", "gauge", "Sessions of this node that another one could go on with.", f.owned);
  family(out, "weir_cluster_unkept_sessions", "gauge", "Sessions whose last turn waits for NATS to be there.",
         f.unkept);
  family(out, "weir_cluster_taken_sessions_total", "counter", "Sessions of other nodes that this one has taken.",
         f.taken);
  family(out, "weir_cluster_refused_sessions_total", "counter", "Records of sessions that cannot be read.",
         f.refused_sessions);
  family(out, "weir_cluster_lost_turns_total", "counter",
         "Turns that are not kept: another node had the session, or there was no room for it.", f.lost_turns);
  family(out, "weir_cluster_unkept_responses", "gauge", "Stored responses that wait for NATS to be there.",
         f.unkept_responses);
  family(out, "weir_cluster_lost_responses_total", "counter",
         "Stored responses that this node alone has: there was no room for them.", f.lost_responses);
  family(out, "weir_cluster_refused_responses_total", "counter", "Records of responses that cannot be read.",
         f.refused_responses);
  family(out, "weir_cluster_left_responses_total", "counter",
         "Stored responses that had to go here and stay for the others: too many had to go at once.", f.left_responses);
}

}  // namespace

void Figures::write(std::string& out, Now now) const {
  family(out, "weir_cluster_nodes", "gauge", "Nodes that are there, this one among them.", now.nodes);
  family(out, "weir_cluster_connected", "gauge", "1 while the bucket in NATS can be reached.", now.connected);
  family(out, "weir_cluster_leased", "gauge", "1 while this node may answer for sessions that are kept.", now.leased);
  family(out, "weir_cluster_relayed", "gauge", "1 while another node writes for this one.", by_another);
  family(out, "weir_cluster_named_nodes", "gauge",
         "Nodes that this one's entry names; sooner than others they may take its sessions.", named);
  family(out, "weir_cluster_joins_total", "counter", "Nodes that have joined.", joins);
  family(out, "weir_cluster_leaves_total", "counter", "Nodes that have left, or fell silent.", leaves);
  family(out, "weir_cluster_losses_total", "counter", "Times that NATS went away.", losses);
  family(out, "weir_cluster_fences_total", "counter", "Times that this node was silent too long, and joined anew.",
         fences);
  write_sessions(*this, out);
  family(out, "weir_cluster_refused_entries_total", "counter", "Entries of the bucket that were not taken.", refused);
}

}  // namespace weir::cluster
